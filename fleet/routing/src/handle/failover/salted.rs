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

/// The most children that are tried: there is a mark for each that is down.
pub(super) const TRIES_MAX: usize = MARKS;

/// The children that the policy selected and passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Collisions {
    /// The route had tried the child already, or the first child had selected it.
    pub(super) requested: u64,
    /// The child is in a failed failure domain. Such a child counts here even if the route had tried it already.
    pub(super) in_failed_domain: u64,
}

/// Children in the order in which they were tried.
type Chosen = ArrayVec<u16, TRIES_MAX>;

/// The number before the first at the end of a key: mcrouter's, as are the others.
const SALT: u32 = 1;
/// How many salts are tried to find a child that was not tried yet. The child of the last salt is
/// used in any case.
const ATTEMPTS: u32 = 100;
/// After this many attempts failure domains no longer matter.
const ATTEMPTS_BY_DOMAIN: u32 = 75;
const DIGITS: usize = 10;

/// The state of repeated selections for one key.
#[derive(Debug)]
struct Choice {
    chosen: Chosen,
    /// The last number that was appended to the key.
    salt: u32,
    collisions: Collisions,
}

impl Salted {
    /// The next child to try; `tried` has a mark for each tried child that is down. All earlier
    /// choices are repeated: a request's state has no room for a list of them, and few requests
    /// fail more than once.
    pub(super) fn next(&self, tried: Tried, key: &[u8]) -> usize {
        self.choices(tried, key).0
    }

    /// The collisions of all choices, of which there is one after each failure.
    pub(super) fn collisions(&self, tried: Tried, key: &[u8]) -> Collisions {
        self.choices(tried, key).1
    }

    /// Selects a child after each failure. Returns the last of these children, and the collisions of all selections.
    fn choices(&self, tried: Tried, key: &[u8]) -> (usize, Collisions) {
        let normal = self.normal.as_ref().map(|normal| normal.pick(key) + 1);
        let mut choice = Choice { chosen: Chosen::from_iter([0]), salt: SALT, collisions: Collisions::default() };
        loop {
            let child = self.choose(&mut choice, tried, normal, key);
            if choice.chosen.len() >= tried.count() || choice.chosen.try_push(child as u16).is_err() {
                return (child, choice.collisions);
            }
        }
    }

    /// The failure domain of a child. For the first child this is the domain of the server that replied to it, because the child is a
    /// route over several servers.
    fn domain(&self, child: usize, tried: Tried) -> Option<u32> {
        let own = *self.domains.get(child)?;
        if child == 0 { tried.first().domain().or(own) } else { own }
    }

    fn choose(&self, choice: &mut Choice, tried: Tried, normal: Option<usize>, key: &[u8]) -> usize {
        let Choice { chosen, salt, collisions } = choice;
        let has_failed = |of: u32| {
            let mut down = chosen.iter().enumerate().filter(|(number, _)| tried.has(*number));
            down.any(|(_, child)| self.domain(usize::from(*child), tried) == Some(of))
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
            let domain = self.domain(child, tried);
            let in_failed = attempt <= ATTEMPTS_BY_DOMAIN && domain.is_some_and(has_failed);
            let is_free = !chosen.contains(&(child as u16)) && Some(child) != normal && !in_failed;
            if is_free || attempt == ATTEMPTS {
                return child;
            }
            if in_failed {
                collisions.in_failed_domain += 1;
            } else {
                collisions.requested += 1;
            }
            attempt += 1;
        }
    }
}
