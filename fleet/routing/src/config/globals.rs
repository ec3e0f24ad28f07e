//! Values that the router provides to a configuration.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::json::Value;

/// Parameters that every `%name%` finds, and what some built-ins need of the machine.
#[derive(Clone, Default)]
pub struct Globals {
    parameters: HashMap<Arc<str>, Value>,
    local_addresses: Vec<IpAddr>,
    shuffle_seed: u32,
}

impl Globals {
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `%name%` to `value`, in which macros are not expanded. Replaces an earlier value.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.parameters.insert(Arc::from(name), value);
        self
    }

    /// Sets the addresses that `@isLocalIp` compares with.
    #[must_use]
    pub fn with_local_addresses(mut self, addresses: Vec<IpAddr>) -> Self {
        self.local_addresses = addresses;
        self
    }

    /// Sets the seed of `@shuffle` without one. A router that should order its lists differently
    /// from others sets a random seed.
    #[must_use]
    pub fn with_shuffle_seed(mut self, seed: u32) -> Self {
        self.shuffle_seed = seed;
        self
    }

    pub(super) fn parameters(&self) -> &HashMap<Arc<str>, Value> {
        &self.parameters
    }

    pub(super) fn local_addresses(&self) -> &[IpAddr] {
        &self.local_addresses
    }

    pub(super) fn shuffle_seed(&self) -> u32 {
        self.shuffle_seed
    }
}

impl fmt::Debug for Globals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Globals").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}
