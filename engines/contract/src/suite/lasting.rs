//! What the suites of restarts and damage have to know of an engine, and its Region's file.

use super::damage::Part;
use super::scratch::Scratch;
use super::sink::{settle, store};
use crate::{Control, Emptied, Engine, Expiry, Lossiness, Opened, Opening, Session, StoreError};
use guira_memory::RegionPlace;
use guira_sync::clock::Seconds;
use std::fmt::Debug;
use std::sync::Arc;

/// The wall clock when the first engine is opened on a Region. Second 0 is two seconds earlier.
pub(super) const UNIX: u64 = 1_700_000_000;
/// The second at which engines are closed.
pub(super) const NOW: Seconds = Seconds(1000);
/// Seconds of the wall clock from the first opening to the others, two less than the engine has counted by then.
pub(super) const LATER: u64 = 998;
pub(super) const NOTES: &[u8] = b"notes of the server";

/// An engine whose Region may last, set up in one way. It takes values of 100 kB.
pub trait Lasting: Clone {
    /// The engine.
    type Engine: Engine;
    /// Why it cannot be opened.
    type Error: std::error::Error;

    /// What [`EngineStats::bytes`](crate::EngineStats::bytes) counts with each item beside its size.
    const EXTRA_BYTES: u64 = 0;

    /// The least memory, in MiB, in which a cache has room for several threads that store values of up to 30,000 bytes.
    const LEAST_MIB: usize = 4;

    /// Opens it at a place, by a wall clock that says `unix` seconds.
    ///
    /// # Errors
    /// If the place or the memory cannot be used.
    fn open(
        &self,
        size: RegionSize,
        place: &RegionPlace,
        unix: u64,
    ) -> Result<Opened<Self::Engine>, Self::Error>;

    /// Setups that empty a Region of this one, and a part of the reason that the engine gives.
    fn incompatible(&self) -> Vec<(Self, &'static str)>;

    /// Setups that go on with a Region of this one.
    fn compatible(&self) -> Vec<Self>;

    /// Panics unless all that the engine holds fits together and is counted. Nothing else uses the engine, and no maintenance is left to do.
    fn check(&self, engine: &Self::Engine);

    /// The same for an engine that went on with a state that may be wrong: what it may waste then is not looked at.
    fn check_any_state(&self, engine: &Self::Engine) {
        self.check(engine);
    }

    /// What the engine's Region consists of.
    fn parts(&self, engine: &Self::Engine) -> Vec<Part>;
}

/// How much memory a Region has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSize {
    /// Memory for items and index, in bytes.
    pub memory: usize,
    /// The most bytes that it may be resized to.
    pub reserve: usize,
}

impl RegionSize {
    /// `memory` bytes, and four times as many in reserve.
    pub fn of(memory: usize) -> Self {
        RegionSize { memory, reserve: 4 * memory }
    }
}

/// A setup, and a file for its Region.
#[derive(Debug)]
pub struct Site<L> {
    pub(super) setup: L,
    pub(super) size: RegionSize,
    pub(super) file: Scratch,
}

impl<L: Lasting> Site<L> {
    /// One with a file of its own, in which there is nothing yet.
    pub fn new(setup: &L, size: RegionSize) -> Self {
        Site { setup: setup.clone(), size, file: Scratch::default() }
    }

    /// Where the file is.
    pub fn place(&self) -> RegionPlace {
        self.file.place()
    }

