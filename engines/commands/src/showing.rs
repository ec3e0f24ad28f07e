//! Updates that change an item and show it in one step, with no other change in between.
//!
//! The item is shown from within the update. Only a long value is not, since a read pins it instead of copying it:
//! such an item is shown first, and then changed if its cas unique is still the same. If it is not, the reply is
//! taken back.

use crate::executor::Executor;
use crate::observe::Got;
use crate::sight::{Sight, Vacancy};
use guira_contract::{
    Amendment, Decision, ItemState, ItemView, Key, Meta, MissKind, NewItem, Provision, Read, Recency,
    Session, Sink, StoreError, Want,
};
use guira_protocol::Unique;
use guira_sync::clock::Seconds;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Amend(Amendment),
    /// The item is removed, since it has expired.
    Remove,
}

impl Change {
    /// The cas unique that the item gets.
    fn unique(&self) -> Option<u64> {
        if let Change::Amend(amendment) = self { amendment.cas } else { None }
    }

    /// The decision for the engine, which also gives the item this cas unique, if there is one and the change gives none.
    fn decision(self, cas: Option<u64>) -> Decision<'static> {
        match self {
            Change::Amend(amendment) => {
                Decision::Amend(Amendment { cas: amendment.cas.or(cas), ..amendment })
            }
            Change::Remove => Decision::Remove,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Creation {
    Store(NewItem<'static>),
    /// The item is shown as if it had been stored, but it has expired.
    Pass(NewItem<'static>),
}

/// An update of an item that a sink shows.
pub(crate) trait ShownUpdate<T> {
    /// What it sees of hidden items.
    const SIGHT: Sight;

    /// Decides on the item that is shown next. May be called several times; the last call counts.
    fn change(&mut self, sink: &mut T, item: &Meta) -> Change;

    /// The item to create on a miss.
    fn create(&mut self, sink: &mut T) -> Option<Creation>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UpdateOutcome {
    Nothing,
    Shown,
    /// The value is too long to be copied. Nothing was changed.
    Long,
}

/// An item as it is shown, with the cas unique that it gets.
struct AsShown<'a> {
    /// `None` for a created item, which has no value.
    item: Option<&'a dyn ItemView>,
    meta: Meta,
}

impl AsShown<'_> {
    fn created(new: &NewItem<'_>, last_access: Seconds) -> Self {
        let NewItem { flags, expiry, cas, state, .. } = *new;
        AsShown {
            item: None,
            meta: Meta { value_len: 0, flags, expiry, cas, last_access, state, size: 0, class: 0 },
        }
    }
}

impl ItemView for AsShown<'_> {
    fn value_len(&self) -> usize {
        self.meta.value_len
    }

    fn flags(&self) -> u32 {
        self.meta.flags
    }

    fn cas(&self) -> Option<u64> {
        self.meta.cas
    }

    fn state(&self) -> ItemState {
        self.meta.state
    }

    fn meta(&self) -> Meta {
        self.meta
    }

    fn copy_value(&self, from: usize, out: &mut [u8]) {
        if let Some(item) = self.item {
            item.copy_value(from, out);
        }
    }
}

/// Records an item and the change to it, and passes it on to the sink, unless it still needs a cas unique.
struct Recorder<'a, T, C> {
    sink: &'a mut T,
    changing: &'a mut C,
    noted: Option<Meta>,
}

impl<T: Sink, C: ShownUpdate<T>> Recorder<'_, T, C> {
    /// Returns the item as it is passed on, if it is: with the cas unique that it is to get.
    fn note(&mut self, meta: Meta) -> Option<Meta> {
        // A hidden item that is not to be seen is not there: the next attempt finds that.
        self.noted = meta.cas.map(|_| meta).filter(|meta| C::SIGHT.sees(meta.state));
        let change = self.noted.map(|_| self.changing.change(self.sink, &meta))?;
        Some(Meta { cas: change.unique().or(meta.cas), ..meta })
    }
}

impl<T: Sink, C: ShownUpdate<T>> Sink for Recorder<'_, T, C> {
    type Pin = T::Pin;

    fn wants(&self) -> Want {
        self.sink.wants()
    }

    fn found<I: ItemView>(&mut self, item: &I) {
        if let Some(meta) = self.note(item.meta()) {
            self.sink.found(&AsShown { item: Some(item), meta });
        }
    }

    fn undo(&mut self) {
        self.sink.undo();
    }

    fn recency(&self) -> Recency {
        // The change records the access.
        Recency::Leave
    }

    fn pinned(&mut self, meta: &Meta, pin: T::Pin) {
        if let Some(meta) = self.note(*meta) {
            self.sink.pinned(&meta, pin);
        }
    }
}

struct Attempt<'a, T, C> {
    sink: &'a mut T,
    changing: &'a mut C,
    now: Seconds,
    /// The longest value that is copied.
    copied_max: usize,
    /// The cas unique for an item that has none.
    unique: Option<u64>,
}

