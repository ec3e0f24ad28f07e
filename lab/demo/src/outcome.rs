//! The outcome of random faults.

/// Random faults in progress, or their outcome.
#[derive(Clone, Debug)]
pub(crate) struct Chaos {
    pub(crate) seed: u64,
    /// `None` while they are in progress.
    pub(crate) outcome: Option<Outcome>,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    /// Figures, as text.
    pub summary: String,
    /// Errors: wrong replies, and values that the caches have in the end and the database does not.
    pub wrong: Vec<String>,
}
