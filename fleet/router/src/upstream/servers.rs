//! All servers of a router by their numbers, and what was counted of those whose numbers were given to others: sums over all servers never become less.

use super::{Counted, Server};
use std::collections::HashMap;

#[derive(Clone, Debug, Default)]
pub(crate) struct Servers {
    by_number: Vec<Server>,
    forgotten: Counted,
    /// Of it, what was counted of addresses that the configuration reaches in another way.
    of_addresses: HashMap<String, Counted>,
}

impl Servers {
    pub(crate) fn list(&self) -> &[Server] {
        &self.by_number
    }

    /// A number stands for this server from now on: for a new one, or in place of another with this address.
    pub(crate) fn put(&mut self, number: usize, server: Server, before: Option<String>) {
        let Some(address) = before else { return self.by_number.push(server) };
        let counted = self.by_number[number].meters().counted();
        self.forgotten.add(&counted);
        self.of_addresses.entry(address).or_default().add(&counted);
        self.by_number[number] = server;
    }

    /// Addresses that are not in use by now are forgotten.
    pub(crate) fn keep_addresses(&mut self, is_in_use: impl Fn(&str) -> bool) {
        self.of_addresses.retain(|address, _| is_in_use(address));
    }

    /// What was counted of all servers that are forgotten.
    pub(crate) fn forgotten(&self) -> &Counted {
        &self.forgotten
    }

    /// The same by address, of those that are in use.
    pub(crate) fn forgotten_of_addresses(&self) -> &HashMap<String, Counted> {
        &self.of_addresses
    }
}
