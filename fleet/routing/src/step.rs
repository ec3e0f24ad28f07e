//! The results by which handles steer the walk, and the context that the walk gives them.

use crate::counted_pools::CountedPool;
use crate::failure_domains::FailureDomains;
pub(crate) use crate::ids::{DestinationId, LogName, NodeId};
use crate::outcome::Outcome;
use crate::request::Op;

/// The next stop of a request in a handle that only selects a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    To(NodeId),
    Send(DestinationId, Option<LogName>),
}

/// The result of a handle for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Another handle replies. This one keeps no state.
    Tail(NodeId),
    /// Another handle replies to a rewritten request.
    Rewritten(NodeId, Rewrite),
    /// A server replies. If the request is a delete and fails, it is logged under this name.
    Send(DestinationId, Option<LogName>),
    /// A server of a counted pool replies.
    Counted(DestinationId, Option<LogName>, CountedPool),
    Answer(Outcome),
    /// The handle fails, with this line for the client.
    Fail(Outcome, Text),
    /// The children that [`Cx::request`] has named reply: `resume` is called for each reply.
    Await(State),
}

/// The reaction of a handle to the reply of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Wait,
    /// Replies with this answer. Other requests of the handle continue, and their replies are
    /// dropped.
    Pass,
    /// Replies with the answer that [`Cx::hold`] has kept.
    Held,
    /// Replies with the held answer, whose value is joined from the pieces of [`Cx::gather`], and
    /// whose flags are changed.
    Joined(Flags),
    /// Replies with this answer and another number: a cas unique or a lease token.
    Renumbered(u64),
    Answer(Outcome),
    /// Replies with an outcome and a number.
    Numbered(Outcome, u64),
}

/// How the flags of an item are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) without: u64,
    pub(crate) shown: Shown,
}

/// Whether the line of a meta command has the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// If the server has sent them.
    AsReceived,
    No,
}

/// The state of a request in a handle while its children reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) answers: u32,
    pub(crate) a: u32,
    pub(crate) b: u128,
    pub(crate) c: u32,
}

/// How a request is changed on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rewrite {
    pub(crate) op: Option<Op>,
    pub(crate) key: Option<Text>,
    pub(crate) exptime: Option<i32>,
    pub(crate) number: Option<u64>,
    pub(crate) prefix: Option<Text>,
    pub(crate) hashed: Option<u32>,
    /// The flags of a meta command. What it stores is [`Content::OfRequest`] or [`Content::Written`], whose flags are among these.
    pub(crate) meta: Option<Text>,
    pub(crate) content: Content,
}

/// The source of the value and flags that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    OfRequest,
    /// Those of the answer that is being handled.
    OfAnswer,
    /// These, of a classic request.
    Fixed {
        flags: u64,
        value: &'static [u8],
    },
    /// A value that was written by [`Cx::text`]; of a classic request, unless the flags of a meta command are rewritten.
    Written {
        flags: u64,
        value: Text,
    },
    /// A part of the request's value, without flags; of a classic request.
    Part {
        from: u32,
        to: u32,
    },
}

/// The longest value of [`Content::Written`], together with the flags of a meta command.
pub(crate) const WRITTEN_MAX: usize = 320;

/// A key or a value that was written into the scratch buffer by [`Cx::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Rewrite {
    pub(crate) const NONE: Rewrite = Rewrite {
        op: None,
        key: None,
        exptime: None,
        number: None,
        prefix: None,
        hashed: None,
        meta: None,
        content: Content::OfRequest,
    };

    pub(crate) fn exptime(seconds: i32) -> Self {
        Rewrite { exptime: Some(seconds), ..Self::NONE }
    }

    pub(crate) fn key(key: Text) -> Self {
        Rewrite { key: Some(key), ..Self::NONE }
    }

    /// Takes an item out that still has this cas unique.
    pub(crate) fn expire(unique: u64) -> Self {
        let content = Content::Fixed { flags: 0, value: b"" };
        Rewrite { op: Some(Op::Cas), exptime: Some(-1), number: Some(unique), content, ..Self::NONE }
    }
}

