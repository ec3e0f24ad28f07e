//! What a routing prefix with an asterisk leads to: all routes whose prefix it matches.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::Answer;
use crate::prefix;
use crate::request::{Op, Request};
use crate::step::{Cx, NodeId, Rewrite, State, Step, Then};
use std::sync::Arc;

/// Prefixes with their routes, those nearest to the default first: of several, the first answers.
#[derive(Debug)]
pub(crate) struct RoutingPrefixes(Box<[(Arc<str>, NodeId)]>);

impl RoutingPrefixes {
    pub(crate) fn new(nearest_first: Vec<(Arc<str>, NodeId)>) -> Self {
        RoutingPrefixes(nearest_first.into())
    }

    /// The routes that a pattern leads to, each once.
    fn matching<'a>(&'a self, pattern: &'a [u8]) -> impl Iterator<Item = NodeId> + 'a {
        let is_meant = move |(known, _): &&(Arc<str>, NodeId)| prefix::matches(pattern, known.as_bytes());
        self.0.iter().enumerate().filter(move |(_, root)| is_meant(root)).filter_map(move |(at, (_, node))| {
            let is_repeated = self.0[..at].iter().filter(is_meant).any(|(_, earlier)| earlier == node);
            (!is_repeated).then_some(*node)
        })
    }
}

impl Handle for RoutingPrefixes {
    fn parse(_build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        Err(json.error("RoutingPrefixes is what a routing prefix with an asterisk leads to"))
    }

    /// As in mcrouter, the nearest route answers and the others are sent the same; a delete is only acknowledged when all routes have
    /// acknowledged it, as otherwise one that fails elsewhere would be lost.
    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let mut nodes = self.matching(request.prefix);
        let Some(nearest) = nodes.next() else {
            return Step::Answer(crate::Outcome::LocalError);
        };
        if request.op != Op::Delete {
            nodes.for_each(|node| cx.tell(node, Rewrite::NONE));
            return Step::Tail(nearest);
        }
        let mut asked = 0;
        for node in std::iter::once(nearest).chain(nodes) {
            cx.ask(node, Rewrite::NONE, asked);
            asked += 1;
        }
        Step::Await(State { b: u128::from(asked), ..State::default() })
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        _child: u32,
        _request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        let asked = state.b as usize;
        super::worst(cx, state, asked, answer)
    }
}
