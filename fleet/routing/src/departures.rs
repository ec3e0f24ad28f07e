//! Servers that a configuration has no more, until the thread that goes by it is done with them.

use crate::destinations::Claim;
use crate::step::DestinationId;

/// The claims of one thread. They keep the numbers of servers that the thread still uses from being
/// given to others.
#[derive(Debug, Default)]
pub struct Departures {
    /// The claim of the configuration in use, and the number of configurations before it.
    claim: Claim,
    number: u64,
    /// Claims of former configurations whose trees may have requests, with their numbers.
    former: Vec<(u64, Claim)>,
    leaving: Vec<Leaving>,
}

#[derive(Debug)]
struct Leaving {
    server: DestinationId,
    /// The claim of the last configuration that named the server.
    _claim: Claim,
}

impl Departures {
    /// Another configuration is gone by from now on, whose tree replaces the one before.
    pub fn turn_to(&mut self, claim: &Claim) {
        let before = std::mem::replace(&mut self.claim, claim.clone());
        self.leaving.retain(|leaving| !claim.has(leaving.server));
        let left = before.iter().filter(|server| !claim.has(*server));
        self.leaving.extend(left.map(|server| Leaving { server, _claim: before.clone() }));
        self.former.push((self.number, before));
        self.number += 1;
    }

    /// Whether nothing is claimed but what the configuration in use has.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.leaving.is_empty() && self.former.is_empty()
    }

    /// Returns each server once when the thread no longer needs it: no tree that contains it has
    /// requests (`has_requests` is called with the number of configurations since that tree), and
    /// all earlier requests to it are answered (`is_answered`).
    pub fn take_done(
        &mut self,
        has_requests: impl Fn(u64) -> bool,
        mut is_answered: impl FnMut(DestinationId) -> bool,
    ) -> Vec<DestinationId> {
        let Departures { number, former, leaving, .. } = self;
        former.retain(|(before, _)| has_requests(*number - before));
        let is_done = |leaving: &mut Leaving| {
            let server = leaving.server;
            !former.iter().any(|(_, claim)| claim.has(server)) && is_answered(server)
        };
        leaving.extract_if(.., is_done).map(|leaving| leaving.server).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(servers: &[u32]) -> Claim {
        Claim::of(servers.iter().copied().map(DestinationId))
    }

    /// The servers that can be closed while requests are in the trees of these generations, and
    /// these servers are busy.
    fn done(departures: &mut Departures, trees: &[u64], busy: &[u32]) -> Vec<u32> {
        let is_answered = |server: DestinationId| !busy.contains(&server.0);
        let done = departures.take_done(|ago| trees.contains(&ago), is_answered);
        done.into_iter().map(|server| server.0).collect()
    }

    #[test]
    fn a_server_is_done_with_when_no_tree_has_it_and_it_has_answered() {
        let mut departures = Departures::default();
        departures.turn_to(&claim(&[0, 1, 2]));
        assert_eq!(done(&mut departures, &[], &[]), [0; 0]);
        assert!(departures.is_empty());
        departures.turn_to(&claim(&[2, 3]));
        assert_eq!(done(&mut departures, &[1], &[]), [0; 0], "a request in the first tree may ask it");
        assert_eq!(done(&mut departures, &[], &[1]), [0]);
        assert_eq!(done(&mut departures, &[], &[]), [1]);
        assert!(departures.is_empty());
    }

    #[test]
    fn a_tree_with_requests_holds_only_its_own_servers_up() {
        let mut departures = Departures::default();
        for servers in [[0], [1], [2], [3]] {
            departures.turn_to(&claim(&servers));
        }
        // A request is in the second tree, which has only the server 1.
        assert_eq!(done(&mut departures, &[2], &[]), [0, 2]);
        assert_eq!(done(&mut departures, &[], &[]), [1]);
    }

    #[test]
    fn a_tree_holds_a_server_up_that_has_come_back_and_left_again() {
        let mut departures = Departures::default();
        for servers in [[0], [1], [0], [2]] {
            departures.turn_to(&claim(&servers));
        }
        assert_eq!(done(&mut departures, &[3], &[]), [1]);
        assert_eq!(done(&mut departures, &[], &[]), [0]);
    }

    #[test]
    fn a_server_that_comes_back_is_not_left() {
        let mut departures = Departures::default();
        for servers in [[0], [1], [0]] {
            departures.turn_to(&claim(&servers));
        }
        assert_eq!(done(&mut departures, &[], &[]), [1]);
        assert!(departures.is_empty());
    }

    #[test]
    fn the_claim_of_a_server_is_held_until_it_is_done_with() {
        let first = claim(&[0, 1]);
        let mut departures = Departures::default();
        departures.turn_to(&first);
        departures.turn_to(&claim(&[1]));
        assert_eq!(done(&mut departures, &[], &[0]), [0; 0]);
        assert!(first.copies() > 1);
        assert_eq!(done(&mut departures, &[], &[]), [0]);
        assert_eq!(first.copies(), 1);
    }
}
