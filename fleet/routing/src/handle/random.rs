//! Any of the children, for each request.

use super::{Children, Handle};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::request::Request;
use crate::step::{Cx, Step};

#[derive(Debug)]
pub(crate) struct Random(Children);

impl Handle for Random {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        build.only_children(json).map(Random)
    }

    fn enter(&self, cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        Step::Tail(self.0[cx.random(self.0.len())])
    }
}
