//! Moves keys from one pool to another. Routers learn of the move at different times, so a change
//! of a key deletes it in both pools: whichever of them another router still reads, that router
//! finds nothing older.

use super::{AnyHandle, Handle, WarmUp};
use crate::build::Builder;
use crate::config::{ConfigError, Json, Stage};
use crate::outcome::{Answer, Outcome};
use crate::request::{Dialect, Group, Op, Request};
use crate::step::{Content, Cx, NodeId, Rewrite, State, Step, Then};
use crate::warm_ups::Fills;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Handover {
    present: NodeId,
    /// The other pool: it gets a delete with each change of a key.
    other: NodeId,
}

const PRESENT: u32 = 0;
const OTHER: u32 = 1;

/// In a state: the held reply is the failure of the other server, or the other server had the item,
/// or this server had none.
const HAS_FAILED: u32 = 1;
const HAD_IT: u32 = 2;
const HAD_NONE: u32 = 3;

impl Handover {
    /// A handover from `old` to `new`. Deletes on `new` have a hold-off, since another router may
    /// fill it from `old`. `name` is reported when `new` is filled. No request takes a server
    /// longer than `timeout`.
    pub(crate) fn between(
        build: &mut Builder<'_>,
        [old, new]: [NodeId; 2],
        stage: Stage,
        name: &str,
        timeout: Duration,
    ) -> Self {
        let fills = if stage == Stage::Warming { Fills::Yes } else { Fills::No };
        let text = format!("{name}: {stage:?}");
        let warm_up = WarmUp::of_moved_keys(build, [new, old], [name, &text], fills, timeout);
        let new = build.add(AnyHandle::WarmUp(warm_up));
        let [present, other] = if stage == Stage::Announced { [old, new] } else { [new, old] };
        Handover { present, other }
    }
}

impl Handle for Handover {
    fn parse(_build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        Err(json.error("Handover is part of a pool with 'handovers' or 'resize'"))
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let of_other = match (request.op.group(), request.op) {
            (Group::Get, Op::Gat | Op::Gats) => {
                // A later copy then lives as long as the client wants.
                let is_classic = request.dialect == Dialect::Classic;
                cx.notify(self.other, Rewrite { op: is_classic.then_some(Op::Touch), ..Rewrite::NONE });
                return Step::Tail(self.present);
            }
            (Group::Get | Group::Flush, _) => return Step::Tail(self.present),
            (Group::Touch, _) => Rewrite::NONE,
            _ => delete(cx, request),
        };
        cx.request(self.present, Rewrite::NONE, PRESENT);
        cx.request(self.other, of_other, OTHER);
        Step::Await(State::default())
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        child: u32,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        let is_delete = request.op.group() == Group::Delete;
        // The words of meta commands are those of the present place.
        let is_classic_delete = is_delete && request.dialect == Dialect::Classic;
        let either = is_classic_delete || request.op == Op::Touch;
        let outcome = answer.outcome;
        let had_it = matches!(outcome, Outcome::Deleted | Outcome::Touched);
        match (child, state.answers) {
            (PRESENT, 1) => {
                if outcome == Outcome::NotFound {
                    state.a = HAD_NONE;
                }
                cx.hold();
                Then::Wait
            }
            (PRESENT, _) => match state.a {
                HAS_FAILED if !outcome.is_error() => Then::Held,
                HAD_IT if outcome == Outcome::NotFound => Then::Held,
                _ => Then::Pass,
            },
            (_, 1) => {
                if is_delete && outcome.is_error() {
                    cx.hold();
                    state.a = HAS_FAILED;
                } else if either && had_it {
                    cx.hold();
                    state.a = HAD_IT;
                }
                Then::Wait
            }
            // A failed store does no harm: only a delete promises that the key is gone everywhere.
            _ if is_delete && outcome.is_error() => Then::Pass,
            _ if either && had_it && state.a == HAD_NONE => Then::Pass,
            _ => Then::Held,
        }
    }
}

/// Deletes the key on the other server, whatever the request does: cas uniques and stale marks
/// belong to the present server.
fn delete(cx: &mut Cx<'_>, request: &Request<'_>) -> Rewrite {
    let (op, number, exptime) = (Some(Op::Delete), Some(0), Some(0));
    let rewrite = Rewrite { op, number, exptime, ..Rewrite::NONE };
    if request.dialect == Dialect::Meta && request.has_encoded_key() {
        return Rewrite { meta: Some(cx.text(&[b"b"])), ..rewrite };
    }
    Rewrite { content: Content::Fixed { flags: 0, value: b"" }, ..rewrite }
}
