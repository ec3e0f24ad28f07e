//! What a command sees of hidden items: most take them for absent.

use crate::executor::Executor;
use guira_contract::{
    Decision, ItemState, ItemView, Key, Meta, MissKind, Provision, Read, Recency, Session, Sink, StoreError,
    Want,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    Plain,
    Hidden,
    All,
}

impl Sight {
    #[inline(always)]
    pub(crate) fn sees(self, state: ItemState) -> bool {
        match self {
            Sight::Plain => !state.has(ItemState::HIDDEN),
            Sight::Hidden => !state.is_tombstone(),
            Sight::All => true,
        }
    }
}

/// Whether an item may be added under a key that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vacancy {
    Free,
    /// There is a tombstone: the key is held off.
    HeldOff,
}

/// A sink that is passed what a plain command sees. It holds the sink itself: one more pointer on the way costs a get ten instructions.
pub(crate) struct Plain<T> {
    pub(crate) sink: T,
    hidden: bool,
}

impl<T> Plain<T> {
    pub(crate) fn new(sink: T) -> Self {
        Plain { sink, hidden: false }
    }

    #[cold]
    fn hide(&mut self) {
        self.hidden = true;
    }
}

impl<T: Sink> Sink for Plain<T> {
    type Pin = T::Pin;

    #[inline(always)]
    fn wants(&self) -> Want {
        self.sink.wants()
    }

    #[inline(always)]
    fn found<I: ItemView>(&mut self, item: &I) {
        if item.state().has(ItemState::HIDDEN) {
            return self.hide();
        }
        self.sink.found(item);
    }

    #[inline(always)]
    fn undo(&mut self) {
        self.hidden = false;
        self.sink.undo();
    }

    #[inline(always)]
    fn recency(&self) -> Recency {
        // Also of a hidden item: it is not worth a test on every hit.
        self.sink.recency()
    }

    #[inline(always)]
    fn pinned(&mut self, meta: &Meta, pin: T::Pin) {
        if meta.state.has(ItemState::HIDDEN) {
            return self.hide();
        }
        self.sink.pinned(meta, pin);
    }
}

impl<S: Session> Executor<S> {
    /// Reads a key. A hidden item is a miss.
    #[inline(always)]
    pub(crate) fn read<T>(&mut self, key: Key<'_>, guess: S::Guess, sink: &mut Plain<T>) -> Read
    where
        T: Sink<Pin = S::Pin>,
    {
        let read = self.session.read(key, guess, self.now, sink);
        if sink.hidden { Read::Miss(MissKind::Absent) } else { read }
    }

    /// Updates a key. `decide` sees what this sight does, and whether there is a tombstone. An item that it does not see is replaced by what it puts, and
    /// otherwise stays.
    #[inline(always)]
    pub(crate) fn update<'d>(
        &mut self,
        sight: Sight,
        key: Key<'_>,
        guess: S::Guess,
        provision: Provision<S::Pending>,
        mut decide: impl FnMut(Option<&dyn ItemView>, Vacancy) -> Decision<'d>,
    ) -> Result<(), StoreError> {
        self.session.update(key, guess, self.now, provision, |item| match item {
            Some(hidden) if !sight.sees(hidden.state()) => {
                let vacancy = if hidden.state().is_tombstone() { Vacancy::HeldOff } else { Vacancy::Free };
                match decide(None, vacancy) {
                    Decision::Put(new) => Decision::Put(new),
                    Decision::Keep | Decision::Amend(_) | Decision::Remove => Decision::Keep,
                }
            }
            item => decide(item, Vacancy::Free),
        })
    }
}
