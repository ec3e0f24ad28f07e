//! delete and touch.

use crate::counters::CommandCount;
use crate::deletion::Deleted;
use crate::executor::Executor;
use crate::observe::DeletedBy;
use crate::sight::{Sight, Vacancy};
use crate::store::refusal_line;
use crate::token::DeleteTime;
use guira_contract::{Amendment, Decision, ItemView, Key, Provision, Recency, Session, StoreError};
use guira_protocol::{BAD_FORMAT, Delete, Exptime, Noreply, Replies, Touch};

/// The reply if a key is gone, and there is no memory to hold it off.
pub(crate) const NOT_HELD_OFF: &str = "SERVER_ERROR out of memory";

impl<S: Session> Executor<S> {
    pub fn delete<R: Replies<Pin = S::Pin>>(&mut self, key: Key<'_>, delete: &Delete<'_>, replies: &mut R) {
        let hold_off = match (self.leases.delete_time, delete.hold_off) {
            (DeleteTime::Ignored, _) => Ok(0),
            (DeleteTime::HoldsOff, Some(seconds)) => Ok(seconds),
            (DeleteTime::HoldsOff, None) => Err(BAD_FORMAT),
        };
        let line = match hold_off.map(|seconds| self.delete_key(key, seconds)) {
            Ok(Ok(true)) => "DELETED",
            Ok(Ok(false)) => "NOT_FOUND",
            Ok(Err(_)) => NOT_HELD_OFF,
            Err(bad) => bad,
        };
        if delete.noreply == Noreply::No {
            replies.buffer().line(line);
        }
    }

    /// Returns whether the key existed.
    ///
    /// # Errors
    /// If there is no memory to hold the key off. It is gone all the same.
    pub(crate) fn delete_key(&mut self, key: Key<'_>, hold_off: u32) -> Result<bool, StoreError> {
        let item = self.before_delete(key);
        let class = self.class_before_delete(key);
        let deleted = self.delete_item(key, None, hold_off);
        let found = deleted == Ok(Deleted::Done);
        self.count(if found { CommandCount::DeleteHits } else { CommandCount::DeleteMisses });
        self.sample_delete(class.filter(|_| found));
        self.saw_delete(key, DeletedBy::Delete, item.filter(|_| found));
        deleted.map(|_| found)
    }

    pub fn touch<R: Replies<Pin = S::Pin>>(&mut self, key: Key<'_>, touch: &Touch<'_>, replies: &mut R) {
        let line = match self.touch_key(key, touch.exptime) {
            Ok(true) => "TOUCHED",
            Ok(false) => "NOT_FOUND",
            Err(refusal) => refusal_line(refusal),
        };
        if touch.noreply == Noreply::No {
            replies.buffer().line(line);
        }
    }

    pub(crate) fn touch_key(&mut self, key: Key<'_>, time: Exptime) -> Result<bool, StoreError> {
        let expiry = self.expiry(time);
        // A removal needs no memory.
        let has_passed = expiry.passed(self.now);
        let mut found = false;
        let decide = |item: Option<&dyn ItemView>, _: Vacancy| {
            found = item.is_some();
            if has_passed {
                return Decision::Remove;
            }
            Decision::Amend(Amendment {
                expiry: Some(expiry),
                recency: Recency::Bump,
                ..Amendment::default()
            })
        };
        self.saw_request(key);
        let result = self.update(Sight::Plain, key, Default::default(), Provision::None, decide);
        self.count(CommandCount::CmdTouch);
        self.count(if found { CommandCount::TouchHits } else { CommandCount::TouchMisses });
        if found {
            self.sample(CommandCount::TouchHits, key);
        }
        result.map(|()| found)
    }
}
