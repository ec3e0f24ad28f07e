//! All that a restart has to keep of an item.

use std::io;

use guira_protocol::MetaVerb;
use guira_protocol::client::{self, MetaReply, Reply};
use guira_protocol::word::reply;
use guira_sync::clock::Stopwatch;

use crate::client::Client;
use crate::speech::meta;

/// Seconds by which a time to live may be too short: two clocks of whole seconds are involved.
const ROUNDING: i64 = 2;

/// An item as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) value: Vec<u8>,
    pub(crate) flags: u32,
    cas: u64,
    /// Seconds that it has left; -1 for ever.
    ttl: i64,
    read: Stopwatch,
}

/// Reads an item.
///
/// # Errors
/// If the connection breaks, or the answer is malformed.
pub(crate) fn read_kept(client: &mut Client, name: &[u8]) -> io::Result<Option<Kept>> {
    let wire = client.wire();
    let mut request = Vec::new();
    client::meta(MetaVerb::Get, name, &mut request).flags(b"v f c t").end();
    wire.send(&request)?;
    let (line, value) = match wire.reply()?.map_err(io::Error::other)? {
        Reply::MetaValue { line, value } => (line, value),
        Reply::Line(reply::META_MISS) => return Ok(None),
        other => return Err(io::Error::other(other.line().escape_ascii().to_string())),
    };
    let ttl = MetaReply::of(line).flag(b't').and_then(|ttl| str::from_utf8(ttl).ok()?.parse().ok());
    let ttl = ttl.ok_or_else(|| io::Error::other(line.escape_ascii().to_string()))?;
    let hit = meta::hit(line, value);
    Ok(Some(Kept { value: hit.value, flags: hit.flags, cas: hit.cas, ttl, read: Stopwatch::start() }))
}

impl Kept {
    /// Checks that an item is the same after a restart.
    ///
    /// # Errors
    /// The difference.
    pub(crate) fn compare(before: Option<&Self>, after: Option<&Self>) -> Result<(), String> {
        let (before, after) = match (before, after) {
            (None, None) => return Ok(()),
            (None, Some(_)) => return Err("it was gone before, and is back".to_owned()),
            (Some(before), None) => {
                let over = before.ttl >= 0 && before.read.elapsed().as_secs() as i64 + ROUNDING >= before.ttl;
                return if over { Ok(()) } else { Err(format!("it is not back; {}", before.facts())) };
            }
            (Some(before), Some(after)) => (before, after),
        };
        let passed = before.read.elapsed().as_secs() as i64;
        let ttl_is_right = match (before.ttl, after.ttl) {
            (-1, ttl) | (ttl, -1) => ttl == -1,
            (before, after) => after <= before && after >= before - passed - ROUNDING,
        };
        let same = before.value == after.value && before.flags == after.flags && before.cas == after.cas;
        if same && ttl_is_right {
            Ok(())
        } else {
            Err(format!("{} became {} after {passed} s", before.facts(), after.facts()))
        }
    }

    fn facts(&self) -> String {
        format!("{} bytes, flags {}, cas {}, ttl {}", self.value.len(), self.flags, self.cas, self.ttl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        Kept { value: b"v".to_vec(), flags: 1, cas: 7, ttl: 100, read: Stopwatch::start() }
    }

    #[test]
    fn every_fact_of_an_item_is_compared() {
        let same = |after: Kept| Kept::compare(Some(&kept()), Some(&after)).is_ok();
        assert!(same(kept()) && same(Kept { ttl: 99, ..kept() }));
        assert!(!same(Kept { value: b"w".to_vec(), ..kept() }));
        assert!(!same(Kept { flags: 2, ..kept() }) && !same(Kept { cas: 8, ..kept() }));
        assert!(!same(Kept { ttl: -1, ..kept() }) && !same(Kept { ttl: 101, ..kept() }));
        assert!(!same(Kept { ttl: 90, ..kept() }));
    }

    #[test]
    fn nothing_comes_back_and_nothing_is_lost() {
        assert!(Kept::compare(None, None).is_ok());
        assert!(Kept::compare(None, Some(&kept())).is_err());
        assert!(Kept::compare(Some(&kept()), None).is_err());
        assert!(Kept::compare(Some(&Kept { ttl: 1, ..kept() }), None).is_ok(), "it may have expired");
    }
}
