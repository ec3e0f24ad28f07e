//! Changes keys.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::request::Request;
use crate::step::{Cx, NodeId, Rewrite, Step};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct ModifyKey {
    target: NodeId,
    /// Every key begins with it.
    ensure: Arc<str>,
    /// The prefix that `ensure` replaces.
    replace: Option<Arc<str>>,
    suffix: Arc<str>,
    /// The routing prefix, for servers that get it.
    prefix: Option<Arc<str>>,
    missing: Missing,
}

/// What happens to a key that lacks the expected prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Inserted,
    /// Its first bytes are replaced.
    Overwritten,
}

impl Handle for ModifyKey {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let target = members.child("target")?;
        let ensure = members.key_part("ensure_key_prefix")?.unwrap_or_default();
        let replace = members.key_part("replace_key_prefix")?;
        let suffix = members.key_part("set_key_suffix")?.unwrap_or_default();
        let prefix = members.key_part("set_routing_prefix")?;
        if let Some(prefix) = prefix.as_deref().filter(|prefix| !prefix.is_empty())
            && crate::prefix::parts(prefix).is_none()
        {
            return Err(json.error(format!("'set_routing_prefix' is {prefix:?}, which is not of the form /region/cluster/")));
        }
        let is_in_place = members.flag("modify_inplace")?;
        members.end();
        if replace.is_some() && is_in_place.is_some() {
            return Err(json.error("replace_key_prefix and modify_inplace exclude each other"));
        }
        let missing = if is_in_place == Some(true) { Missing::Overwritten } else { Missing::Inserted };
        Ok(ModifyKey { target, ensure, replace, suffix, prefix, missing })
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let ensure = self.ensure.as_bytes();
        let replaced =
            self.replace.as_ref().and_then(|prefix| request.key.strip_prefix(prefix.as_bytes()));
        let (begin, rest) = match replaced {
            Some(rest) => (ensure, rest),
            None if request.key.starts_with(ensure) => (b"".as_slice(), request.key),
            None if self.missing == Missing::Overwritten && request.key.len() >= ensure.len() => {
                (ensure, &request.key[ensure.len()..])
            }
            None => (ensure, request.key),
        };
        let is_same = begin.is_empty() && rest.len() == request.key.len() && self.suffix.is_empty();
        let prefix = self.prefix.as_ref().filter(|prefix| prefix.as_bytes() != request.prefix);
        if is_same && prefix.is_none() {
            return Step::Tail(self.target);
        }
        let key = (!is_same).then(|| cx.text(&[begin, rest, self.suffix.as_bytes()]));
        let prefix = prefix.map(|prefix| cx.text(&[prefix.as_bytes()]));
        Step::Rewritten(self.target, Rewrite { key, prefix, ..Rewrite::NONE })
    }
}
