//! The counters, a row each, with their names in `/metrics`.

use crate::source::{Extent, Place};
use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::lock::Mutex;

guira_sync::counters! {
    pub(crate) enum Count {
        Events = "events", Count, "Events read from the database's log, including heartbeats." as "guira_invalidator_events_total";
        Transactions = "transactions", Count, "Completely read transactions." as "guira_invalidator_transactions_total";
        Rows = "rows", Count, "Changed rows of tables with templates." as "guira_invalidator_rows_total";
        Statements = "statements", Count, "Statements whose text was searched for keys, and messages with keys." as "guira_invalidator_statements_total";
        Keys = "keys", Count, "Keys found, including repeated keys of a batch." as "guira_invalidator_keys_total";
        RefusedKeys = "refused_keys", Count, "Invalid keys: empty, over 250 bytes, or with blanks or control bytes. The log has examples." as "guira_invalidator_refused_keys_total";
        Unfilled = "unfilled_templates", Count, "Row images without a key for a template, because a column is missing or its type has no text. The caches keep the old values." as "guira_invalidator_unfilled_templates_total";
        Unseen = "unseen_statements", Count, "Statements that may have changed tables with templates without rows in the log, such as TRUNCATE. The caches keep the old values." as "guira_invalidator_unseen_statements_total";
        SkippedLines = "skipped_lines", Count, "Skipped lines of a sender that are not change events. If they contained changes, the caches keep the old values. The log has examples." as "guira_invalidator_skipped_lines_total";
        Batches = "batches", Count, "Batches of deletes queued for all targets." as "guira_invalidator_batches_total";
        SourceFailures = "source_failures", Count, "Failures of the connection to the database." as "guira_invalidator_source_failures_total";
        Gaps = "gaps", Count, "Gaps in the log after which all targets were flushed." as "guira_invalidator_gaps_total";
        Saves = "position_saves", Count, "Saved positions." as "guira_invalidator_position_saves_total";
        Reloads = "reloads", Count, "Reloads of the configuration." as "guira_invalidator_reloads_total";
        ReloadFailures = "reload_failures", Count, "Failed reloads, after which the previous configuration stays in effect." as "guira_invalidator_reload_failures_total";
        SaveFailures = "position_save_failures", Count, "Failed saves of the position: a restart repeats more deletes." as "guira_invalidator_position_save_failures_total";
    }
}

guira_sync::counters! {
    pub(crate) enum TargetCount {
        Deletes = "deletes", Count, "Deletes acknowledged by the target." as "guira_invalidator_deletes_total";
        Hits = "hits", Count, "Acknowledged deletes that removed an item." as "guira_invalidator_delete_hits_total";
        Batches = "target_batches", Count, "Batches acknowledged by the target." as "guira_invalidator_target_batches_total";
        Failures = "target_failures", Count, "Failed deliveries of a batch; each is retried." as "guira_invalidator_target_failures_total";
        Packets = "target_packets", Count, "Packets of deletes sent to the target, each with one batch or several." as "guira_invalidator_target_packets_total";
        Again = "again", Count, "Second deletes, `again-after-ms` after the first, acknowledged by the target." as "guira_invalidator_again_deletes_total";
        AgainHits = "again_hits", Count, "Second deletes that removed an item: a client may have read the old value before the commit was visible." as "guira_invalidator_again_hits_total";
        Spooled = "spooled_batches", Count, "Batches written to the target's spool." as "guira_invalidator_spooled_batches_total";
        SpoolFailures = "spool_failures", Count, "Failures to write or read the target's spool: the target then delays the others." as "guira_invalidator_spool_failures_total";
        Rejected = "rejected", Count, "Deletes that the target rejected (CLIENT_ERROR); they were dropped." as "guira_invalidator_rejected_deletes_total";
    }
}

/// The sender is reported as useless after this many lines in a row without a change event, if they
/// took at least [`USELESS_S`] seconds: a single bad line is no alarm.
const USELESS_LINES: u64 = 10;
const USELESS_S: u64 = 10;

/// Counters of the process, and the state of the database as last seen.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Relaxed: they are only printed.
    values: [AtomicU64; Count::COUNT],
    /// Relaxed: it is only printed.
    is_connected: AtomicBool,
    /// When the database last sent something, in seconds since 1970. Relaxed: it is only printed.
    last_message: AtomicU64,
    /// Lines in a row that were not change events, and when the first of them arrived, in seconds
    /// since 1970. Relaxed: they are only printed.
    useless: AtomicU64,
    useless_since: AtomicU64,
    /// The bytes of the log that the database keeps for this invalidator. Relaxed: it is only
    /// printed.
    retained: AtomicU64,
    /// How much of the log the database had when it was last watched.
    /// LOCK: invalidator_extent. Leaf.
    extent: Mutex<Option<Extent>>,
}

