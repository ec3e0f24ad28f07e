//! Families of keys: those with the same prefix.

use crate::advice::SCALES;

/// This many families are told apart; the keys of others are one family. Clients choose keys, so there must be an end.
pub(crate) const FAMILIES_MAX: usize = 64;
/// A longer prefix is none.
pub const FAMILY_PREFIX_MAX: usize = 128;

/// The prefix that a key has in common with its family: what comes before `delimiter`, unless that is nothing or too long.
pub fn family_prefix(delimiter: u8, key: &[u8]) -> Option<&[u8]> {
    let prefix = memchr::memchr(delimiter, key).map(|at| &key[..at])?;
    (1..=FAMILY_PREFIX_MAX).contains(&prefix.len()).then_some(prefix)
}

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
    /// Windows in a row in which it was not read.
    idle: u32,
}

impl Family {
    fn new(prefix: &[u8]) -> Self {
        Family { prefix: prefix.into(), now: Uses::default(), before: Uses::default(), idle: 0 }
    }
}

/// The families, by their numbers.
#[derive(Debug)]
pub(crate) struct Families {
    delimiter: u8,
    all: Vec<Family>,
    /// The number that has gone from one family to another, until somebody asks.
    replaced: Option<u16>,
}

impl Families {
    /// Keys whose prefix before `delimiter` is the same are a family.
    pub(crate) fn new(delimiter: u8) -> Self {
        Families { delimiter, all: vec![Family::new(b"")], replaced: None }
    }

    /// The number of a key's family. A family that was not read for long makes place for a new one: [`Self::replaced`] tells.
    pub(crate) fn of(&mut self, key: &[u8]) -> u16 {
        let Some(prefix) = family_prefix(self.delimiter, key) else {
            return OTHERS;
        };
        if let Some(number) = self.all.iter().position(|family| *family.prefix == *prefix) {
            return number as u16;
        }
        if self.all.len() <= FAMILIES_MAX {
            self.all.push(Family::new(prefix));
            return self.all.len() as u16 - 1;
        }
        let families = self.all.iter_mut().enumerate().skip(usize::from(OTHERS) + 1);
        match families.max_by_key(|(_, family)| family.idle) {
            Some((number, family)) if family.idle > 0 => {
                *family = Family::new(prefix);
                self.replaced = Some(number as u16);
                number as u16
            }
            _ => OTHERS,
        }
    }

    /// The number that was another family's until the last call of [`Self::of`]: what is known of that one is to be forgotten.
    pub(crate) fn take_replaced(&mut self) -> Option<u16> {
        self.replaced.take()
    }

    /// What is counted of a family in this window.
    pub(crate) fn uses(&mut self, family: u16) -> Option<&mut Uses> {
        self.all.get_mut(usize::from(family)).map(|family| &mut family.now)
    }

    pub(crate) fn turn(&mut self) {
        for family in &mut self.all {
            family.before = std::mem::take(&mut family.now);
            family.idle = if family.before.reads == 0.0 { family.idle.saturating_add(1) } else { 0 };
        }
    }

    pub(crate) fn reset(&mut self) {
        for family in &mut self.all {
            (family.now, family.before) = (Uses::default(), Uses::default());
        }
    }

    /// Each family: number, prefix, and what was counted of this window and the one before.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u16, &[u8], Uses)> {
        let numbered = self.all.iter().enumerate();
        numbered.map(|(number, family)| (number as u16, &*family.prefix, family.now.with(family.before)))
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

    fn used(families: &Families) -> Vec<(Vec<u8>, f64)> {
        let all = families.all().map(|(_, prefix, uses)| (prefix.to_vec(), uses.reads));
        all.filter(|(_, reads)| *reads > 0.0).collect()
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
        assert_eq!(used(&families), [(b"".to_vec(), 3.0), (b"user".to_vec(), 2.0), (b"page".to_vec(), 1.0)]);
    }

    #[test]
    fn there_are_only_so_many_and_the_one_that_nobody_reads_goes() {
        let mut families = Families::new(b':');
        for number in 0..FAMILIES_MAX {
            assert_ne!(read(&mut families, &format!("{number}:x")), OTHERS);
        }
        assert_eq!(read(&mut families, "one more:x"), OTHERS);
        families.turn();
        assert_eq!(read(&mut families, "one more:x"), OTHERS, "they were read in the window before");
        (0..FAMILIES_MAX)
            .filter(|number| *number != 5)
            .for_each(|number| _ = read(&mut families, &format!("{number}:x")));
        families.turn();
        let five = families.of(b"5:x");
        read(&mut families, "7:x");
        families.turn();
        assert_eq!(families.take_replaced(), None);
        assert_eq!(read(&mut families, "one more:x"), five, "it was idle for the longest time");
        assert_eq!(families.take_replaced(), Some(five));
        assert_eq!(families.take_replaced(), None);
        assert_eq!(
            used(&families),
            [(b"7".to_vec(), 1.0), (b"one more".to_vec(), 1.0)]
                .map(|(prefix, reads)| (prefix, reads))
                .into_iter()
                .rev()
                .collect::<Vec<_>>()
        );
    }
}
