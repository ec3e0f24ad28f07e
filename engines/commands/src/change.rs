//! delete and touch.

use crate::counters::CommandCount;
use crate::deletion::Deleted;
use crate::executor::Executor;
use crate::observe::DeletedBy;
use crate::sight::Sight;
use crate::store::refusal_line;
use guira_contract::{Amendment, Decision, ItemView, Key, Provision, Recency, Session, StoreError};
use guira_protocol::{Delete, Exptime, Noreply, Replies, Touch};

impl<S: Session> Executor<S> {
    pub fn delete<R: Replies<Pin = S::Pin>>(&mut self, key: Key<'_>, delete: &Delete<'_>, replies: &mut R) {
        let found = self.delete_key(key);
        if delete.noreply == Noreply::No {
            replies.buffer().line(if found { "DELETED" } else { "NOT_FOUND" });
        }
    }

    /// Returns whether the key existed.
    pub(crate) fn delete_key(&mut self, key: Key<'_>) -> bool {
        let item = self.before_delete(key);
        let class = self.class_before_delete(key);
        let found = self.delete_item(key, None) == Deleted::Done;
        self.count(if found { CommandCount::DeleteHits } else { CommandCount::DeleteMisses });
        self.sample_delete(class.filter(|_| found));
        self.saw_delete(key, DeletedBy::Delete, item.filter(|_| found));
        found
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

    /// Returns whether the key existed.
    pub(crate) fn touch_key(&mut self, key: Key<'_>, time: Exptime) -> Result<bool, StoreError> {
        let expiry = self.expiry(time);
        // A removal needs no memory.
        let has_passed = expiry.passed(self.now);
        let mut found = false;
        let decide = |item: Option<&dyn ItemView>| {
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
        self.saw_lookup(key);
        let result = self.update(Sight::Plain, key, Default::default(), Provision::None, decide);
        self.count(CommandCount::CmdTouch);
        self.count(if found { CommandCount::TouchHits } else { CommandCount::TouchMisses });
        if found {
            self.sample(CommandCount::TouchHits, key);
        }
        result.map(|()| found)
    }
}
