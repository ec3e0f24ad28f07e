//! Routes requests whose routing prefix has an asterisk: to all routes that it matches.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::Answer;
use crate::prefix;
use crate::request::{Op, Request};
use crate::step::{Cx, NodeId, Rewrite, State, Step, Then};
use guira_sync::simulated::is_planted;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// Prefixes with their routes, those nearest to the default first: of several, the first answers.
#[derive(Debug)]
pub(crate) struct RoutingPrefixes {
    prefixes: Box<[(Arc<str>, NodeId)]>,
    /// The matches of the usual patterns: all, a region, and a cluster of all regions.
    usual: HashMap<Box<[u8]>, Vec<NodeId>>,
}

impl RoutingPrefixes {
    pub(crate) fn new(nearest_first: Vec<(Arc<str>, NodeId)>) -> Self {
        let mut usual: HashMap<Box<[u8]>, Vec<NodeId>> = HashMap::new();
        let mut add = |pattern: &str, node| once(usual.entry(pattern.as_bytes().into()).or_default(), node);
        for (prefix, node) in &nearest_first {
            let Some((region, cluster)) = prefix::parts(prefix) else { continue };
            add("/*/*/", *node);
            // With an asterisk of its own, a name stands for others too.
            if !region.contains('*') {
                add(&format!("/{region}/*/"), *node);
            }
            if !cluster.contains('*') {
                add(&format!("/*/{cluster}/"), *node);
            }
        }
        RoutingPrefixes { prefixes: nearest_first.into(), usual }
    }

    /// The routes that a pattern leads to, each once.
    fn matching(&self, pattern: &[u8]) -> Cow<'_, [NodeId]> {
        if let Some(nodes) = self.usual.get(pattern) {
            return Cow::Borrowed(nodes);
        }
        let mut nodes = Vec::new();
        let meant = self.prefixes.iter().filter(|(known, _)| prefix::matches(pattern, known.as_bytes()));
        meant.for_each(|(_, node)| once(&mut nodes, *node));
        Cow::Owned(nodes)
    }
}

fn once(nodes: &mut Vec<NodeId>, node: NodeId) {
    if !nodes.contains(&node) {
        nodes.push(node);
    }
}

impl Handle for RoutingPrefixes {
    fn parse(_build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        Err(json.error("RoutingPrefixes is what a routing prefix with an asterisk leads to"))
    }

    /// As in mcrouter, the nearest route answers and the others are sent the same; a delete is only acknowledged when all routes have
    /// acknowledged it, as otherwise one that fails elsewhere would be lost.
    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let nodes = self.matching(request.prefix);
        let Some((nearest, others)) = nodes.split_first() else {
            return Step::Answer(crate::Outcome::LocalError);
        };
        if request.op != Op::Delete || is_planted("delete-acknowledged-by-the-nearest") {
            others.iter().for_each(|node| cx.notify(*node, Rewrite::NONE));
            return Step::Tail(*nearest);
        }
        nodes.iter().zip(0..).for_each(|(node, number)| cx.request(*node, Rewrite::NONE, number));
        Step::Await(State { b: nodes.len() as u128, ..State::default() })
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        _child: u32,
        _request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        let requested = state.b as usize;
        super::worst(cx, state, requested, answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_patterns_lead_where_they_match() {
        let prefixes = ["/a/x/", "/a/y/", "/b/x/", "/a*/x/", "/b/x*/", "/ab/z/"];
        let nodes = [1, 2, 1, 3, 4, 5].map(NodeId);
        let roots = prefixes.into_iter().map(Arc::from).zip(nodes).collect();
        let routes = RoutingPrefixes::new(roots);
        for pattern in ["/*/*/", "/a/*/", "/b/*/", "/*/x/", "/*/x*/", "/a*/*/", "/*/z/", "/ab/*/", "/c/*/"] {
            let is_meant = |prefix: &&str| prefix::matches(pattern.as_bytes(), prefix.as_bytes());
            let mut expected = Vec::new();
            let meant = prefixes.iter().zip(nodes).filter(|(prefix, _)| is_meant(prefix));
            meant.for_each(|(_, node)| once(&mut expected, node));
            assert_eq!(*routes.matching(pattern.as_bytes()), expected, "{pattern}");
        }
    }
}
