//! Answers as a cache without items does.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::without_items;
use crate::request::Request;
use crate::step::{Cx, Step};

#[derive(Debug)]
pub(crate) struct Null;

impl Handle for Null {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        build.members(json)?.end();
        Ok(Null)
    }

    fn enter(&self, _cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        Step::Answer(without_items(request.op))
    }
}
