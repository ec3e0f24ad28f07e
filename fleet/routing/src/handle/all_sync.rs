//! Sends a request to all children, waits for all of them, and returns the worst reply.

use super::{Children, Handle};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::Answer;
use crate::request::Request;
use crate::step::{Cx, State, Step, Then};

#[derive(Debug)]
pub(crate) struct AllSync(Children);

impl AllSync {
    pub(crate) fn new(children: Children) -> Self {
        AllSync(children)
    }
}

impl Handle for AllSync {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        build.only_children(json).map(AllSync)
    }

    fn enter(&self, cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        match *self.0 {
            [only] => Step::Tail(only),
            _ => {
                super::request_all(cx, &self.0);
                Step::Await(State::default())
            }
        }
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        _child: u32,
        _request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        super::worst(cx, state, self.0.len(), answer)
    }
}
