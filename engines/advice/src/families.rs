//! Families of keys: those with the same prefix.

use crate::advice::SCALES;

/// This many families are told apart; the keys of others are one family. Clients choose keys, so there must be an end.
pub(crate) const FAMILIES_MAX: usize = 64;
/// A longer prefix is none.
const PREFIX_MAX: usize = 128;

/// The number of the family of all keys that have none of their own.
pub(crate) const OTHERS: u16 = 0;

/// What is counted of a family in a window: of all keys, as far as can be told from those that are sampled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uses {
    pub(crate) reads: f64,
    /// Misses of the served policy at each size.
    pub(crate) misses: [f64; SCALES.len()],
}

impl Uses {
    pub(crate) fn with(self, other: Uses) -> Uses {
        let mut misses = self.misses;
        misses.iter_mut().zip(other.misses).for_each(|(into, from)| *into += from);
        Uses { reads: self.reads + other.reads, misses }
    }
}

#[derive(Clone, Debug)]
struct Family {
    prefix: Box<[u8]>,
    now: Uses,
    before: Uses,
}

/// The families, by their numbers.
#[derive(Debug)]
pub(crate) struct Families {
    delimiter: u8,
    all: Vec<Option<Family>>,
}

impl Families {
    /// Keys whose prefix before `delimiter` is the same are a family.
    pub(crate) fn new(delimiter: u8) -> Self {
        let others = Family { prefix: Box::default(), now: Uses::default(), before: Uses::default() };
        Families { delimiter, all: vec![Some(others)] }
    }

    /// The number of a key's family.
    pub(crate) fn of(&mut self, key: &[u8]) -> u16 {
        let Some(prefix) = memchr::memchr(self.delimiter, key).map(|at| &key[..at]) else {
            return OTHERS;
        };
        if prefix.is_empty() || prefix.len() > PREFIX_MAX {
            return OTHERS;
        }
        let is_it = |family: &Option<Family>| family.as_ref().is_some_and(|family| *family.prefix == *prefix);
        if let Some(number) = self.all.iter().position(is_it) {
            return number as u16;
        }
        let family = Family { prefix: prefix.into(), now: Uses::default(), before: Uses::default() };
        match self.all.iter().position(Option::is_none) {
            Some(vacant) => {
                self.all[vacant] = Some(family);
                vacant as u16
            }
            None if self.all.len() <= FAMILIES_MAX => {
                self.all.push(Some(family));
                self.all.len() as u16 - 1
            }
            None => OTHERS,
        }
    }

    /// What is counted of a family in this window.
    pub(crate) fn uses(&mut self, family: u16) -> Option<&mut Uses> {
        self.all.get_mut(usize::from(family))?.as_mut().map(|family| &mut family.now)
    }

    /// A window is over. Families that were not read in it make place for others.
    pub(crate) fn turn(&mut self) {
        for (number, place) in self.all.iter_mut().enumerate() {
            if let Some(family) = place {
                family.before = std::mem::take(&mut family.now);
                if family.before.reads == 0.0 && number != usize::from(OTHERS) {
                    *place = None;
                }
            }
        }
    }

    /// Forgets what was counted.
    pub(crate) fn reset(&mut self) {
        for family in self.all.iter_mut().flatten() {
            (family.now, family.before) = (Uses::default(), Uses::default());
        }
    }

    /// Each family that was read: number, prefix, and what was counted of this window and the one before.
    pub(crate) fn used(&self) -> impl Iterator<Item = (u16, &[u8], Uses)> {
        let numbered = self.all.iter().enumerate();
        let used = numbered.filter_map(|(number, family)| {
            let family = family.as_ref()?;
            Some((number as u16, &*family.prefix, family.now.with(family.before)))
        });
        used.filter(|(_, _, uses)| uses.reads > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{FAMILIES_MAX, Families, OTHERS};

    fn read(families: &mut Families, key: &str) -> u16 {
        let family = families.of(key.as_bytes());
        families.uses(family).unwrap().reads += 1.0;
        family
    }

    #[test]
    fn a_family_is_what_has_the_same_prefix() {
        let mut families = Families::new(b':');
        let user = read(&mut families, "user:1");
        assert_eq!(read(&mut families, "user:2:name"), user);
        assert_ne!(read(&mut families, "page:2"), user);
        let long = format!("{}:1", "x".repeat(129));
        for key in ["plain", ":empty", long.as_str()] {
            assert_eq!(read(&mut families, key), OTHERS);
        }
        let told: Vec<(Vec<u8>, f64)> =
            families.used().map(|(_, prefix, uses)| (prefix.to_vec(), uses.reads)).collect();
        assert_eq!(told, [(b"".to_vec(), 3.0), (b"user".to_vec(), 2.0), (b"page".to_vec(), 1.0)]);
    }

    #[test]
    fn there_are_only_so_many_and_those_that_nobody_reads_go() {
        let mut families = Families::new(b':');
        for number in 0..FAMILIES_MAX {
            assert_ne!(read(&mut families, &format!("{number}:x")), OTHERS);
        }
        assert_eq!(read(&mut families, "one more:x"), OTHERS);
        families.turn();
        assert_eq!(read(&mut families, "one more:x"), OTHERS, "they were read in the window before");
        read(&mut families, "7:x");
        families.turn();
        assert_ne!(read(&mut families, "one more:x"), OTHERS);
        assert_eq!(families.used().count(), 3, "others, 7 and one more");
    }
}
