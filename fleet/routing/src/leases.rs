//! Lease tokens that a stand-in server gave: a store with such a token goes to the same server.

use guira_sync::lock::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The tokens of all workers: a client may store over another connection than it got the token on.
#[derive(Debug, Default)]
pub struct LeaseTokens {
    /// LOCK: lease_tokens. Leaf.
    tokens: Mutex<Tokens>,
}

#[derive(Debug, Default)]
struct Tokens {
    by_number: HashMap<u32, Paired>,
    /// In the order in which they were given, with the time in seconds at which each expires.
    given: VecDeque<(u32, u64)>,
    next: u32,
    redirected: u64,
}

#[derive(Debug)]
struct Paired {
    /// The name of the route that has given it.
    route: Arc<str>,
    token: u64,
    child: u32,
}

/// How a token looks that was given instead of a server's: mcrouter's.
const MARK: u64 = 0x7ace_b00c_0000_0000;
const MARK_BITS: u64 = 0xffff_ffff_0000_0000;

/// How long a token is valid, in seconds, as in mcrouter.
const LIFE_S: u64 = 10;
/// The most tokens that are kept; beyond it, the oldest are dropped.
const TOKENS_MAX: usize = 1 << 16;

/// Whether a server's token looks like one that was given instead.
pub(crate) fn is_marked(token: u64) -> bool {
    token & MARK_BITS == MARK
}

impl LeaseTokens {
    /// How many stores went to a server that stands in for another one.
    pub fn redirected(&self) -> u64 {
        self.tokens().redirected
    }

    /// The token that a client is given in place of this one.
    pub(crate) fn give(&self, route: &Arc<str>, child: u32, token: u64, now_s: u64) -> u64 {
        let mut all = self.tokens();
        all.forget(now_s, TOKENS_MAX - 1);
        let number = all.next;
        all.next = number.wrapping_add(1);
        all.by_number.insert(number, Paired { route: route.clone(), token, child });
        all.given.push_back((number, now_s + LIFE_S));
        MARK | u64::from(number)
    }

    /// The child that gave a token, and the original token. The entry is removed.
    pub(crate) fn take(&self, route: &str, token: u64, now_s: u64) -> Option<(u32, u64)> {
        if !is_marked(token) {
            return None;
        }
        let mut all = self.tokens();
        all.forget(now_s, TOKENS_MAX);
        let number = token as u32;
        if *all.by_number.get(&number)?.route != *route {
            return None;
        }
        let paired = all.by_number.remove(&number)?;
        all.redirected += 1;
        Some((paired.child, paired.token))
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock()
    }
}

impl Tokens {
    /// Drops expired tokens, and the oldest beyond `most`.
    fn forget(&mut self, now_s: u64, most: usize) {
        let is_old = |given: &VecDeque<(u32, u64)>| {
            given.front().is_some_and(|(_, until)| *until <= now_s || given.len() > most)
        };
        while is_old(&self.given) {
            if let Some((number, _)) = self.given.pop_front() {
                self.by_number.remove(&number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_once_by_its_route_while_it_lives() {
        let tokens = LeaseTokens::default();
        let route: Arc<str> = "r".into();
        let given = tokens.give(&route, 2, 77, 100);
        assert!(is_marked(given) && !is_marked(77));
        assert_eq!(tokens.take("other", given, 100), None);
        assert_eq!(tokens.take("r", 77, 100), None);
        assert_eq!(tokens.take("r", given, 109), Some((2, 77)));
        assert_eq!(tokens.take("r", given, 109), None);
        let late = tokens.give(&route, 1, 78, 200);
        assert_eq!(tokens.take("r", late, 210), None);
        assert_eq!(tokens.redirected(), 1);
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_are_too_many() {
        let tokens = LeaseTokens::default();
        let route: Arc<str> = "r".into();
        let given: Vec<u64> = (0..=TOKENS_MAX as u64).map(|token| tokens.give(&route, 0, token, 5)).collect();
        assert_eq!(tokens.take("r", given[0], 5), None);
        assert_eq!(tokens.take("r", given[1], 5), Some((0, 1)));
        assert_eq!(tokens.tokens().given.len(), TOKENS_MAX);
    }
}