impl Counts {
    /// Adds one; returns whether it is worth a line of the log: the first, second, fourth, eighth …
    pub(crate) fn add(&self, counter: Count) -> bool {
        let before = self.values[counter as usize].fetch_add(1, Ordering::Relaxed);
        (before + 1).is_power_of_two()
    }

    pub(crate) fn get(&self, counter: Count) -> u64 {
        self.values[counter as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn record_message(&self, now: u64) {
        self.is_connected.store(true, Ordering::Relaxed);
        self.last_message.store(now, Ordering::Relaxed);
    }

    /// Counts a skipped line: it was not a change event.
    pub(crate) fn skipped_line(&self, now: u64) {
        if self.useless.fetch_add(1, Ordering::Relaxed) == 0 {
            self.useless_since.store(now, Ordering::Relaxed);
        }
    }

    /// Ends a run of skipped lines: a change event has arrived.
    pub(crate) fn used_line(&self) {
        if self.useless.load(Ordering::Relaxed) > 0 {
            self.useless.store(0, Ordering::Relaxed);
        }
    }

    /// The number of lines since the last change event and their time in seconds, once both are too
    /// large to be chance.
    pub(crate) fn useless_lines(&self, now: u64) -> Option<(u64, u64)> {
        let seconds = now.saturating_sub(self.useless_since.load(Ordering::Relaxed));
        let lines = self.useless.load(Ordering::Relaxed);
        (lines >= USELESS_LINES && seconds >= USELESS_S).then_some((lines, seconds))
    }

    pub(crate) fn set_retained(&self, bytes: u64) {
        self.retained.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn set_extent(&self, extent: Option<Extent>) {
        *self.extent.lock() = extent;
    }

    /// The number of bytes between `place` and the end of the log, if both are known.
    pub(crate) fn behind(&self, place: Place) -> Option<u64> {
        let extent = self.extent.lock();
        extent.as_ref().map(|extent| extent.behind(place))
    }

    pub(crate) fn retained(&self) -> u64 {
        self.retained.load(Ordering::Relaxed)
    }

    pub(crate) fn lost(&self) {
        self.is_connected.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }

    /// The seconds since the database last sent something, if it ever has.
    pub(crate) fn silence(&self, now: u64) -> Option<u64> {
        Some(self.last_message()).filter(|at| *at > 0).map(|at| now.saturating_sub(at))
    }

    pub(crate) fn last_message(&self) -> u64 {
        self.last_message.load(Ordering::Relaxed)
    }
}

/// Counters of a target, and its name.
#[derive(Debug)]
pub(crate) struct TargetCounts {
    name: String,
    /// Relaxed: they are only printed.
    values: [AtomicU64; TargetCount::COUNT],
    /// Whether the last attempt succeeded. Relaxed: it is only printed.
    is_up: AtomicBool,
    /// Whether the last flush failed. Relaxed: it is only printed.
    refuses_flush: AtomicBool,
    /// The size of the target's spool in bytes. Relaxed: it is only printed.
    spool: AtomicU64,
}

impl TargetCounts {
    pub(crate) fn new(name: &str) -> Self {
        TargetCounts {
            name: name.to_owned(),
            values: Default::default(),
            is_up: AtomicBool::new(true),
            refuses_flush: AtomicBool::new(false),
            spool: AtomicU64::new(0),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the value before the addition.
    pub(crate) fn add(&self, counter: TargetCount, count: u64) -> u64 {
        self.values[counter as usize].fetch_add(count, Ordering::Relaxed)
    }

    pub(crate) fn get(&self, counter: TargetCount) -> u64 {
        self.values[counter as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn set_up(&self, is_up: Health) {
        self.is_up.store(is_up == Health::Up, Ordering::Relaxed);
    }

    /// Records the result of the last flush.
    pub(crate) fn set_flushed(&self, flushed: Flushed) {
        self.refuses_flush.store(flushed == Flushed::Refused, Ordering::Relaxed);
    }

    pub(crate) fn refuses_flush(&self) -> bool {
        self.refuses_flush.load(Ordering::Relaxed)
    }

    pub(crate) fn set_spool(&self, bytes: u64) {
        self.spool.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn spool(&self) -> u64 {
        self.spool.load(Ordering::Relaxed)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Up,
    Down,
}

/// Whether a target has executed a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    Done,
    Refused,
}
