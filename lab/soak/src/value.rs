//! Values that identify their origin.
//!
//! A value is one or more *segments*. The first is stored by `set` and its like, further ones come before or after it by
//! `prepend` and `append`. A segment names its key, its sequence number and the sequence number that the value
//! had before, and is filled with bytes that follow from these: a torn value, one of another key and a lost or doubled
//! append all show.
//!
//! ```text
//! | "gs" 2 | place 1 | 0 1 | key 4 | life 4 | length 4 | sequence 8 | before 8 | filling |
//! ```

use guira_workload::rng::mix64;

/// Bytes of a segment before its filling.
pub(crate) const HEADER: usize = 32;

/// The owner of a value: a key, and one of its lives. A key begins a new life, under a new name,
/// when a write to it has become uncertain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) key: u32,
    /// How often it has been given up before.
    pub(crate) life: u32,
}

/// How a segment came to its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Place {
    Base = 0,
    After = 1,
    Before = 2,
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) place: Place,
    pub(crate) sequence: u64,
    /// The previous sequence number of the value; 0 for the base.
    pub(crate) before: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// The number of the last write to it.
    pub(crate) newest: u64,
    /// The number of the write that stored it.
    pub(crate) base: u64,
}

/// The name of a key; some names have the maximum length.
pub(crate) fn name(prefix: &str, owner: Owner) -> Vec<u8> {
    let mut name = format!("{prefix}-{}-{}", owner.key, owner.life).into_bytes();
    match owner.key % 16 {
        3 => name.resize(250, b'.'),
        7 => name.resize(60, b'_'),
        _ => {}
    }
    name
}

fn seed(owner: Owner, sequence: u64) -> u64 {
    mix64(mix64(u64::from(owner.key) << 32 | u64::from(owner.life)) ^ sequence)
}

/// The flags that are stored with a value whose base has this number.
pub(crate) fn flags(owner: Owner, base: u64) -> u32 {
    seed(owner, base) as u32
}

/// Appends a segment of `length` bytes, which has room for the header.
pub(crate) fn write(out: &mut Vec<u8>, owner: Owner, segment: Segment, length: usize) {
    let filling = length.saturating_sub(HEADER);
    out.extend([b'g', b's', segment.place as u8, 0]);
    out.extend(owner.key.to_le_bytes());
    out.extend(owner.life.to_le_bytes());
    out.extend((filling as u32).to_le_bytes());
    out.extend(segment.sequence.to_le_bytes());
    out.extend(segment.before.to_le_bytes());
    out.extend(fill(owner, segment.sequence).take(filling));
}

/// Bytes that follow from who wrote them; different at nearly every place.
fn fill(owner: Owner, sequence: u64) -> impl Iterator<Item = u8> {
    let mut word = seed(owner, sequence);
    std::iter::repeat_with(move || {
        word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        word.to_be_bytes()
    })
    .flatten()
}

/// Checks a value that was read.
///
/// # Errors
/// The fault of the value.
pub(crate) fn check(owner: Owner, value: &[u8]) -> Result<Whole, String> {
    let mut segments = Vec::new();
    let mut rest = value;
    while !rest.is_empty() {
        let (segment, length) = first(owner, rest)
            .map_err(|what| format!("{what} at byte {} of {}", value.len() - rest.len(), value.len()))?;
        segments.push(segment);
        rest = &rest[length..];
    }
    peel(&segments)
}

/// Takes segments away from both ends, the newest first, until the base is left.
fn peel(mut segments: &[Segment]) -> Result<Whole, String> {
    let newest = segments.iter().map(|segment| segment.sequence).max().ok_or("the value is empty")?;
    let mut expected = newest;
    loop {
        let (Some(left), Some(right)) = (segments.first(), segments.last()) else {
            return Err("the value has no base".to_owned());
        };
        let (outer, place, rest) = if segments.len() == 1 {
            (left, Place::Base, &segments[1..])
        } else if left.sequence > right.sequence {
            (left, Place::Before, &segments[1..])
        } else {
            (right, Place::After, &segments[..segments.len() - 1])
        };
        let is_base = place == Place::Base;
        if outer.place != place || outer.sequence != expected || is_base != (outer.before == 0) {
            return Err(format!("{outer:?} stands where {place:?} {expected} belongs"));
        }
        if rest.is_empty() {
            return Ok(Whole { newest, base: outer.sequence });
        }
        expected = outer.before;
        segments = rest;
    }
}

