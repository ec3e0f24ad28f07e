//! The order of mcrouter's DeterministicOrderPolicy: by the hash of the key with a number at its end that grows.

use super::tried::{MARKS, Tried};
use crate::hash::Selector;
use arrayvec::ArrayVec;

#[derive(Debug)]
pub(super) struct Salted {
    pub(super) selector: Selector,
    /// How the first child selects its server, which is passed over.
    pub(super) normal: Option<Selector>,
    /// The failure domain of each child; empty if they do not matter.
    pub(super) domains: Box<[Option<u32>]>,
}

/// So many children are asked at most: there is a mark for each that is down.
pub(super) const TRIES_MAX: usize = MARKS;

/// Children by the order in which they were asked.
type Chosen = ArrayVec<u16, TRIES_MAX>;

/// The number before the first at the end of a key: mcrouter's, as are the others.
const SALT: u32 = 1;
/// Numbers that are tried until a child is found that was not asked. The last one counts in any case.
const ATTEMPTS: u32 = 100;
/// After so many, failure domains do not matter any more.
const ATTEMPTS_BY_DOMAIN: u32 = 75;
/// Digits of a number.
const DIGITS: usize = 10;

impl Salted {
    /// The child that is asked next, with a mark for each try whose child is down. All choices before are made again: there is no room
    /// in a request's state for a list of them, and few requests fail more than once.
    pub(super) fn next(&self, tried: Tried, key: &[u8]) -> usize {
        let normal = self.normal.as_ref().map(|normal| normal.pick(key) + 1);
        let (mut chosen, mut salt) = (Chosen::from_iter([0]), SALT);
        loop {
            let child = self.choose(&chosen, tried, normal, &mut salt, key);
            if chosen.len() >= tried.count() || chosen.try_push(child as u16).is_err() {
                return child;
            }
        }
    }

    fn choose(
        &self,
        chosen: &[u16],
        tried: Tried,
        normal: Option<usize>,
        salt: &mut u32,
        key: &[u8],
    ) -> usize {
        let domain = |child: usize| self.domains.get(child).copied().flatten();
        let has_failed = |of: u32| {
            let mut down = chosen.iter().enumerate().filter(|(number, _)| tried.has(*number));
            down.any(|(_, child)| domain(usize::from(*child)) == Some(of))
        };
        let key = &key[..key.len().min(crate::KEY_MAX)];
        let mut salted = [0; crate::KEY_MAX + DIGITS];
        salted[..key.len()].copy_from_slice(key);
        let mut attempt = 0;
        loop {
            *salt += 1;
            let number = salt.to_string();
            let length = key.len() + number.len();
            salted[key.len()..length].copy_from_slice(number.as_bytes());
            let child = self.selector.pick(&salted[..length]);
            let in_failed = attempt <= ATTEMPTS_BY_DOMAIN && domain(child).is_some_and(has_failed);
            let is_free = !chosen.contains(&(child as u16)) && Some(child) != normal && !in_failed;
            if is_free || attempt == ATTEMPTS {
                return child;
            }
            attempt += 1;
        }
    }
}
