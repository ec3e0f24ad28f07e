//! Servers, and the ways to them: each has a number, which it keeps for as long as the router runs.

use crate::step::DestinationId;
use std::collections::HashMap;
use std::sync::Arc;

/// A server with the way to it. Two pools that reach a server in the same way share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DestinationSpec {
    /// `host:port`, `[address]:port` or `unix:path`.
    pub address: Arc<str>,
    pub timeout_ms: u32,
    pub connect_timeout_ms: u32,
}

/// All that have ever been named.
#[derive(Debug, Default)]
pub struct Destinations {
    specs: Vec<DestinationSpec>,
    numbers: HashMap<DestinationSpec, DestinationId>,
}

impl Destinations {
    pub fn number(&mut self, spec: DestinationSpec) -> DestinationId {
        if let Some(known) = self.numbers.get(&spec) {
            return *known;
        }
        let number = DestinationId(self.specs.len() as u32);
        self.specs.push(spec.clone());
        self.numbers.insert(spec, number);
        number
    }

    pub fn specs(&self) -> &[DestinationSpec] {
        &self.specs
    }
}
