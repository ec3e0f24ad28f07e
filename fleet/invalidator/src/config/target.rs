//! Targets: `[[target]]`.

use super::{ConfigError, endpoints};
use crate::deliver::{Dialect, How, KEY_LEAST, KEY_MAX, Ways};
use guira_client::text::{Endpoint, Target};
use guira_sql::{Tls, endpoint, prefix, secured};
use serde::Deserialize;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// The default timeout of a request to a target.
const TIMEOUT_MS: NonZeroU32 = NonZeroU32::new(5000).unwrap();
/// The defaults of `linger-ms` (a batch waits for further keys) and `again-after-ms` (a batch is
/// delivered a second time).
const LINGER_MS: u32 = 10;
const AGAIN_AFTER_MS: u32 = 500;
/// The longest wait before the second delivery: all keys stay in memory until then.
const AGAIN_AFTER_MS_MAX: u32 = 60_000;
const LINGER_MS_MAX: u32 = 1000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TargetConfig {
    pub(crate) name: String,
    #[serde(deserialize_with = "endpoint")]
    pub(crate) address: Endpoint,
    #[serde(default)]
    tls: Option<Tls>,
    /// A file that begins with USER:PASSWORD.
    #[serde(default)]
    login_file: Option<PathBuf>,
    /// The servers that are flushed after a gap, instead of the target itself; may be empty.
    #[serde(default, deserialize_with = "endpoints")]
    flush: Option<Vec<Endpoint>>,
    #[serde(default, rename = "protocol")]
    pub(crate) dialect: Dialect,
    /// A prefix of every key, such as a routing prefix.
    #[serde(default, deserialize_with = "prefix")]
    prefix: String,
    #[serde(default = "timeout_ms")]
    timeout_ms: NonZeroU32,
    #[serde(default = "linger_ms")]
    pub(super) linger_ms: u32,
    /// 0 turns the second delivery off.
    #[serde(default)]
    again_after_ms: Option<u32>,
    #[serde(default)]
    hold_off_s: Option<NonZeroU32>,
}

impl TargetConfig {
    pub(crate) fn how(&self) -> How {
        How { prefix: self.prefix.clone(), hold_off_s: self.hold_off_s.map(NonZeroU32::get) }
    }

    /// The longest key in bytes that leaves room for the prefix.
    pub(super) fn key_max(&self) -> usize {
        KEY_MAX.saturating_sub(self.prefix.len())
    }

    /// A target with a hold-off needs no second delete.
    pub(super) fn again_after(&self) -> Option<Duration> {
        let default = if self.hold_off_s.is_some() { 0 } else { AGAIN_AFTER_MS };
        let after = self.again_after_ms.unwrap_or(default);
        (after > 0).then(|| Duration::from_millis(after.into()))
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let name = &self.name;
        let mut addresses = std::iter::once(&self.address).chain(self.flush.iter().flatten());
        let checked =
            addresses.try_for_each(|address| self.tls.as_ref().map_or(Ok(()), |tls| tls.check(address)));
        checked.map_err(|error| format!("of {name}: {error}"))?;
        if self.key_max() < KEY_LEAST {
            return Err(format!(
                "prefix of {name} is too long: prefix and key have at most {KEY_MAX} bytes, and a key may have {KEY_LEAST}"
            ));
        }
        if self.linger_ms > LINGER_MS_MAX {
            return Err(format!("linger-ms of {name} must be at most {LINGER_MS_MAX}"));
        }
        if self.again_after_ms.is_some_and(|after| after > AGAIN_AFTER_MS_MAX) {
            return Err(format!("again-after-ms of {name} must be at most {AGAIN_AFTER_MS_MAX}"));
        }
        Ok(())
    }

    /// The addresses of the target, whose certificate files were read.
    pub(super) fn ways(&self) -> Result<Ways, ConfigError> {
        let flushes = self.flush.as_deref().unwrap_or(std::slice::from_ref(&self.address));
        let flushes = flushes.iter().map(|address| self.server(address)).collect::<Result<_, _>>()?;
        Ok(Ways { deletes: self.server(&self.address)?, flushes })
    }

    fn server(&self, address: &Endpoint) -> Result<Target, ConfigError> {
        let server = secured(Target::new(address.clone(), self.timeout()), self.tls.as_ref())?;
        Ok(match &self.login_file {
            Some(file) => server.with_login_file(file.clone())?,
            None => server,
        })
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(u64::from(self.timeout_ms.get()))
    }
}

fn timeout_ms() -> NonZeroU32 {
    TIMEOUT_MS
}

fn linger_ms() -> u32 {
    LINGER_MS
}
