//! Flushes. Every item carries the flush generation in which it was stored, 3 bits. A flush begins a new generation, and every item of an earlier one whose key
//! begins with the prefix that was flushed is dead from that moment. The empty prefix, with which every key begins, is `flush_all`.
//!
//! The crawler removes what is dead and stamps what is alive with the generation of new items; so does whoever copies an item. When it has been everywhere, no
//! item of an earlier generation is left: the generation may be used again, and the prefix is forgotten. If seven flushes come before that, an eighth of a
//! prefix is refused, and one of everything sweeps away what is left itself.
//!
//! Most items are of the generation of new ones, and are known to be alive by that alone.

mod prefixes;

pub use prefixes::{Prefixes, SavedPrefixes};

use crate::item::{GENERATIONS, Item, Stamped};
use guira_contract::{FlushBusy, MissKind};
use guira_sync::atomic::{AtomicU64, Ordering, fence};
use guira_sync::clock::Seconds;
use guira_sync::lock::{Mutex, MutexGuard};

/// The flush word: the generation of new items, and the second at which the next flush is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FlushWord(u64);

impl FlushWord {
    /// Generation 0, and no flush due.
    const NEVER: FlushWord = FlushWord((u32::MAX as u64) << 32);

    #[inline(always)]
    fn due(self) -> Seconds {
        Seconds((self.0 >> 32) as u32)
    }

    #[inline(always)]
    fn generation(self) -> u32 {
        self.0 as u32
    }

    fn new(generation: u32, due: Seconds) -> Self {
        FlushWord(u64::from(due.0) << 32 | u64::from(generation))
    }
}

/// The flushes of an engine. `T` marks a moment: the crawler may start for a flush once all sessions know of it, and the engine can tell by the mark.
#[derive(Debug)]
pub struct Flushes<T> {
    word: AtomicU64,
    prefixes: Prefixes,
    /// LOCK: flush. Before all others. Taken by the thread that asks for a flush, and by the first to meet one that has fallen due.
    dirty: Mutex<Dirty<T>>,
}

/// Flush generations of which items may be left.
#[derive(Debug)]
struct Dirty<T> {
    generations: u8,
    /// When the last of them was flushed, until the crawler starts.
    since: Option<T>,
    /// Counts sweeps: a crawl across one has found out nothing, since generations are in use again.
    sweeps: u32,
}

/// The generations that a crawl makes clean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crawled {
    generations: u8,
    /// The generation of new items when it began.
    until: u32,
    sweeps: u32,
}

/// The state of flushes that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFlushes {
    pub word: u64,
    /// Generations of which items may be left, a bit each.
    pub dirty: u8,
    /// What was flushed of them; `None` if an earlier version has saved them, which flushed everything only.
    pub prefixes: Option<SavedPrefixes>,
}

impl SavedFlushes {
    /// Without prefixes, which are read later.
    pub fn of(word: u64, dirty: u8) -> Self {
        SavedFlushes { word, dirty, prefixes: None }
    }

    /// The prefixes, as they are written.
    pub fn prefix_numbers(&self) -> Vec<u64> {
        self.prefixes.as_ref().map_or_else(Vec::new, SavedPrefixes::numbers)
    }
}

/// What a flush asks of its engine.
pub trait Flushable {
    type Mark;

    fn mark(&self) -> Self::Mark;

    /// Removes every item that is not of generation `kept`, or stamps it with that if it is alive.
    fn sweep(&self, kept: u32, now: Seconds);
}

impl<T> Default for Flushes<T> {
    fn default() -> Self {
        let dirty = Dirty { generations: 0, since: None, sweeps: 0 };
        let word = AtomicU64::new(FlushWord::NEVER.0);
        Flushes { word, prefixes: Prefixes::default(), dirty: Mutex::new(dirty) }
    }
}

impl<T> Flushes<T> {
    #[inline(always)]
    fn word(&self) -> FlushWord {
        // Relaxed: a flush is ordered with what follows it by the reply to the client that asked for it.
        FlushWord(self.word.load(Ordering::Relaxed))
    }

