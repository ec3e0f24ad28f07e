//! The result of a copy.

use std::fmt;
use std::time::Duration;

use crate::error::CopyError;

/// Distinct reasons that are kept.
const REASONS_MAX: usize = 5;

/// What happened to the keys so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Items that the destination has stored.
    pub copied: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// Keys that the destination already had.
    pub present: u64,
    /// Items that expired or were deleted after they were listed.
    pub gone: u64,
    /// Items that are marked as stale in the source, which are not copied.
    pub stale: u64,
    /// Items that were not copied for another reason.
    pub failed: u64,
}

impl Counts {
    /// Keys that are done.
    pub fn done(&self) -> u64 {
        self.copied + self.present + self.gone + self.stale + self.failed
    }
}

/// Why items were not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The reason.
    pub text: String,
    /// The number of items.
    pub items: u64,
    /// The key of the first.
    pub example: Vec<u8>,
}

/// The result of a copy.
#[derive(Debug)]
pub struct Report {
    /// Keys of the source.
    pub keys: u64,
    /// What happened to them.
    pub counts: Counts,
    /// Why items failed: the first few distinct reasons.
    pub reasons: Vec<Reason>,
    /// How long it took.
    pub elapsed: Duration,
    /// Why it ended before its end.
    pub error: Option<CopyError>,
}

/// Adds an item that was not copied.
pub(crate) fn add_reason(reasons: &mut Vec<Reason>, text: String, key: &[u8]) {
    if let Some(reason) = reasons.iter_mut().find(|reason| reason.text == text) {
        reason.items += 1;
    } else if reasons.len() < REASONS_MAX {
        reasons.push(Reason { text, items: 1, example: key.to_vec() });
    }
}

/// A number and its noun.
fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

impl fmt::Display for Report {
    /// A sentence.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { copied, bytes, present, gone, stale, failed } = self.counts;
        let (keys, seconds) = (counted(self.keys, "key"), self.elapsed.as_secs_f64());
        write!(
            out,
            "copied {} of {keys} in {seconds:.1} s ({}): {present} were already there, {gone} had expired or were deleted",
            counted(copied, "item"),
            counted(bytes, "byte")
        )?;
        if stale > 0 {
            write!(out, ", {stale} were marked as stale")?;
        }
        write!(out, ", {failed} failed")?;
        match self.keys.saturating_sub(self.counts.done()) {
            0 => Ok(()),
            left => write!(out, ", {left} are left"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_a_sentence() {
        let counts = Counts { copied: 7, bytes: 70, present: 2, gone: 1, ..Counts::default() };
        let mut report = Report {
            keys: 10,
            counts,
            reasons: Vec::new(),
            elapsed: Duration::from_millis(1240),
            error: None,
        };
        assert_eq!(
            report.to_string(),
            "copied 7 items of 10 keys in 1.2 s (70 bytes): 2 were already there, 1 had expired or were deleted, 0 failed"
        );
        report.counts = Counts { copied: 1, bytes: 1, stale: 3, failed: 2, ..Counts::default() };
        assert_eq!(
            report.to_string(),
            "copied 1 item of 10 keys in 1.2 s (1 byte): 0 were already there, 0 had expired or were deleted, \
             3 were marked as stale, 2 failed, 4 are left"
        );
    }

    #[test]
    fn equal_reasons_are_counted_and_few_are_kept() {
        let mut reasons = Vec::new();
        for number in 0..20 {
            add_reason(&mut reasons, format!("reason {}", number % 7), format!("key{number}").as_bytes());
        }
        assert_eq!(reasons.len(), REASONS_MAX);
        assert_eq!(reasons[0], Reason { text: "reason 0".into(), items: 3, example: b"key0".to_vec() });
    }
}
