//! Sends a request to all children, until more than half have returned the same result. Returns the
//! most frequent result, and the worst of several equally frequent ones.

use super::{Children, Handle};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::Answer;
use crate::request::Request;
use crate::step::{Cx, State, Step, Then};

#[derive(Debug)]
pub(crate) struct AllMajority(Children);

/// Bits of a count in the state, one for each outcome.
const BITS: u32 = 5;
const CHILDREN_MAX: usize = (1 << BITS) - 1;

impl Handle for AllMajority {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let children = build.only_children(json)?;
        if children.len() > CHILDREN_MAX {
            return Err(json.error(format!("at most {CHILDREN_MAX} children have a majority")));
        }
        Ok(AllMajority(children))
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
        let place = answer.outcome as u32 * BITS;
        state.b += 1 << place;
        let count = (state.b >> place) as u32 & CHILDREN_MAX as u32;
        // The most so far, and the severity of their result.
        let (most, severity) = (state.a >> 8, state.a & 0xff);
        let own = u32::from(answer.outcome.severity());
        let is_last = state.answers as usize == self.0.len();
        if (count, own) > (most, severity) {
            state.a = count << 8 | own;
            if is_last || count as usize > self.0.len() / 2 {
                return Then::Pass;
            }
            cx.hold();
        }
        if is_last { Then::Held } else { Then::Wait }
    }
}
