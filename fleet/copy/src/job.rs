//! The copy itself.

use std::num::NonZeroU32;
use std::time::Duration;

use guira_client::pools::{Client, Store};
use guira_client::text::Target;
use guira_sync::clock::{Stopwatch, wall_clock};
use guira_sync::thread;

use crate::adder::{AddError, Added, Again, add_all};
use crate::error::CopyError;
use crate::keys::{Key, KeyForm, Keys};
use crate::lifetime::Lifetime;
use crate::pace::Pace;
use crate::report::{Counts, Reason, Report, add_reason};
use crate::source::{Found, Item, Source};

/// Pause before the destination is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// What to copy, and where.
#[derive(Debug)]
pub struct Job {
    /// The server that has the items.
    pub source: Target,
    /// The servers that get them.
    pub destination: Client,
    /// Only keys that begin so.
    pub prefix: Vec<u8>,
    /// Most keys per second.
    pub rate: Option<NonZeroU32>,
    /// How long copies live.
    pub lifetime: Lifetime,
}

/// Watches a copy.
pub trait Observer {
    /// Whether the copy is to stop.
    fn is_stopped(&mut self) -> bool;
    /// This many keys were listed so far.
    fn listing(&mut self, keys: u64);
    /// What happened so far to keys of this number.
    fn copying(&mut self, keys: u64, counts: &Counts);
}

/// Copies all items that the destination does not have.
pub fn copy(job: &Job, observer: &mut impl Observer) -> Report {
    let clock = Stopwatch::start();
    let mut work = Work { job, observer, keys: 0, counts: Counts::default(), reasons: Vec::new() };
    let error = work.run().err();
    let Work { keys, counts, reasons, .. } = work;
    Report { keys, counts, reasons, elapsed: clock.elapsed(), error }
}

struct Work<'a, O> {
    job: &'a Job,
    observer: &'a mut O,
    keys: u64,
    counts: Counts,
    reasons: Vec<Reason>,
}

impl<O: Observer> Work<'_, O> {
    fn run(&mut self) -> Result<(), CopyError> {
        let mut source = Source::connect(&self.job.source)?;
        let observer = &mut *self.observer;
        let keys = source.keys(&self.job.prefix, |count| {
            observer.listing(count);
            observer.is_stopped()
        })?;
        self.keys = keys.count();
        self.batches(&mut source, &keys)
    }

    fn batches(&mut self, source: &mut Source, keys: &Keys) -> Result<(), CopyError> {
        let (mut pace, clock) = (Pace::new(self.job.rate), Stopwatch::start());
        let mut left = keys.iter();
        loop {
            let batch: Vec<Key<'_>> = left.by_ref().take(pace.keys()).collect();
            if batch.is_empty() {
                return Ok(());
            }
            if self.observer.is_stopped() {
                return Err(CopyError::Stopped);
            }
            let early = pace.due().saturating_sub(clock.elapsed());
            if !early.is_zero() {
                thread::sleep(early);
            }
            let bytes = self.batch(source, &batch)?;
            pace.record(batch.len() as u64, bytes, clock.elapsed());
            self.observer.copying(self.keys, &self.counts);
        }
    }

    /// Copies a batch. Returns the number of bytes that were read.
    fn batch(&mut self, source: &mut Source, batch: &[Key<'_>]) -> Result<u64, CopyError> {
        let found = source.read(batch)?;
        let mut items: Vec<(Key<'_>, Item)> = Vec::new();
        for (key, found) in batch.iter().zip(found) {
            match found {
                Found::Item(item) => items.push((*key, item)),
                Found::Gone => self.counts.gone += 1,
                Found::Stale => self.counts.stale += 1,
                Found::Refused(reason) => self.fail(key.bytes, reason),
            }
        }
        let now_s = wall_clock();
        let stores: Vec<Store<'_>> =
            items.iter().map(|(key, item)| store(*key, item, self.job.lifetime, now_s)).collect();
        let added = add_all(
            &stores,
            |stores| self.job.destination.add_many(stores),
            || {
                thread::sleep(PAUSE);
                if self.observer.is_stopped() { Again::Stop } else { Again::Yes }
            },
        )
        .map_err(|error| match error {
            AddError::Down(error) => CopyError::Destination(error),
            AddError::Stopped => CopyError::Stopped,
        })?;
        for ((key, item), added) in items.iter().zip(added) {
            match added {
                Added::Copied => {
                    self.counts.copied += 1;
                    self.counts.bytes += item.value.len() as u64;
                }
                Added::Present => self.counts.present += 1,
                Added::Failed(error) => self.fail(key.bytes, error.to_string()),
            }
        }
        Ok(items.iter().map(|(_, item)| item.value.len() as u64).sum())
    }

    fn fail(&mut self, key: &[u8], reason: String) {
        self.counts.failed += 1;
        add_reason(&mut self.reasons, reason, key);
    }
}

fn store<'i>(key: Key<'i>, item: &'i Item, lifetime: Lifetime, now_s: u64) -> Store<'i> {
    let store = Store::new(key.bytes, &item.value).flags(item.flags);
    let store = store.expiry(lifetime.exptime(item.left, now_s));
    match key.form {
        KeyForm::Word => store,
        KeyForm::Base64 => store.binary_key(),
    }
}
