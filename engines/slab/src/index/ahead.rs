//! Committing a table before it is used, by a thread that no request waits for.

use super::grow::{Growth, Phase};
use super::lookup::Index;
use super::scheme::Scheme;
use super::table::Ahead;
use guira_sync::lock::MutexGuard;
use guira_sync::quiescence::Quiescence;

/// What a step of committing a table came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableAhead {
    /// There is no table to commit.
    Idle,
    /// A piece was committed, or growth has begun.
    Committed,
    /// There is no room where the Region lies: the table, of so many bytes, is given up.
    NoRoom(usize),
}

/// Bytes that are committed in one step.
const PIECE: usize = 2 << 20;

impl<S: Scheme> Index<S> {
    pub(super) fn lock_growth(&self) -> MutexGuard<'_, Growth<S>> {
        self.growth.lock()
    }

    /// Commits a piece of a table that is to be committed ahead. Growth that waits for it begins when all of it is there.
    pub(crate) fn commit_ahead(&self, quiescence: &Quiescence) -> TableAhead {
        let mut growth = self.lock_growth();
        let Some(ahead) = growth.ahead.filter(|_| !growth.is_touching) else {
            return TableAhead::Idle;
        };
        growth.is_touching = true;
        drop(growth);
        let total = self.committed(ahead.table.buckets);
        let step = PIECE.min(total - ahead.done);
        let is_backed = self.region.back(ahead.table.address(0) + ahead.done, step);
        if is_backed {
            self.region.commit(ahead.table.address(0) + ahead.done, step);
        }
        let mut growth = self.lock_growth();
        growth.is_touching = false;
        // Growth may have turned back meanwhile.
        if growth.ahead != Some(ahead) {
            return TableAhead::Committed;
        }
        let done = ahead.done + step;
        if is_backed && done < total {
            growth.ahead = Some(Ahead { done, ..ahead });
            return TableAhead::Committed;
        }
        growth.ahead = Some(Ahead { done, ..ahead });
        if let Phase::Preparing(buckets) = growth.phase
            && !(is_backed && self.announce(&mut growth, buckets, quiescence))
        {
            self.give_up_preparing(&mut growth);
            return TableAhead::NoRoom(total);
        }
        growth.ahead = None;
        TableAhead::Committed
    }

    /// Begins to grow into a table that is being committed, which is needed at once.
    pub(crate) fn begin_prepared(&self, quiescence: &Quiescence) -> TableAhead {
        let mut growth = self.lock_growth();
        let Phase::Preparing(buckets) = growth.phase else {
            return TableAhead::Idle;
        };
        // One that was meant to be smaller does not help who finds this one full.
        let is_larger = buckets > self.layout().buckets();
        if is_larger && self.announce(&mut growth, buckets, quiescence) {
            return TableAhead::Committed;
        }
        // What is being touched must not be taken away.
        if growth.is_touching {
            return TableAhead::Idle;
        }
        self.give_up_preparing(&mut growth);
        TableAhead::NoRoom(self.committed(buckets))
    }

    /// Whether the next table is being committed before anybody knows of it.
    pub(crate) fn is_preparing(&self) -> bool {
        matches!(self.lock_growth().phase, Phase::Preparing(_))
    }

    /// Whether a table that is in use already is still being committed, as far as that can be told without waiting for who moves items into it.
    pub(crate) fn is_late(&self) -> bool {
        self.growth.try_lock().is_none_or(|growth| growth.ahead.is_some())
    }

    /// Gives up a table that nobody knows of.
    pub(super) fn give_up_preparing(&self, growth: &mut Growth<S>) {
        growth.phase = Phase::Idle;
        if let Some(Ahead { table, done }) = growth.ahead.take()
            && self.region.discard(table.address(0), done).is_err()
        {
            self.erase(table, 0, done);
        }
    }
}
