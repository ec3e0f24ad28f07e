//! Servers, and the ways to them: each has a number, which it keeps for as long as the router runs.

use crate::config::{Address, Leases, Security};
use crate::step::{DestinationId, LogName};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A server with the way to it. Two pools that reach a server in the same way share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DestinationSpec {
    pub address: Address,
    pub security: Security,
    pub timeout: Duration,
    pub connect_timeout: Duration,
    /// What packets to it have in the field of their service: DSCP and two bits of 0; nothing if it is 0.
    pub service: u8,
    pub leases: Leases,
}

/// All that have ever been named.
#[derive(Clone, Debug, Default)]
pub struct Destinations {
    specs: Vec<DestinationSpec>,
    numbers: HashMap<DestinationSpec, DestinationId>,
    logs: Vec<Arc<str>>,
}

impl Destinations {
    pub(crate) fn number(&mut self, spec: DestinationSpec) -> DestinationId {
        if let Some(known) = self.numbers.get(&spec) {
            return *known;
        }
        let number = DestinationId(self.specs.len() as u32);
        self.specs.push(spec.clone());
        self.numbers.insert(spec, number);
        number
    }

    pub(crate) fn log(&mut self, name: &Arc<str>) -> LogName {
        self.log_named(name).unwrap_or_else(|| {
            self.logs.push(name.clone());
            LogName::new(self.logs.len() - 1)
        })
    }

    /// The log with this name, if there has ever been one.
    pub fn log_named(&self, name: &str) -> Option<LogName> {
        self.logs.iter().position(|known| **known == *name).map(LogName::new)
    }

    /// Names of logs, by their place.
    pub fn logs(&self) -> &[Arc<str>] {
        &self.logs
    }

    /// By number.
    pub fn specs(&self) -> &[DestinationSpec] {
        &self.specs
    }
}
