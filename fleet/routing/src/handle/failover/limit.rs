//! Which share of requests may be sent to another child.

use crate::build::Members;
use crate::config::{ConfigError, Json};
use std::cell::Cell;

/// A bucket of tokens that fills with requests, and not with time.
#[derive(Debug)]
pub(super) struct Limit {
    rate: f64,
    burst: f64,
    tokens: Cell<f64>,
}

const BURST: f64 = 1000.0;
/// The limit starts as if this many requests had come before: as in mcrouter, where the rate 0
/// starts without tokens.
const REQUESTS_BEFORE: f64 = 1e6;

impl Limit {
    pub(super) fn parse(members: &mut Members<'_, '_, '_>, json: &Json) -> Result<Self, ConfigError> {
        let mut object = json.object("failover_limit")?;
        let rate = object.required_as("rate", |json, name| json.number(name, 0.0..=f64::MAX))?.min(1.0);
        let burst = object.optional_as("burst", |json, name| json.number(name, 0.0..=f64::MAX))?;
        let burst = burst.unwrap_or(BURST).max(1.0);
        members.finish(object);
        Ok(Limit { rate, burst, tokens: Cell::new((rate * REQUESTS_BEFORE).min(burst)) })
    }

    pub(super) fn count(&self) {
        self.tokens.set((self.tokens.get() + self.rate).min(self.burst));
    }

    /// Whether another child may be tried. If so, it takes a token.
    pub(super) fn allows(&self) -> bool {
        let left = self.tokens.get() - 1.0;
        if left >= 0.0 {
            self.tokens.set(left);
        }
        left >= 0.0
    }
}
