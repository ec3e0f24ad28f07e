//! Sends a request to all children and answers at once, like a cache without items.

use super::{Children, Handle};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::without_items;
use crate::request::Request;
use crate::step::{Cx, Rewrite, Step};

#[derive(Debug)]
pub(crate) struct AllAsync(Children);

impl Handle for AllAsync {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        build.only_children(json).map(AllAsync)
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        self.0.iter().for_each(|child| cx.notify(*child, Rewrite::NONE));
        Step::Answer(without_items(request.op))
    }
}
