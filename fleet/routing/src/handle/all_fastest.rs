//! Sends a request to all children, and returns the first reply that is no error; if all fail, the
//! last reply.

use super::{Children, Handle};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::Answer;
use crate::request::Request;
use crate::step::{Cx, State, Step, Then};

#[derive(Debug)]
pub(crate) struct AllFastest(Children);

impl Handle for AllFastest {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        build.only_children(json).map(AllFastest)
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
        _cx: &mut Cx<'_>,
        state: &mut State,
        _child: u32,
        _request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        let is_last = state.answers as usize == self.0.len();
        if is_last || !answer.outcome.is_error() { Then::Pass } else { Then::Wait }
    }
}