/// A request of a handle to one of its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChildRequest {
    pub(crate) node: NodeId,
    pub(crate) rewrite: Rewrite,
    pub(crate) answer: Wanted,
}

/// Whether the handle waits for a child's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The reply is passed to the handle as that of the child with this number.
    By(u32),
    No,
}

/// Properties of a request that are not in its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The same number for all requests of one client host.
    pub client: u64,
    /// The constant number of this host: mcrouter's hostid.
    pub host: u64,
    /// UNIX time, in seconds.
    pub now_s: u64,
    /// Milliseconds since any time in the past. It never goes back.
    pub now_ms: u64,
}

/// The context of a handle while it handles a request or a reply.
#[derive(Debug)]
pub(crate) struct Cx<'a> {
    /// The facts at the time when the request reached the handle.
    pub(crate) facts: Facts,
    /// The current value of [`Facts::now_ms`].
    pub(crate) now_ms: u64,
    /// The failure domains of the tree's servers.
    pub(crate) domains: &'a FailureDomains,
    pub(crate) child_requests: &'a mut Vec<ChildRequest>,
    pub(crate) scratch: &'a mut Vec<u8>,
    pub(crate) random: &'a mut u64,
    pub(crate) waits: &'a mut Vec<Wait>,
    pub(crate) holds: Holds,
}

/// Whether the present answer is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    No,
    Yes,
    /// The item of the reply, without the line that came with it.
    Item,
    /// Its value, as the piece with this number.
    Piece(u32),
    /// All of it, and its value as the only piece.
    Whole,
}

/// A time that a handle waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) ms: u32,
    pub(crate) child: u32,
}

impl Cx<'_> {
    /// The time since the handle received the request, in milliseconds.
    pub(crate) fn waited_ms(&self) -> u64 {
        self.now_ms.saturating_sub(self.facts.now_ms)
    }

    /// Sends a request to a child, whose reply is passed to the handle with this number.
    pub(crate) fn request(&mut self, node: NodeId, rewrite: Rewrite, child: u32) {
        self.child_requests.push(ChildRequest { node, rewrite, answer: Wanted::By(child) });
    }

    /// Sends a request to a child, whose reply is dropped.
    pub(crate) fn notify(&mut self, node: NodeId, rewrite: Rewrite) {
        self.child_requests.push(ChildRequest { node, rewrite, answer: Wanted::No });
    }

    /// Keeps the present answer, in place of an earlier one and of pieces.
    pub(crate) fn hold(&mut self) {
        self.holds = Holds::Yes;
    }

    /// Keeps this answer as a classic hit, whatever the request was.
    pub(crate) fn hold_item(&mut self) {
        self.holds = Holds::Item;
    }

    /// Waits for `ms` milliseconds, as for a child with this number, which replies [`Outcome::Ok`];
    /// fails at once if too many requests wait already.
    pub(crate) fn wait(&mut self, ms: u32, child: u32) {
        self.waits.push(Wait { ms, child });
    }

    /// Keeps the value of the present answer as the piece with this number, for [`Then::Joined`].
    pub(crate) fn gather(&mut self, piece: u32) {
        self.holds = Holds::Piece(piece);
    }

    /// Keeps the present answer, and its value as the only piece.
    pub(crate) fn hold_whole(&mut self) {
        self.holds = Holds::Whole;
    }

    /// A key for [`Rewrite::key`], or a value for [`Content::Written`], made of these parts.
    pub(crate) fn text(&mut self, parts: &[&[u8]]) -> Text {
        let from = self.scratch.len() as u32;
        parts.iter().for_each(|part| self.scratch.extend_from_slice(part));
        Text { from, to: self.scratch.len() as u32 }
    }

    /// A random number below `limit`, which is not 0.
    pub(crate) fn random(&mut self, limit: usize) -> usize {
        *self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(*self.random >> 32) * limit as u128) >> 32) as usize
    }
}
