//! Replies as a cache without items does, and counts the requests.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::counts::{RouteCount, Tally};
use crate::outcome::without_items;
use crate::request::Request;
use crate::step::{Cx, Step};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct DevNull(Arc<Tally>);

impl Handle for DevNull {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        build.members(json)?.end();
        Ok(DevNull(build.tally()))
    }

    fn enter(&self, _cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        self.0.add(RouteCount::DevNull, 1);
        Step::Answer(without_items(request.op))
    }

    fn explore(&self, _cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        Step::Answer(without_items(request.op))
    }
}