    fn dirty(&self) -> MutexGuard<'_, Dirty<T>> {
        self.dirty.lock()
    }

    #[inline(always)]
    pub fn generation(&self) -> u32 {
        self.word().generation()
    }

    /// Whether `item` is dead at `now`, and why. `generation` is that of new items, loaded before: what is alive may be stamped with it.
    #[inline(always)]
    pub fn dead_as_of(&self, generation: u32, item: &Item<'_>, now: Seconds) -> Option<MissKind> {
        if item.header.generation() != generation && self.is_flushed(item.stamped()) {
            return Some(MissKind::Flushed);
        }
        item.expiry().passed(now).then_some(MissKind::Expired)
    }

    /// Whether an item of another generation was flushed.
    #[cold]
    #[inline(never)]
    fn is_flushed(&self, item: Stamped<'_>) -> bool {
        let (mut generation, key) = (item.generation(), item.key());
        loop {
            // Acquire fence: pairs with the Release of whoever stamped the item or put it into the table: the word is seen as new as the stamp.
            fence(Ordering::Acquire);
            // Acquire: pairs with the store in `begin_generation`: its prefixes are seen.
            let current = FlushWord(self.word.load(Ordering::Acquire)).generation();
            if generation == current || !self.prefixes.kill(generation, current, key) {
                return false;
            }
            // An item that was stamped anew meanwhile was found alive: its old stamp may say something else by now.
            let stamped = item.generation_now();
            if stamped == generation {
                return true;
            }
            generation = stamped;
        }
    }

    /// Whether new items are still of `generation`, asked after an item of it was put into the table. Of two, one learns of the other: the session that puts an item
    /// there and asks, or the one that begins a generation and starts the crawler, which then finds the item.
    #[inline(always)]
    pub fn is_still(&self, generation: u32) -> bool {
        // SeqCst: after the compare-and-swap that has put the item there; pairs with the fence in `begin_crawl`.
        FlushWord(self.word.load(Ordering::SeqCst)).generation() == generation
    }

    /// Lets a flush take effect that has fallen due. Every operation begins with this; the caller holds no lock.
    #[inline(always)]
    pub fn settle(&self, now: Seconds, engine: &impl Flushable<Mark = T>) {
        if now >= self.word().due() {
            self.fall_due(now, engine);
        }
    }

    #[cold]
    fn fall_due(&self, now: Seconds, engine: &impl Flushable<Mark = T>) {
        let mut dirty = self.dirty();
        if now >= self.word().due() {
            self.flush_all(&mut dirty, now, engine);
        }
    }

    /// Items that are stored now are dead from `at` on. One flush can be due at a time: the last one asked for.
    pub fn schedule(&self, now: Seconds, at: Seconds, engine: &impl Flushable<Mark = T>) {
        // One that has fallen due unnoticed goes first: it would be forgotten.
        self.settle(now, engine);
        let mut dirty = self.dirty();
        if at <= now {
            self.flush_all(&mut dirty, now, engine);
        } else {
            self.word.store(FlushWord::new(self.generation(), at).0, Ordering::Relaxed);
        }
    }

    /// Items that are stored now are dead if their keys begin with one of `prefixes`.
    ///
    /// # Errors
    /// If the crawler has not finished with earlier flushes. Then nothing has changed.
    ///
    /// # Panics
    /// If a prefix is longer than a key.
    pub fn flush_prefixes(
        &self,
        now: Seconds,
        prefixes: &[&[u8]],
        engine: &impl Flushable<Mark = T>,
    ) -> Result<(), FlushBusy> {
        self.settle(now, engine);
        let mut dirty = self.dirty();
        let old = self.generation();
        // A generation and a slot are left for a flush of everything.
        let has_room =
            self.is_fresh(&dirty, (old + 2) % GENERATIONS) && prefixes.len() < self.prefixes.room();
        if !has_room {
            return Err(FlushBusy);
        }
        // A flush of everything that is due stays so.
        self.begin_generation(&mut dirty, prefixes, self.word().due(), engine);
        Ok(())
    }

    fn flush_all(&self, dirty: &mut Dirty<T>, now: Seconds, engine: &impl Flushable<Mark = T>) {
        let old = self.generation();
        if !self.is_fresh(dirty, (old + 1) % GENERATIONS) || self.prefixes.room() == 0 {
            // SeqCst fence: as in `begin_crawl`.
            fence(Ordering::SeqCst);
            engine.sweep(old, now);
            dirty.generations = 0;
            dirty.sweeps = dirty.sweeps.wrapping_add(1);
            self.prefixes.forget_before(old, old);
        }
        self.begin_generation(dirty, &[b""], Seconds(u32::MAX), engine);
    }

    /// Whether no item can be left of `generation`.
    fn is_fresh(&self, dirty: &Dirty<T>, generation: u32) -> bool {
        dirty.generations & (1 << generation) == 0
    }

    /// Begins a generation before which `prefixes` were flushed. It is fresh, and there is room for them.
    fn begin_generation(
        &self,
        dirty: &mut Dirty<T>,
        prefixes: &[&[u8]],
        due: Seconds,
        engine: &impl Flushable<Mark = T>,
    ) {
        let old = self.generation();
        let next = (old + 1) % GENERATIONS;
        dirty.generations |= 1 << old;
        for prefix in prefixes {
            let has_room = self.prefixes.add(next, prefix);
            debug_assert!(has_room, "room was seen under the same lock");
        }
        // SeqCst: pairs with `is_still`, and with the Acquire in `is_flushed`.
        self.word.store(FlushWord::new(next, due).0, Ordering::SeqCst);
        dirty.since = Some(engine.mark());
    }

    /// Whether the crawler has to start for a flush that all sessions know of, as `passed` says of its mark.
    pub fn needs_crawl(&self, passed: impl FnOnce(&T) -> bool) -> bool {
        self.dirty().since.as_ref().is_some_and(passed)
    }

    /// The crawler starts. It makes the generations clean that all sessions know to be flushed, as `passed` says.
    pub fn begin_crawl(&self, passed: impl FnOnce(&T) -> bool) -> Crawled {
        let mut dirty = self.dirty();
        // SeqCst fence: pairs with `is_still`.
        fence(Ordering::SeqCst);
        let is_known = dirty.since.take_if(|since| passed(since)).is_some();
        let generations = if is_known { dirty.generations } else { 0 };
        Crawled { generations, until: self.generation(), sweeps: dirty.sweeps }
    }

    /// The crawler has been everywhere: it has removed what is dead, and stamped everything else with a generation that it loaded before.
    pub fn end_crawl(&self, crawled: Crawled) {
        let mut dirty = self.dirty();
        if dirty.sweeps == crawled.sweeps && crawled.generations != 0 {
            dirty.generations &= !crawled.generations;
            self.prefixes.forget_before(crawled.until, self.generation());
        }
    }

    pub fn saved(&self) -> SavedFlushes {
        let dirty = self.dirty();
        SavedFlushes { word: self.word().0, dirty: dirty.generations, prefixes: Some(self.prefixes.saved()) }
    }

    /// Goes on from there, at the moment `mark`. False if there can be no such state.
    pub fn restore(&self, saved: &SavedFlushes, mark: T) -> bool {
        let generation = FlushWord(saved.word).generation();
        let is_sound = generation < GENERATIONS;
        if is_sound {
            match &saved.prefixes {
                Some(prefixes) => prefixes.restore(&self.prefixes),
                None => SavedPrefixes::all_before(generation).restore(&self.prefixes),
            }
            self.word.store(saved.word, Ordering::Relaxed);
            let since = (saved.dirty != 0).then_some(mark);
            *self.dirty() = Dirty { generations: saved.dirty, since, sweeps: 0 };
        }
        is_sound
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_words::KeyWords;
    use guira_sync::words;
    use std::cell::RefCell;

    #[derive(Default)]
    struct Engine(RefCell<Vec<u32>>);

    impl Flushable for Engine {
        type Mark = u32;

        fn mark(&self) -> u32 {
            0
        }

        fn sweep(&self, kept: u32, _now: Seconds) {
            self.0.borrow_mut().push(kept);
        }
    }

    const NOW: Seconds = Seconds(100);

    /// Whether an item of `generation` with this key is dead.
    fn kills(flushes: &Flushes<u32>, generation: u32, key: &[u8]) -> bool {
        let words: Vec<_> = key.chunks(8).map(|_| AtomicU64::new(0)).collect();
        words::copy_in(&words, 0, key);
        flushes.prefixes.kill(generation, flushes.generation(), KeyWords::new(&words, 0, key.len()))
    }

    #[test]
    fn a_flush_with_a_delay_takes_effect_when_it_is_due() {
        let (flushes, engine) = (Flushes::default(), Engine::default());
        flushes.schedule(NOW, Seconds(110), &engine);
        flushes.settle(Seconds(109), &engine);
        assert_eq!(flushes.generation(), 0);
        flushes.settle(Seconds(110), &engine);
        assert_eq!(flushes.generation(), 1);
        // One that is due goes before another is asked for.
        flushes.schedule(Seconds(110), Seconds(120), &engine);
        flushes.schedule(Seconds(130), Seconds(140), &engine);
        assert_eq!(flushes.generation(), 2);
    }

    #[test]
    fn the_eighth_flush_sweeps_unless_the_crawler_was_there() {
        let (flushes, engine) = (Flushes::default(), Engine::default());
        for _ in 0..7 {
            flushes.schedule(NOW, NOW, &engine);
        }
        assert_eq!((flushes.generation(), engine.0.borrow().len()), (7, 0));
        let before = flushes.begin_crawl(|_| true);
        flushes.schedule(NOW, NOW, &engine);
        assert_eq!((flushes.generation(), engine.0.borrow().as_slice()), (0, [7].as_slice()));
        // What began before the sweep has found out nothing.
        flushes.end_crawl(before);
        assert_eq!(flushes.saved().dirty, 1 << 7);
        let crawled = flushes.begin_crawl(|_| true);
        flushes.end_crawl(crawled);
        assert_eq!(flushes.saved().dirty, 0);
    }

    #[test]
    fn a_crawl_cleans_only_what_all_sessions_know_to_be_flushed() {
        let (flushes, engine) = (Flushes::default(), Engine::default());
        flushes.schedule(NOW, NOW, &engine);
        assert!(!flushes.needs_crawl(|_| false) && flushes.needs_crawl(|_| true));
        flushes.end_crawl(flushes.begin_crawl(|_| false));
        assert_eq!(flushes.saved().dirty, 1);
        let crawled = flushes.begin_crawl(|_| true);
        flushes.schedule(NOW, NOW, &engine);
        flushes.end_crawl(crawled);
        assert_eq!(flushes.saved().dirty, 2, "what was flushed meanwhile is still dirty");
        assert!(flushes.needs_crawl(|_| true));
    }

    #[test]
    fn prefixes_are_forgotten_once_the_crawler_was_everywhere() {
        let (flushes, engine) = (Flushes::default(), Engine::default());
        let flush = |prefix: &str| flushes.flush_prefixes(NOW, &[prefix.as_bytes()], &engine);
        assert!((0..6).all(|_| flush("a").is_ok()) && flush("a").is_err());
        assert!(kills(&flushes, 0, b"a1"));
        // One generation is left for a flush of everything, which sweeps nothing away.
        flushes.schedule(NOW, NOW, &engine);
        assert_eq!((flushes.generation(), engine.0.borrow().len()), (7, 0));
        let crawled = flushes.begin_crawl(|_| true);
        flushes.end_crawl(crawled);
        assert!(!kills(&flushes, 0, b"a1"));
        flush("b").unwrap();
        let crawled = flushes.begin_crawl(|_| true);
        flush("c").unwrap();
        flushes.end_crawl(crawled);
        let killed = [b"b", b"c"].map(|key| kills(&flushes, 0, key));
        assert_eq!(killed, [false, true], "one came during the crawl");
    }

    #[test]
    fn flushes_of_an_earlier_version_were_of_everything() {
        let flushes = Flushes::default();
        assert!(flushes.restore(&SavedFlushes::of(FlushWord::new(3, Seconds(u32::MAX)).0, 1 << 2), 0u32));
        assert!(kills(&flushes, 2, b"any") && !kills(&flushes, 3, b"any"));
    }

    #[test]
    fn flushes_go_on_after_a_restart_and_nonsense_is_refused() {
        let (flushes, engine) = (Flushes::default(), Engine::default());
        flushes.schedule(NOW, NOW, &engine);
        flushes.schedule(NOW, Seconds(200), &engine);
        let saved = flushes.saved();
        let again = Flushes::default();
        assert!(again.restore(&saved, 0) && again.saved() == saved);
        again.settle(Seconds(200), &engine);
        assert_eq!(again.generation(), 2);
        assert!(!again.restore(&SavedFlushes::of(8, 0), 0));
    }
}