    /// Opens the engine.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub fn open(&self) -> Opened<L::Engine> {
        self.open_at(UNIX + LATER)
    }

    /// Opens the engine when the wall clock says `unix` seconds.
    pub(super) fn open_at(&self, unix: u64) -> Opened<L::Engine> {
        let opened = self.setup.open(self.size, &self.place(), unix);
        opened.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Opens it with another amount of memory.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub fn open_with(&self, memory: usize) -> Opened<L::Engine> {
        let size = RegionSize { memory, ..self.size };
        let opened = self.setup.open(size, &self.place(), UNIX + LATER);
        opened.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Opens it, which finds all that was there when it was closed.
    ///
    /// # Panics
    /// If it does not.
    pub fn restored(&self, items: u64) -> L::Engine {
        let Opened { engine, opening, .. } = self.open();
        assert_eq!(opening, Opening::Restored { items });
        engine
    }

    /// Hands an engine over as to another process, which finds all that was there. Another was to go on before, and has died.
    ///
    /// # Panics
    /// If it does not.
    pub fn handed_over(&self, engine: L::Engine, items: u64) -> L::Engine {
        assert!(engine.preview().is_some(), "it lasts");
        let handed = engine.hand_over(NOW, NOTES).expect("nothing uses it, and it lasts");
        let place = self.place().with(Arc::new(handed));
        let open = || {
            let opened = self.setup.open(self.size, &place, UNIX + LATER);
            opened.unwrap_or_else(|error| panic!("{error}"))
        };
        drop(open());
        let Opened { engine, opening, notes, .. } = open();
        assert_eq!((opening, notes.as_slice()), (Opening::Restored { items }, NOTES));
        engine
    }

    /// Hands an engine over as to another process that never comes, so that the file is closed after all. The next start finds all that
    /// was there.
    ///
    /// # Panics
    /// If it does not.
    pub fn taken_back(&self, engine: L::Engine, items: u64) -> L::Engine {
        let handed = engine.hand_over(NOW, NOTES).expect("nothing uses it, and it lasts");
        handed.close().expect("nobody has used it");
        drop(handed);
        let Opened { engine, opening, notes, .. } = self.open();
        assert_eq!((opening, notes.as_slice()), (Opening::Restored { items }, NOTES));
        engine
    }

    /// Leaves a Region with one item, which is `v` under `k`.
    pub(super) fn close_with_one_item(&self) {
        let engine = self.open().engine;
        put(&mut engine.session(), "k", b"v", Expiry::Never);
        close(engine);
    }

    /// Does the maintenance that is left, and checks the engine.
    ///
    /// # Panics
    /// If anything is wrong.
    pub fn check(&self, engine: &L::Engine) {
        settle(&mut engine.session(), NOW);
        self.setup.check(engine);
    }

    /// The same, if what the engine went on with may be wrong.
    ///
    /// # Panics
    /// If anything is wrong that may not be.
    pub fn check_any_state(&self, engine: &L::Engine) {
        settle(&mut engine.session(), NOW);
        self.setup.check_any_state(engine);
    }
}

/// Closes an engine in order.
///
/// # Panics
/// If it is still in use.
pub fn close(engine: impl Engine) {
    engine.close(NOW, NOTES).expect("nothing uses it");
}

/// Why a Region was emptied.
///
/// # Panics
/// If it was not.
pub fn reason<E>(opened: &Opened<E>) -> &Emptied {
    match &opened.opening {
        Opening::Emptied(why) => why,
        other => panic!("{other}"),
    }
}

/// Stores a value. Returns whether it is stored: a store may have no memory for it.
pub(super) fn put<S: Session>(session: &mut S, key: &str, value: &[u8], expiry: Expiry) -> bool {
    put_at(session, key.as_bytes(), value, (7, expiry), NOW)
}

/// The same with other flags, at another time.
pub(super) fn put_at<S: Session>(
    session: &mut S,
    key: &[u8],
    value: &[u8],
    (flags, expiry): (u32, Expiry),
    now: Seconds,
) -> bool {
    match store(session, key, value, flags, expiry, now) {
        Ok(()) => true,
        Err(StoreError::NoMemory) if session.lossiness() == Lossiness::Store => false,
        Err(error) => panic!("{}: {error}", String::from_utf8_lossy(key)),
    }
}

/// Whether the items of an engine may be lost.
pub(super) fn is_store<E: Engine>(engine: &E) -> bool {
    engine.session().lossiness() == Lossiness::Store
}

/// Resizes an engine. Returns whether it has done so: an index or a store may need more memory.
pub(super) fn resize<C: Control>(engine: &C, memory: usize) -> bool {
    match engine.resize(memory) {
        Ok(()) => true,
        Err(crate::ResizeError::TooSmall { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}
