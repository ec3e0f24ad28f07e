//! Sends a request to all children, and returns the reply of the first child.

use super::{Children, Handle};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::request::Request;
use crate::step::{Cx, Rewrite, Step};

#[derive(Debug)]
pub(crate) struct AllInitial(Children);

impl Handle for AllInitial {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        build.only_children(json).map(AllInitial)
    }

    fn enter(&self, cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        self.0[1..].iter().for_each(|child| cx.notify(*child, Rewrite::NONE));
        Step::Tail(self.0[0])
    }
}