/// The first segment of `bytes` and its length.
fn first(owner: Owner, bytes: &[u8]) -> Result<(Segment, usize), String> {
    let header = bytes.get(..HEADER).ok_or_else(|| format!("{} bytes are left", bytes.len()))?;
    let short = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap_or_default());
    let long = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap_or_default());
    let place = match header[..4] {
        [b'g', b's', 0, 0] => Place::Base,
        [b'g', b's', 1, 0] => Place::After,
        [b'g', b's', 2, 0] => Place::Before,
        _ => return Err(format!("no segment begins with {:?}", &header[..8])),
    };
    if (short(4), short(8)) != (owner.key, owner.life) {
        return Err(format!("a segment of key {} in its life {}", short(4), short(8)));
    }
    let segment = Segment { place, sequence: long(16), before: long(24) };
    let end = HEADER + short(12) as usize;
    let filling =
        bytes.get(HEADER..end).ok_or_else(|| format!("{segment:?} ends at {end} of {}", bytes.len()))?;
    match filling.iter().zip(fill(owner, segment.sequence)).position(|(found, right)| *found != right) {
        Some(at) => Err(format!("{segment:?} is torn at {at} of {}", filling.len())),
        None => Ok((segment, end)),
    }
}

/// The value of a counting key after `sequence` writes.
pub(crate) fn number(owner: Owner, sequence: u64) -> u64 {
    sequence * 1000 + seed(owner, sequence) % 1000
}

/// From where keys that count down begin: all their numbers have as many digits.
pub(crate) const HIGH: u64 = 900_000_000_000_000;

/// The number of the last write, of what a key that counts up holds.
///
/// # Errors
/// When no write stored this number.
pub(crate) fn check_number(owner: Owner, found: u64) -> Result<u64, String> {
    let sequence = found / 1000;
    if number(owner, sequence) == found { Ok(sequence) } else { Err(format!("{found} was never stored")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner { key: 7, life: 1 };

    fn segment(place: Place, sequence: u64, before: u64) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, OWNER, Segment { place, sequence, before }, HEADER + 20);
        out
    }

    #[test]
    fn a_value_with_appends_and_prepends_is_whole() {
        let base = segment(Place::Base, 3, 0);
        assert_eq!(check(OWNER, &base), Ok(Whole { newest: 3, base: 3 }));
        let value =
            [segment(Place::Before, 9, 8), segment(Place::Before, 5, 3), base, segment(Place::After, 8, 5)];
        assert_eq!(check(OWNER, &value.concat()), Ok(Whole { newest: 9, base: 3 }));
    }

    #[test]
    fn every_changed_byte_shows() {
        let value = [segment(Place::Base, 3, 0), segment(Place::After, 5, 3)].concat();
        for at in 0..value.len() {
            let mut changed = value.clone();
            changed[at] ^= 1;
            assert!(check(OWNER, &changed).is_err(), "byte {at}");
            assert!(at == HEADER + 20 || check(OWNER, &value[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn lost_doubled_and_misplaced_appends_show() {
        let (base, five, eight) =
            (segment(Place::Base, 3, 0), segment(Place::After, 5, 3), segment(Place::After, 8, 5));
        for wrong in [
            [&base[..], &eight[..]].concat(),
            [&base[..], &five[..], &five[..]].concat(),
            [&base[..], &eight[..], &five[..]].concat(),
            [&five[..], &base[..]].concat(),
            [&base[..], &base[..]].concat(),
            five.clone(),
        ] {
            assert!(check(OWNER, &wrong).is_err());
        }
        assert!(check(Owner { key: 8, life: 1 }, &base).is_err());
        assert!(check(OWNER, b"").is_err());
    }

    #[test]
    fn numbers_are_those_that_were_stored() {
        assert_eq!(check_number(OWNER, number(OWNER, 12)), Ok(12));
        assert!(check_number(OWNER, number(OWNER, 12) + 1).is_err());
    }
}
