//! Prepares a cluster that does not serve yet: the warm cluster replies, and the other one is
//! filled with the requested items.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::{Answer, Outcome};
use crate::request::{Dialect, Group, Op, Request};
use crate::step::{Content, Cx, NodeId, Rewrite, State, Step, Text, Then};

#[derive(Debug)]
pub(crate) struct Staging {
    warm: NodeId,
    staging: NodeId,
    /// Seconds that items from the warm cluster stay in the other one; 0 is for ever.
    exptime: i32,
}

impl Handle for Staging {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let (warm, staging) = (members.child("warm")?, members.child("staging")?);
        let exptime = members.integer("exptime", 0..=i64::from(i32::MAX))?.unwrap_or(0) as i32;
        members.end();
        Ok(Staging { warm, staging, exptime })
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        cx.request(self.warm, Rewrite::NONE, 0);
        if request.op.group() == Group::Delete {
            cx.request(self.staging, Rewrite::NONE, 1);
        }
        Step::Await(State::default())
    }

    fn explore(&self, cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        super::request_all(cx, &[self.warm, self.staging]);
        Step::Await(State::default())
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        _child: u32,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        let is_stored = match request.dialect {
            Dialect::Classic => matches!(answer.outcome, Outcome::Stored | Outcome::StaleStored),
            Dialect::Meta => answer.outcome == Outcome::Found,
        };
        match request.op {
            Op::Delete => return super::worst(cx, state, 2, answer),
            Op::Get | Op::Gets | Op::Gat | Op::Gats | Op::LeaseGet => {
                if answer.outcome.is_hit() && answer.item.is_some() && request.dialect == Dialect::Classic {
                    let (op, exptime) = (Some(Op::Add), Some(self.exptime));
                    let content = Content::OfAnswer;
                    cx.notify(self.staging, Rewrite { op, exptime, number: Some(0), content, ..Rewrite::NONE });
                }
            }
            // The other cluster has neither these cas uniques nor these tokens.
            Op::Cas | Op::LeaseSet => {
                if is_stored {
                    let (op, number) = (Some(Op::Set), Some(0));
                    let meta = without_unique(cx, request);
                    cx.notify(self.staging, Rewrite { op, number, meta, ..Rewrite::NONE });
                }
            }
            Op::Set => {
                if is_stored {
                    cx.notify(self.staging, Rewrite::NONE);
                }
            }
            _ => {
                if !answer.outcome.is_error() {
                    cx.notify(self.staging, Rewrite::NONE);
                }
            }
        }
        Then::Pass
    }
}

/// The flags of a meta store without the cas unique that it compares.
fn without_unique(cx: &mut Cx<'_>, request: &Request<'_>) -> Option<Text> {
    if request.dialect != Dialect::Meta {
        return None;
    }
    let flags = request.meta.split(|byte| *byte == b' ').filter(|flag| flag.first() != Some(&b'C'));
    Some(cx.text(&[&flags.collect::<Vec<_>>().join(&b' ')]))
}
