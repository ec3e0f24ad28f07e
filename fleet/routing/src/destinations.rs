//! Servers by number. While a server is claimed, its number stands for no other server.

use crate::config::{Address, Leases, Security};
use crate::step::{DestinationId, LogName};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A server, and the settings of its connections. Pools with the same settings share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DestinationSpec {
    pub address: Address,
    pub security: Security,
    pub timeout: Duration,
    pub connect_timeout: Duration,
    /// The traffic-class byte of packets to the server: DSCP and two bits of 0. Not set if it is 0.
    pub service: u8,
    pub leases: Leases,
}

/// The servers that one configuration sends requests to, in order. As long as there is a copy of it, their numbers stand for no other servers.
#[derive(Clone, Debug, Default)]
pub struct Claim(Arc<[DestinationId]>);

impl Claim {
    pub(crate) fn of(servers: impl Iterator<Item = DestinationId>) -> Self {
        let servers: BTreeSet<DestinationId> = servers.collect();
        Claim(servers.into_iter().collect())
    }

    #[cfg(test)]
    pub(crate) fn copies(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    pub fn has(&self, server: DestinationId) -> bool {
        self.0.binary_search(&server).is_ok()
    }

    pub fn iter(&self) -> impl Iterator<Item = DestinationId> {
        self.0.iter().copied()
    }
}

/// All that were named, but for those whose numbers were given to others since.
#[derive(Clone, Debug, Default)]
pub struct Destinations {
    specs: Vec<DestinationSpec>,
    numbers: HashMap<DestinationSpec, DestinationId>,
    /// Claims of which copies may exist.
    claims: Vec<Weak<[DestinationId]>>,
    /// Numbers that are free for new servers.
    free: BTreeSet<DestinationId>,
    logs: Vec<Arc<str>>,
}

impl Destinations {
    /// Frees the numbers of unclaimed servers, which the next configuration may give to others. A
    /// server that the next configuration names again keeps its number.
    pub fn release(&mut self) {
        self.claims.retain(|claim| claim.strong_count() > 0);
        let claims = self.claims.iter().filter_map(Weak::upgrade);
        let claimed: BTreeSet<DestinationId> = claims.flat_map(|claim| claim.to_vec()).collect();
        let all = (0..self.specs.len() as u32).map(DestinationId);
        self.free = all.filter(|number| !claimed.contains(number)).collect();
    }

    /// The numbers of unclaimed servers.
    pub fn free(&self) -> impl Iterator<Item = DestinationId> {
        self.free.iter().copied()
    }

    /// Claims the servers of a tree that was built with these numbers.
    pub fn claim(&mut self, servers: impl Iterator<Item = DestinationId>) -> Claim {
        let claim = Claim::of(servers);
        self.claims.push(Arc::downgrade(&claim.0));
        self.free.clear();
        claim
    }

    pub(crate) fn number(&mut self, spec: DestinationSpec) -> DestinationId {
        if let Some(known) = self.numbers.get(&spec) {
            self.free.remove(known);
            return *known;
        }
        let number = match self.free.pop_first() {
            Some(free) => {
                let before = std::mem::replace(&mut self.specs[free.0 as usize], spec.clone());
                self.numbers.remove(&before);
                free
            }
            None => {
                self.specs.push(spec.clone());
                DestinationId(self.specs.len() as u32 - 1)
            }
        };
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

    pub fn specs(&self) -> &[DestinationSpec] {
        &self.specs
    }

    /// Whether this number stood for another server `before`, or for none.
    pub fn is_new(&self, number: usize, before: &Destinations) -> bool {
        self.specs.get(number) != before.specs.get(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::build;
    use crate::config::{Globals, Texts, load};
    use crate::settings::Settings;

    /// What one configuration after the other makes of the same numbers.
    #[derive(Default)]
    struct Configurations(Destinations);

    impl Configurations {
        /// The claim of one with these servers, and their numbers.
        fn next(&mut self, servers: &[&str]) -> (Claim, Vec<u32>) {
            let names: Vec<String> = servers.iter().map(|name| format!("\"{name}:1\"")).collect();
            let text = format!(
                r#"{{"pools": {{"P": {{"servers": [{}]}}}}, "route": "PoolRoute|P"}}"#,
                names.join(", ")
            );
            let sources = Texts::default();
            let loaded = load("test", &text, &sources, &Globals::new()).unwrap();
            let settings = Settings::plain("/././", Duration::from_secs(1));
            self.0.release();
            let tree = build(&loaded.json, &sources, &settings, &mut self.0).unwrap().tree;
            let mut numbers = Vec::new();
            for DestinationId(number) in tree.destinations() {
                if !numbers.contains(&number) {
                    numbers.push(number);
                }
            }
            (self.0.claim(tree.destinations()), numbers)
        }

        fn name(&self, number: u32) -> String {
            self.0.specs()[number as usize].address.to_string()
        }
    }

    #[test]
    fn a_number_stands_for_another_server_only_when_nobody_claims_it() {
        let mut all = Configurations::default();
        let (first, numbers) = all.next(&["a", "b"]);
        assert_eq!(numbers, [0, 1]);
        let (second, numbers) = all.next(&["b", "c"]);
        assert_eq!(numbers, [1, 2], "who goes by the first still asks a");
        let worker = first.clone();
        drop(first);
        let (third, numbers) = all.next(&["d"]);
        assert_eq!(numbers, [3]);
        drop((worker, second));
        let (fourth, numbers) = all.next(&["e", "d", "c", "f"]);
        assert_eq!((numbers, all.name(2)), (vec![0, 3, 2, 1], "c:1".to_owned()));
        assert!(fourth.has(DestinationId(0)) && !third.has(DestinationId(0)));
        assert_eq!((all.name(0), all.name(1)), ("e:1".to_owned(), "f:1".to_owned()));
        let (_, numbers) = all.next(&["a", "d"]);
        assert_eq!(numbers, [4, 3], "all others are claimed");
    }

    #[test]
    fn ever_new_servers_need_no_more_numbers_than_two_configurations_have() {
        let mut all = Configurations::default();
        let mut present = all.next(&["none"]).0;
        for round in 0..10_000 {
            let [one, other] = [1, 2].map(|half| format!("server{round}-{half}"));
            present = all.next(&[&one, &other]).0;
        }
        assert_eq!(present.iter().count(), 2);
        let Destinations { specs, numbers, claims, .. } = &all.0;
        assert!(specs.len() <= 4 && numbers.len() == specs.len(), "{}", specs.len());
        assert!(claims.len() <= 2, "{}", claims.len());
    }

    #[test]
    fn a_tree_of_the_same_configuration_has_the_same_numbers() {
        let mut all = Configurations::default();
        drop(all.next(&["a", "b", "c"]));
        let (_claim, numbers) = all.next(&["x", "c", "y"]);
        let (_same, again) = all.next(&["x", "c", "y"]);
        assert_eq!(numbers, again);
        let mut copy = Configurations(all.0.clone());
        assert_eq!(copy.next(&["x", "c", "y"]).1, numbers);
    }
}