impl<T: Sink, C: ShownUpdate<T>> Attempt<'_, T, C> {
    fn decide(
        &mut self,
        item: Option<&dyn ItemView>,
        vacancy: Vacancy,
    ) -> (Decision<'static>, UpdateOutcome) {
        match item {
            Some(item) => self.decide_on(item),
            None if vacancy == Vacancy::HeldOff => (Decision::Keep, UpdateOutcome::Nothing),
            None => match self.changing.create(self.sink) {
                None => (Decision::Keep, UpdateOutcome::Nothing),
                Some(Creation::Store(new)) => (Decision::Put(self.show_created(new)), UpdateOutcome::Shown),
                Some(Creation::Pass(new)) => {
                    self.show_created(new);
                    (Decision::Keep, UpdateOutcome::Shown)
                }
            },
        }
    }

    fn show_created(&mut self, new: NewItem<'static>) -> NewItem<'static> {
        let new = NewItem { cas: new.cas.or(self.unique), ..new };
        self.sink.found(&AsShown::created(&new, self.now));
        new
    }

    fn decide_on(&mut self, item: &dyn ItemView) -> (Decision<'static>, UpdateOutcome) {
        let meta = item.meta();
        if self.sink.wants() == Want::Value && meta.value_len > self.copied_max {
            return (Decision::Keep, UpdateOutcome::Long);
        }
        let change = self.changing.change(self.sink, &meta);
        let given = if meta.cas.is_none() { self.unique } else { None };
        let cas = change.unique().or(meta.cas).or(given);
        self.sink.found(&AsShown { item: Some(item), meta: Meta { cas, ..meta } });
        (change.decision(given), UpdateOutcome::Shown)
    }
}

impl<S: Session> Executor<S> {
    /// Changes an item and shows it. Gives it a cas unique if the reply contains one and the item has none.
    pub(crate) fn change_and_show<T, C>(
        &mut self,
        key: Key<'_>,
        unique: Unique,
        sink: &mut T,
        changing: &mut C,
    ) -> Result<Read, StoreError>
    where
        T: Sink<Pin = S::Pin>,
        C: ShownUpdate<T>,
    {
        let unique = if unique == Unique::Shown { self.fresh_unique() } else { None };
        let copied_max = self.session.inline_max();
        loop {
            let mut found = UpdateOutcome::Nothing;
            let mut attempt = Attempt { sink, changing, now: self.now, copied_max, unique };
            let decide = |item: Option<&dyn ItemView>, vacancy: Vacancy| {
                attempt.sink.undo();
                let (decision, came_of_it) = attempt.decide(item, vacancy);
                found = came_of_it;
                decision
            };
            let done = self.update(C::SIGHT, key, Default::default(), Provision::None, decide);
            if let Err(refusal) = done {
                sink.undo();
                return Err(refusal);
            }
            match found {
                UpdateOutcome::Shown => return Ok(Read::Hit),
                // The kind of the miss; an item that is there now was stored later.
                UpdateOutcome::Nothing => {
                    let missed = self.look_up(key).0;
                    return Ok(Read::Miss(if let Got::Missed(kind) = missed {
                        kind
                    } else {
                        MissKind::Absent
                    }));
                }
                UpdateOutcome::Long => {
                    if self.show_and_change(key, sink, changing)? {
                        return Ok(Read::Hit);
                    }
                }
            }
        }
    }

    /// Shows an item, and then changes it. False if nothing was shown, because there is no item or it changed in
    /// between.
    fn show_and_change<T, C>(
        &mut self,
        key: Key<'_>,
        sink: &mut T,
        changing: &mut C,
    ) -> Result<bool, StoreError>
    where
        T: Sink<Pin = S::Pin>,
        C: ShownUpdate<T>,
    {
        let mut noting = Recorder { sink, changing, noted: None };
        let read = self.session.read(key, S::Guess::default(), self.now, &mut noting);
        let Some(noted) = noting.noted.filter(|_| read == Read::Hit) else {
            self.give_unique(key)?;
            return Ok(false);
        };
        let mut is_same = false;
        let decide = |item: Option<&dyn ItemView>, _: Vacancy| {
            is_same = item.is_some_and(|item| is_as(&item.meta(), &noted));
            if is_same { changing.change(sink, &noted).decision(None) } else { Decision::Keep }
        };
        let done = self.update(C::SIGHT, key, Default::default(), Provision::None, decide);
        if !is_same || done.is_err() {
            sink.undo();
        }
        done.map(|()| is_same)
    }
}

/// Whether an item is unchanged. Its cas unique identifies its value, except after `md` with x, which keeps the
/// unique and removes value and flags.
fn is_as(item: &Meta, noted: &Meta) -> bool {
    let identity =
        |meta: &Meta| (meta.cas, meta.value_len, meta.flags, meta.expiry, meta.state, meta.last_access);
    identity(item) == identity(noted)
}
