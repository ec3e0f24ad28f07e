//! How a hash of a key chooses among servers.

use crate::config::{ConfigError, Json};
use crate::hash::{HashKind, Selector, ServerIdentity};

pub(super) fn weigh(identities: &mut [ServerIdentity<'_>], weights: &[Json]) -> Result<(), ConfigError> {
    for (identity, weight) in identities.iter_mut().zip(weights) {
        *identity = identity.weighing(weight.number("weights", 0.0..=f64::from(u32::MAX))?);
    }
    Ok(())
}

/// The tags and weights of children for hashes, if there are any.
pub(super) fn identities<'a>(
    names: &'a [String],
    tags: Option<&'a Json>,
    weights: Option<&Json>,
) -> Result<Vec<ServerIdentity<'a>>, ConfigError> {
    let tags = match tags {
        Some(tags) => {
            let list = tags.list("tags")?;
            if list.len() != names.len() {
                return Err(tags.error(format!("{} tags for {} children", list.len(), names.len())));
            }
            list.iter().map(|tag| tag.text("tags")).collect::<Result<Vec<_>, _>>()?
        }
        None => names.iter().map(|name| &**name).collect(),
    };
    let mut identities: Vec<_> = tags.into_iter().map(ServerIdentity::named).collect();
    if let Some(weights) = weights {
        weigh(&mut identities, weights.list("weights")?)?;
    }
    Ok(identities)
}

/// A hash without a name is Ch3, as in mcrouter.
pub(super) fn selector(
    at: &Json,
    kind: Option<&str>,
    salt: Option<&str>,
    servers: &[ServerIdentity<'_>],
) -> Result<Selector, ConfigError> {
    let kind = HashKind::from_name(kind.unwrap_or("Ch3")).map_err(|error| at.error(error.to_string()))?;
    Selector::new(kind, servers, salt.unwrap_or_default()).map_err(|error| at.error(error.to_string()))
}
