//! The path of a request through a tree, without sending it.

use crate::handle::AnyHandle;
use crate::outcome::{Answer, Outcome};
use crate::prefix;
use crate::request::{Op, Request};
use crate::step::{Cx, DestinationId, Facts, Holds, LogName, NodeId, Step, Wanted};
use crate::tree::Tree;
use crate::walk::{RewriteBuffer, apply};
use std::fmt;

/// A handle on the path of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The number of handles above it.
    pub depth: usize,
    pub handle: &'static str,
    /// The reason for its choice of a child.
    pub reason: Option<String>,
    /// The key at this handle, without a routing prefix.
    pub key: Box<[u8]>,
    /// The number of a server.
    pub destination: Option<DestinationId>,
    /// Whether its reply matters. It may be used only if others have failed.
    pub is_awaited: bool,
}

const SERVER: &str = "Destination";

/// A longer path is cut off: handles with names may be part of a tree many times.
const LINES_MAX: usize = 10_000;

impl Tree {
    /// All handles that a request may reach, each followed by its children in the order in which
    /// they are tried: the first one replies unless it fails. Empty if the key's routing prefix
    /// leads nowhere.
    pub fn explain(&self, op: Op, key: &[u8], facts: Facts) -> Vec<Line> {
        let mut lines = Vec::new();
        if let Some((root, prefix)) = self.root(key) {
            let (prefix, key) = key.split_at(prefix);
            let request = Request { prefix, ..Request::classic(op, key) };
            Path { tree: self, facts, lines: &mut lines }.follow(root, &request, 0, true);
        }
        lines
    }

    /// The current destinations of a logged delete: servers, and its key there. Empty if no handle
    /// logs under that name any more.
    pub fn relocate(&self, log: LogName, key: &[u8], facts: Facts) -> Vec<(DestinationId, Box<[u8]>)> {
        let mut lines = Vec::new();
        if let Some(node) = self.log(log) {
            // If the pool keeps routing prefixes, the key was logged with its own.
            let (prefix, key) = key.split_at(prefix::length(key).unwrap_or(0));
            let request = Request { prefix, ..Request::classic(Op::Delete, key) };
            Path { tree: self, facts, lines: &mut lines }.follow(node, &request, 0, true);
        }
        let requested = lines.into_iter().filter(|line| line.is_awaited);
        requested.filter_map(|line| line.destination.map(|number| (number, line.key))).collect()
    }
}

struct Path<'a> {
    tree: &'a Tree,
    facts: Facts,
    lines: &'a mut Vec<Line>,
}

impl Path<'_> {
    fn follow(&mut self, node: NodeId, request: &Request<'_>, depth: usize, is_awaited: bool) {
        if self.lines.len() >= LINES_MAX {
            return;
        }
        let handle = self.tree.handle(node);
        let (mut child_requests, mut scratch, mut random, mut waits) =
            (Vec::new(), Vec::new(), 0, Vec::new());
        let mut cx = Cx {
            facts: self.facts,
            now_ms: self.facts.now_ms,
            domains: self.tree.domains(),
            child_requests: &mut child_requests,
            scratch: &mut scratch,
            random: &mut random,
            waits: &mut waits,
            holds: Holds::No,
        };
        let step = handle.explore(&mut cx, request);
        self.lines.push(Line {
            depth,
            handle: name(handle),
            reason: handle.reason(request),
            key: request.key.into(),
            destination: handle.destination(),
            is_awaited,
        });
        let nothing = Answer::of(Outcome::NotFound);
        match step {
            Step::Tail(next) => self.follow(next, request, depth + 1, is_awaited),
            Step::Rewritten(next, rewrite) => {
                let mut key = RewriteBuffer::new();
                if let Some(request) = apply(&scratch, &rewrite, request, &nothing, &mut key) {
                    self.follow(next, &request, depth + 1, is_awaited);
                }
            }
            Step::Send(..) | Step::Counted(..) | Step::Answer(_) | Step::Fail(..) | Step::Await(_) => {}
        }
        for child_request in child_requests {
            let mut key = RewriteBuffer::new();
            if let Some(request) = apply(&scratch, &child_request.rewrite, request, &nothing, &mut key) {
                let is_awaited = is_awaited && child_request.answer != Wanted::No;
                self.follow(child_request.node, &request, depth + 1, is_awaited);
            }
        }
    }
}

/// The name in configurations, which do not distinguish counted servers.
fn name(handle: &AnyHandle) -> &'static str {
    if handle.destination().is_some() { SERVER } else { handle.name() }
}

/// The line, indented by its depth.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:width$}{}", "", self.handle, width = 2 * self.depth)?;
        if let Some(destination) = self.destination {
            write!(f, " {} {}", destination.0, String::from_utf8_lossy(&self.key))?;
        }
        if let Some(reason) = &self.reason {
            write!(f, " ({reason})")?;
        }
        if self.is_awaited { Ok(()) } else { f.write_str(", not awaited") }
    }
}
