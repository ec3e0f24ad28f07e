//! Time in fills: the time in which as much is stored as the cache has room for.

/// How much faster or slower bytes are stored than the sample says, at the most.
const PACE: (f64, f64) = (1.0 / 64.0, 64.0);

#[derive(Debug)]
pub(crate) struct FillClock {
    now: f64,
    /// Bytes stored since the last pulse, as the sample estimates them.
    sampled: f64,
    /// The bytes stored in the engine for a byte that the sample estimates.
    pace: f64,
    /// When waiting keys were last counted.
    counted: f64,
}

impl Default for FillClock {
    fn default() -> Self {
        FillClock { now: 0.0, sampled: 0.0, pace: 1.0, counted: 0.0 }
    }
}

impl FillClock {
    pub(crate) fn now(&self) -> f64 {
        self.now
    }

    /// A sampled store stands for this number of bytes.
    pub(crate) fn store(&mut self, bytes: f64, capacity: f64) {
        self.sampled += bytes;
        self.now += bytes * self.pace / capacity;
    }

    /// The time since waiting keys were last counted.
    pub(crate) fn since_count(&self) -> f64 {
        self.now - self.counted
    }

    pub(crate) fn end_count(&mut self) {
        self.counted = self.now;
    }

    /// Follows the engine's time, in which `stored` bytes were stored since the last pulse: a key that is stored often may
    /// be in the sample, or not.
    pub(crate) fn keep_pace(&mut self, stored: f64) {
        let sampled = std::mem::take(&mut self.sampled);
        if stored > 0.0 && sampled > 0.0 {
            self.pace = (self.pace * (stored / sampled).clamp(PACE.0, PACE.1)).sqrt();
        }
    }
}
