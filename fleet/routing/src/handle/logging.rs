//! Passes requests on. mcrouter's handle also logs the replies, for debugging; `watch` of this
//! router shows more.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::request::Request;
use crate::step::{Cx, NodeId, Step};

#[derive(Debug)]
pub(crate) struct LoggingRoute(NodeId);

impl LoggingRoute {
    pub(crate) fn new(target: NodeId) -> Self {
        LoggingRoute(target)
    }
}

impl Handle for LoggingRoute {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let target = members.main_child_or_null("target")?;
        members.end();
        Ok(LoggingRoute(target))
    }

    fn enter(&self, _cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        Step::Tail(self.0)
    }
}
