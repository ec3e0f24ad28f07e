//! All servers of a router by their numbers, and the counts of servers whose numbers were given to
//! others, so that sums over all servers never decrease.

use super::{Counted, Server};
use std::collections::HashMap;

#[derive(Clone, Debug, Default)]
pub(crate) struct Servers {
    by_number: Vec<Server>,
    forgotten: Counted,
    /// The part of it for addresses that the configuration still has, with other options.
    of_addresses: HashMap<String, Counted>,
}

impl Servers {
    pub(crate) fn list(&self) -> &[Server] {
        &self.by_number
    }

    /// Gives a number to a server. The number may have belonged to another one, whose address is
    /// `before`.
    pub(crate) fn put(&mut self, number: usize, server: Server, before: Option<String>) {
        let Some(address) = before else { return self.by_number.push(server) };
        let counted = self.by_number[number].meters().counted();
        self.forgotten.add(&counted);
        self.of_addresses.entry(address).or_default().add(&counted);
        self.by_number[number] = server;
    }

    /// Removes the counts of addresses that are no longer in use.
    pub(crate) fn keep_addresses(&mut self, is_in_use: impl Fn(&str) -> bool) {
        self.of_addresses.retain(|address, _| is_in_use(address));
    }

    /// The counts of all servers without a number.
    pub(crate) fn forgotten(&self) -> &Counted {
        &self.forgotten
    }

    /// The same for each address that is in use.
    pub(crate) fn forgotten_of_addresses(&self) -> &HashMap<String, Counted> {
        &self.of_addresses
    }
}
