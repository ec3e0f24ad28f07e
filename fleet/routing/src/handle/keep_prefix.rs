//! A server of a pool with `keep_routing_prefix`: it gets keys as the client has sent them.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::request::Request;
use crate::step::{Cx, NodeId, Rewrite, Step};

#[derive(Debug)]
pub(crate) struct KeepPrefix(pub(crate) NodeId);

impl Handle for KeepPrefix {
    fn parse(_build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        Err(json.error("'keep_routing_prefix' is a member of a pool"))
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        if request.prefix.is_empty() {
            return Step::Tail(self.0);
        }
        let key = cx.text(&[request.prefix, request.key]);
        Step::Rewritten(self.0, Rewrite::key(key))
    }
}
