//! The answer of a handle.

use crate::outcome::{Answer, KeptAnswer, Outcome};
use crate::step::DestinationId;

#[derive(Debug)]
pub(super) enum Done {
    /// The answer that it was given last.
    Present,
    Renumbered(u64),
    Made(Outcome),
    /// The sink did not send the request to this server.
    Refused(Outcome, DestinationId),
    Numbered(Outcome, u64),
    Held(KeptAnswer),
}

impl Done {
    #[inline]
    pub(super) fn with<R>(&self, present: &Answer<'_>, then: impl FnOnce(&Answer<'_>) -> R) -> R {
        match self {
            Done::Present => then(present),
            Done::Held(kept) => then(&kept.answer()),
            _ => then(&self.made(present)),
        }
    }

    /// Builds the answer of every variant but [`Done::Held`], from the present answer.
    fn made<'a>(&self, present: &Answer<'a>) -> Answer<'a> {
        match self {
            Done::Renumbered(number) => present.numbered(*number),
            Done::Made(outcome) => Answer::of(*outcome),
            Done::Refused(outcome, server) => Answer { server: Some(*server), ..Answer::of(*outcome) },
            Done::Numbered(outcome, number) => Answer::of(*outcome).numbered(*number),
            Done::Present | Done::Held(_) => *present,
        }
    }

    pub(super) fn renumbered(self, number: u64) -> Self {
        match self {
            Done::Present | Done::Renumbered(_) => Done::Renumbered(number),
            Done::Made(outcome) | Done::Refused(outcome, _) | Done::Numbered(outcome, _) => {
                Done::Numbered(outcome, number)
            }
            Done::Held(kept) => Done::Held(kept.numbered(number)),
        }
    }
}
