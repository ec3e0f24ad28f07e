//! Lease pairing: a store with a lease token goes to the child that gave the token.

use crate::build::Members;
use crate::config::ConfigError;
use crate::handle::Children;
use crate::leases::{LeaseTokens, is_marked};
use crate::outcome::{Answer, Outcome};
use crate::request::{Dialect, Op, Request};
use crate::step::{Cx, Rewrite, State, Step, Then};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Pairing {
    route: Arc<str>,
    tokens: Arc<LeaseTokens>,
}

/// The reply to a lease-get while another client has the lease.
const HOT: u64 = 1;

impl Pairing {
    /// Reads `enable_lease_pairing`, for which the route needs a name: tokens are those of the route with this name, whatever the
    /// configuration says by the time that they are used.
    pub(super) fn parse(members: &mut Members<'_, '_, '_>) -> Result<Option<Self>, ConfigError> {
        let Some(json) = members.json("enable_lease_pairing") else { return Ok(None) };
        if !json.boolean("enable_lease_pairing")? {
            return Ok(None);
        }
        let name = members.text("name")?;
        let route = name.ok_or_else(|| json.error("'enable_lease_pairing' needs a 'name' of the route"))?;
        Ok(Some(Pairing { route, tokens: members.lease_tokens() }))
    }

    /// Whether a request is a classic one of this kind: those of meta commands have their token among their flags.
    pub(super) fn concerns(&self, request: &Request<'_>, op: Op) -> bool {
        request.op == op && request.dialect == Dialect::Classic
    }

    /// A child has answered a lease-get.
    pub(super) fn give(&self, cx: &Cx<'_>, child: u32, answer: &Answer<'_>) -> Then {
        let token = answer.number;
        let is_given = answer.outcome == Outcome::NotFound && token > HOT && (child > 0 || is_marked(token));
        if !is_given {
            return Then::Pass;
        }
        Then::Renumbered(self.tokens.give(&self.route, child, token, cx.facts.now_s))
    }

    /// A lease-set goes to the child that has given its token, or to the first, and nowhere else.
    pub(super) fn store(&self, cx: &mut Cx<'_>, children: &Children, request: &Request<'_>) -> Step {
        let paired = self.tokens.take(&self.route, request.number, cx.facts.now_s);
        let (child, token) = paired.unwrap_or((0, request.number));
        let Some(node) = children.get(child as usize) else {
            return Step::Answer(Outcome::LocalError);
        };
        cx.request(*node, Rewrite { number: Some(token), ..Rewrite::NONE }, child);
        Step::Await(State::default())
    }
}
