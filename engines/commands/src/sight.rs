//! What a command sees of hidden items: most take them for absent.

use crate::executor::Executor;
use guira_contract::{
    Decision, ItemState, ItemView, Key, Meta, MissKind, Provision, Read, Recency, Session, Sink, StoreError,
    Want,
};

/// Which items a command sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// All but the hidden ones.
    Plain,
    /// All.
    Hidden,
}

impl Sight {
    #[inline(always)]
    pub(crate) fn sees(self, state: ItemState) -> bool {
        self == Sight::Hidden || !state.has(ItemState::HIDDEN)
    }
}

/// Passes on what a plain command sees.
struct Plain<'a, T> {
    sink: &'a mut T,
    hidden: bool,
}

impl<T: Sink> Sink for Plain<'_, T> {
    type Pin = T::Pin;

    #[inline(always)]
    fn wants(&self) -> Want {
        self.sink.wants()
    }

    #[inline(always)]
    fn found<I: ItemView>(&mut self, item: &I) {
        self.hidden = item.state().has(ItemState::HIDDEN);
        if !self.hidden {
            self.sink.found(item);
        }
    }

    #[inline(always)]
    fn undo(&mut self) {
        self.sink.undo();
    }

    #[inline(always)]
    fn recency(&self) -> Recency {
        if self.hidden { Recency::Leave } else { self.sink.recency() }
    }

    #[inline(always)]
    fn pinned(&mut self, meta: &Meta, pin: T::Pin) {
        self.hidden = meta.state.has(ItemState::HIDDEN);
        if !self.hidden {
            self.sink.pinned(meta, pin);
        }
    }
}

impl<S: Session> Executor<S> {
    /// Reads a key. A hidden item is a miss.
    #[inline(always)]
    pub(crate) fn read<T>(&mut self, key: Key<'_>, guess: S::Guess, sink: &mut T) -> Read
    where
        T: Sink<Pin = S::Pin>,
    {
        let mut plain = Plain { sink, hidden: false };
        let read = self.session.read(key, guess, self.now, &mut plain);
        if plain.hidden && read == Read::Hit { Read::Miss(MissKind::Absent) } else { read }
    }

    /// Updates a key. `decide` sees what this sight does. A hidden item that it does not see is replaced by what it puts, and otherwise stays.
    #[inline(always)]
    pub(crate) fn update<'d>(
        &mut self,
        sight: Sight,
        key: Key<'_>,
        guess: S::Guess,
        provision: Provision<S::Pending>,
        mut decide: impl FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    ) -> Result<(), StoreError> {
        self.session.update(key, guess, self.now, provision, |item| match item {
            Some(hidden) if !sight.sees(hidden.state()) => match decide(None) {
                Decision::Put(new) => Decision::Put(new),
                Decision::Keep | Decision::Amend(_) | Decision::Remove => Decision::Keep,
            },
            item => decide(item),
        })
    }
}
