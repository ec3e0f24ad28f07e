//! The connections to servers that need work in this round: unsent requests, and deadlines.

#[derive(Debug)]
pub(crate) struct Schedule {
    /// Connections with requests since their last flush.
    unsent: Vec<u32>,
    /// No request times out, and no probe is due, before this.
    deadline_ms: Option<u64>,
    random: u32,
}

impl Default for Schedule {
    fn default() -> Self {
        Schedule { unsent: Vec::new(), deadline_ms: None, random: 1 }
    }
}

impl Schedule {
    /// The connection `number` has its first request since its last flush.
    #[inline]
    pub(crate) fn add_unsent(&mut self, number: u32) {
        self.unsent.push(number);
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// The connections to flush, in order. A flush may add others.
    pub(crate) fn unsent(&self, index: usize) -> Option<u32> {
        self.unsent.get(index).copied()
    }

    pub(crate) fn end_flush(&mut self) {
        self.unsent.clear();
    }

    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.deadline_ms.is_some_and(|deadline| now_ms >= deadline)
    }

    pub(crate) fn deadline_ms(&self) -> Option<u64> {
        self.deadline_ms
    }

    pub(crate) fn set_deadline(&mut self, deadline_ms: Option<u64>) {
        self.deadline_ms = deadline_ms;
    }

    /// The deadline of a connection has changed.
    pub(crate) fn add_deadline(&mut self, deadline_ms: Option<u64>) {
        self.deadline_ms = self.deadline_ms.into_iter().chain(deadline_ms).min();
    }

    /// A random number of 24 bits, for the intervals of probes.
    pub(crate) fn random(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.random >> 8
    }
}
