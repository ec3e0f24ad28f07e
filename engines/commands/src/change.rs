//! delete and touch.

use crate::counters::CommandCount;
use crate::observe::DeletedBy;
use crate::store::refusal_line;
use crate::{Executor, Replies};
use guira_contract::{Amendment, Decision, ItemView, Key, Recency, Session};
use guira_protocol::{Delete, Noreply, Touch};

impl<S: Session> Executor<S> {
    /// delete
    pub fn delete<R: Replies<Pin = S::Pin>>(&mut self, key: Key<'_>, delete: &Delete<'_>, replies: &mut R) {
        let item = self.before_delete(key);
        let class = self.class_before_delete(key);
        let mut found = false;
        let decide = |item: Option<&dyn ItemView>| {
            found = item.is_some();
            Decision::Remove
        };
        // Nothing is stored, so nothing can be refused.
        let _ = self.session.update(key, self.now, None, None, decide);
        self.count(if found { CommandCount::DeleteHits } else { CommandCount::DeleteMisses });
        self.sample_delete(class.filter(|_| found));
        self.saw_delete(key, DeletedBy::Delete, item.filter(|_| found));
        if delete.noreply == Noreply::No {
            replies.buffer().line(if found { "DELETED" } else { "NOT_FOUND" });
        }
    }

    /// touch
    pub fn touch<R: Replies<Pin = S::Pin>>(&mut self, key: Key<'_>, touch: &Touch<'_>, replies: &mut R) {
        let expiry = Some(self.expiry(touch.exptime));
        let mut found = false;
        let decide = |item: Option<&dyn ItemView>| {
            found = item.is_some();
            Decision::Amend(Amendment { expiry, recency: Recency::Bump, ..Amendment::default() })
        };
        self.saw_lookup(key);
        let result = self.session.update(key, self.now, None, None, decide);
        self.count(CommandCount::CmdTouch);
        self.count(if found { CommandCount::TouchHits } else { CommandCount::TouchMisses });
        if found {
            self.sample(CommandCount::TouchHits, key);
        }
        let line = match result {
            Ok(()) if found => "TOUCHED",
            Ok(()) => "NOT_FOUND",
            Err(refusal) => refusal_line(refusal),
        };
        if touch.noreply == Noreply::No {
            replies.buffer().line(line);
        }
    }
}
