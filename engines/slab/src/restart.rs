//! Going on where another engine has left off, in a Region that lasts in a file.
//!
//! Items, tables, descriptors, occupied and recency bits lie in the Region and last by themselves. The rest is put into the head of
//! the file when the engine is closed (`Saved`): how it was set up, time, flushes, counters, hands, and where the table is. Lists of pages,
//! free chunks and ages follow from the descriptors. Nothing that is read from the head is believed before it was checked against the
//! bounds of what there is; what does not fit together empties the Region.
//!
//! Locks, pins, version counters and quiescence begin anew: they are about threads, and none is left.

use crate::core::{Core, SlabEngine};
use crate::index::{SavedIndex, Scheme};
use crate::maintain::Flush;
use crate::options::SlabOptions;
use crate::order::Policy;
use crate::plan::Plan;
use crate::policy::clock::Hand;
use crate::resize::Sizing;
use crate::turn::Turn;
use guira_contract::{CloseError, Emptied, Opened, Opening};
use guira_items::{COUNTS, Hashing, Held, MAX_MEMORY, MINIMUM, OpenError, SavedCounts};
use guira_memory::RegionPlace;
use guira_memory::lasting::{Found, HEAD_BYTES, Kept, Loss, NOTES_MAX, RegionFile};
use guira_memory::slab::{ClassTable, MAX_CLASSES, PAGE_BYTES, PageId, PageState};
use guira_sync::atomic::Ordering;
use guira_sync::clock::{Seconds, TimeBase};
use guira_sync::words;
use std::sync::{Arc, Mutex, PoisonError};

/// What is hashed to see whether the function is the same.
const HASHED: &[u8] = b"guira";

/// What has to be known beside the Region's contents.
#[derive(Clone, Debug, PartialEq)]
struct Saved {
    reserve: usize,
    max_item_size: u64,
    factor: f64,
    smallest_item: u64,
    page_bytes: u64,
    /// What the sizes of all classes come to.
    classes: u64,
    seed: u64,
    /// The hash of [`HASHED`].
    hash: u64,
    base: TimeBase,
    cas: u64,
    flush: u64,
    dirty_generations: u8,
    index: SavedIndex,
    /// Pages that were ever put to use.
    touched: u32,
    stored_bytes: u64,
    counts: SavedCounts,
    hands: Vec<SavedHand>,
}

/// The hand of a class. It points at the first of the class's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SavedHand {
    /// Word of the page, and bit.
    word: u32,
    bit: u32,
    entered: u32,
    evicted: u64,
}

impl Saved {
    fn of<X: Scheme>(core: &Core<X>, now: Seconds) -> Self {
        let hand_of = |class| {
            let hand = core.lock_order(class);
            let (word, bit) = hand.hand.place();
            let word = word as u32 % core.memory.lock(class).geometry().bitmap_words;
            SavedHand { word, bit, entered: hand.entered, evicted: hand.counts.evicted }
        };
        let options = &core.options;
        Saved {
            reserve: core.plan.reserve,
            max_item_size: options.max_item_size as u64,
            factor: options.factor,
            smallest_item: options.smallest_item as u64,
            page_bytes: PAGE_BYTES as u64,
            classes: sum_of(core.memory.classes()),
            seed: if let Hashing::Seeded(seed) = options.hashing { seed } else { 0 },
            hash: core.hash(HASHED).0,
            base: TimeBase { reached: now.max(core.base.reached), ..core.base },
            cas: core.cas.load(Ordering::Relaxed),
            flush: core.flush.load(Ordering::Relaxed),
            dirty_generations: core.upkeep.dirty_generations(),
            index: core.index.saved(),
            touched: core.memory.pages_touched(),
            stored_bytes: core.balance.stored_bytes(),
            counts: core.registry.saved(),
            hands: core.memory.classes().ids().map(hand_of).collect(),
        }
    }

    fn encode<X: Scheme>(&self) -> Vec<u8> {
        let mut numbers = vec![
            u64::from_le_bytes(X::FORMAT),
            self.reserve as u64,
            self.max_item_size,
            self.factor.to_bits(),
            self.smallest_item,
            self.page_bytes,
            self.classes,
            self.seed,
            self.hash,
            self.base.unix,
            u64::from(self.base.reached.0),
            self.cas,
            self.flush,
            u64::from(self.dirty_generations),
            self.index.layout,
            u64::from(self.index.next_buckets),
            u64::from(self.index.moving),
            self.index.grown,
            u64::from(self.touched),
            self.stored_bytes,
            COUNTS as u64,
        ];
        numbers.extend(self.counts.sums.iter().chain(&self.counts.base));
        numbers.push(self.hands.len() as u64);
        for hand in &self.hands {
            numbers.extend([hand.word, hand.bit, hand.entered].map(u64::from));
            numbers.push(hand.evicted);
        }
        numbers.extend(self.counts.held.iter().flat_map(|held| [held.items, held.bytes]));
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// What [`Saved::encode`] has made.
    fn decode<X: Scheme>(state: &[u8]) -> Result<Self, Emptied> {
        let (words, rest) = state.as_chunks::<8>();
        let mut numbers = Numbers(words.iter());
        if numbers.next()?.to_le_bytes() != X::FORMAT {
            return Err(Emptied::Engine);
        }
        let mut saved = Saved {
            reserve: numbers.small()?,
            max_item_size: numbers.next()?,
            factor: f64::from_bits(numbers.next()?),
            smallest_item: numbers.next()?,
            page_bytes: numbers.next()?,
            classes: numbers.next()?,
            seed: numbers.next()?,
            hash: numbers.next()?,
            base: TimeBase { unix: numbers.next()?, reached: Seconds(numbers.small()?) },
            cas: numbers.next()?,
            flush: numbers.next()?,
            dirty_generations: numbers.small()?,
            index: SavedIndex {
                layout: numbers.next()?,
                next_buckets: numbers.small()?,
                moving: numbers.small()?,
                grown: numbers.next()?,
            },
            touched: numbers.small()?,
            stored_bytes: numbers.next()?,
            counts: numbers.counts()?,
            hands: numbers.hands()?,
        };
        saved.counts.held = numbers.held(saved.hands.len())?;
        if !rest.is_empty() || numbers.0.next().is_some() {
            return Err(Loss::Damaged.into());
        }
        Ok(saved)
    }

    /// Whether it was set up as it is to be now.
    fn check<X: Scheme>(&self, options: &SlabOptions) -> Result<(), Emptied> {
        let pairs = [
            ("page size", self.page_bytes, PAGE_BYTES as u64),
            ("largest item (-I)", self.max_item_size, options.max_item_size as u64),
            ("smallest item (-n)", self.smallest_item, options.smallest_item as u64),
        ];
        let differs = |name, was: String, is: String| Err(Emptied::Setting { name, was, is });
        if let Some((name, was, is)) = pairs.into_iter().find(|(_, was, is)| was != is) {
            return differs(name, was.to_string(), is.to_string());
        }
        if self.factor.to_bits() != options.factor.to_bits() {
            return differs("growth factor (-f)", self.factor.to_string(), options.factor.to_string());
        }
        if self.classes != sum_of(&options.classes(X::LINK_BYTES)) {
            // The same options lead to other classes: the code has changed.
            return Err(Loss::Version.into());
        }
        Ok(())
    }
}

/// A number that differs if the chunks of any class do.
fn sum_of(classes: &ClassTable) -> u64 {
    let chunks = classes.ids().map(|class| u64::from(classes.geometry(class).chunk));
    chunks.fold(0xcbf2_9ce4_8422_2325, |sum, chunk| (sum ^ chunk).wrapping_mul(0x0100_0000_01b3))
}

/// The numbers of a state, one after the other.
struct Numbers<'a>(std::slice::Iter<'a, [u8; 8]>);

impl Numbers<'_> {
    fn next(&mut self) -> Result<u64, Emptied> {
        self.0.next().map(|bytes| u64::from_le_bytes(*bytes)).ok_or(Loss::Damaged.into())
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Emptied> {
        T::try_from(self.next()?).map_err(|_| Loss::Damaged.into())
    }

    /// The counters, but for what is held, which comes later.
    fn counts(&mut self) -> Result<SavedCounts, Emptied> {
        if self.next()? != COUNTS as u64 {
            return Err(Loss::Damaged.into());
        }
        let [mut sums, mut base] = [[0; COUNTS]; 2];
        for count in sums.iter_mut().chain(&mut base) {
            *count = self.next()?;
        }
        Ok(SavedCounts { sums, base, held: Vec::new() })
    }

    fn held(&mut self, classes: usize) -> Result<Vec<Held>, Emptied> {
        (0..classes).map(|_| Ok(Held { items: self.next()?, bytes: self.next()? })).collect()
    }

    fn hands(&mut self) -> Result<Vec<SavedHand>, Emptied> {
        let count: usize = self.small()?;
        let hand = |_| {
            let (word, bit, entered) = (self.small()?, self.small()?, self.small()?);
            Ok(SavedHand { word, bit, entered, evicted: self.next()? })
        };
        (0..count.min(MAX_CLASSES + 1)).map(hand).collect()
    }
}

/// Why there is no engine yet.
enum Failure {
    /// The Region has to be emptied.
    Emptied(Emptied),
    /// There can be none.
    Open(OpenError),
}

impl<E: Into<Emptied>> From<E> for Failure {
    fn from(why: E) -> Self {
        Failure::Emptied(why.into())
    }
}

/// Opens an engine whose Region lasts at `place`.
pub(crate) fn open<X: Scheme>(
    options: SlabOptions,
    place: &RegionPlace,
    now_unix: u64,
) -> Result<Opened<SlabEngine<X>>, OpenError> {
    options.check(X::LINK_BYTES)?;
    let refused = |source| OpenError::Region { place: place.clone(), source };
    let (file, found) = RegionFile::open(place).map_err(refused)?;
    let room = file.room().map_err(|error| refused(error.into()))?;
    let memory = options.memory + HEAD_BYTES;
    let no_room = || OpenError::NoRoom { place: place.clone(), room, memory };
    if room < memory as u64 {
        return Err(leave(file, &found, no_room()));
    }
    let opening = match found {
        Found::Nothing => Opening::New,
        Found::Lost(loss) => Opening::Emptied(loss.into()),
        Found::Kept(ref kept) => match restore(options, &file, kept, now_unix) {
            Ok(core) => {
                let opening = Opening::Restored { items: core.items_now() };
                return Ok(opened(core, file, opening, kept.notes.clone()));
            }
            Err(Failure::Emptied(why)) => Opening::Emptied(why),
            Err(Failure::Open(error)) => return Err(leave(file, &found, error)),
        },
    };
    let plan = Plan::new::<X>(options.reserve.max(options.memory));
    let region =
        file.empty(plan.total, options.pages_of_the_system()).map_err(|error| refused(error.into()))?;
    let mut core = Core::<X>::on(region, plan, options)?;
    core.base = TimeBase::new(now_unix);
    Ok(opened(core, file, opening, Vec::new()))
}

/// There is no engine, for a reason that is not the Region's: what it holds is not lost. Nothing was stored into it yet.
fn leave(file: RegionFile, found: &Found, error: OpenError) -> OpenError {
    if let Found::Kept(kept) = found {
        // If that fails, the next to open it finds no mark.
        let _ = file.leave(kept);
    }
    error
}

fn opened<X: Scheme>(
    mut core: Core<X>,
    file: RegionFile,
    opening: Opening,
    notes: Vec<u8>,
) -> Opened<SlabEngine<X>> {
    core.file = Some(file);
    let base = core.base;
    Opened { engine: SlabEngine { core: Arc::new(core) }, opening, notes, base }
}

/// An engine that goes on with what the file holds.
fn restore<X: Scheme>(
    options: SlabOptions,
    file: &RegionFile,
    kept: &Kept,
    now_unix: u64,
) -> Result<Core<X>, Failure> {
    let saved = Saved::decode::<X>(&kept.state)?;
    saved.check::<X>(&options)?;
    let base = saved.base.resume(now_unix).ok_or(Emptied::TooOld)?;
    if !(MINIMUM..=MAX_MEMORY).contains(&saved.reserve) {
        return Err(Loss::Damaged.into());
    }
    let plan = Plan::new::<X>(saved.reserve);
    if !plan.fills(kept.bytes) {
        return Err(Loss::Damaged.into());
    }
    if options.memory > plan.reserve {
        return Err(Emptied::Reserve { memory: options.memory, reserve: plan.reserve }.into());
    }
    let hashing = match options.hashing {
        Hashing::Seeded(_) => Hashing::Seeded(saved.seed),
        Hashing::Fixed(function) => Hashing::Fixed(function),
    };
    let options = SlabOptions { reserve: plan.reserve, hashing, ..options };
    let region = file
        .map(kept.bytes, options.pages_of_the_system())
        .map_err(|source| Failure::Open(OpenError::Reserve { bytes: kept.bytes, source }))?;
    let mut core = Core::<X>::on(region, plan, options).map_err(Failure::Open)?;
    let hash = core.hash(HASHED).0;
    if hash != saved.hash {
        let (was, is) = (format!("{:x}", saved.hash), format!("{hash:x}"));
        return Err(Emptied::Setting { name: "hash function", was, is }.into());
    }
    core.base = base;
    core.restore(&saved)?;
    Ok(core)
}

impl<X: Scheme> Core<X> {
    /// Goes on with what lies in the Region. The engine is new, and nobody uses it yet.
    fn restore(&mut self, saved: &Saved) -> Result<(), Emptied> {
        let damaged = || Emptied::from(Loss::Damaged);
        let first_table = self.index.committed(self.index.buckets().0);
        let classes = self.memory.classes().len();
        if saved.hands.len() != classes || !Flush(saved.flush).is_sound() || !self.index.restore(saved.index)
        {
            return Err(damaged());
        }
        let memory = self.budget.limit();
        let metadata = self.plan.metadata(memory.max(saved.touched as usize * PAGE_BYTES), self.commit_step);
        let least = 8 * metadata;
        if least > memory {
            return Err(Emptied::TooSmall { memory, least });
        }
        self.balance.stored(saved.stored_bytes as usize);
        let serving = self.memory.restore(saved.touched, self.balance.tick()).map_err(|_| damaged())?;
        self.registry.restore(&saved.counts);
        if X::LINK_BYTES > 0 {
            // The index lies in the pages as well.
            self.region.map_now(self.plan.pages_at, saved.touched as usize * PAGE_BYTES);
        }
        if !self.is_sound(saved.touched) {
            return Err(damaged());
        }
        self.index.clear_unused();
        let was = self.sizing.get_mut().map_or(0, |sizing| sizing.metadata);
        self.budget.give(first_table + was);
        self.budget.charge(metadata + self.index.committed_now() + serving * PAGE_BYTES);
        self.sizing = Mutex::new(Sizing::new(metadata, self.budget.used().max(memory)));
        self.cas.store(saved.cas, Ordering::Relaxed);
        self.flush.store(saved.flush, Ordering::Relaxed);
        self.upkeep.restore_dirty(saved.dirty_generations, self.quiescence.ticket());
        self.begin_orders();
        for (class, saved) in self.memory.classes().ids().zip(&saved.hands) {
            let mut hand = self.lock_order(class);
            let guard = self.memory.lock(class);
            // The page that it points at is the first: the one that it came to the longest ago.
            let word = saved.word.min(guard.geometry().bitmap_words - 1);
            hand.hand = Hand::at(word as usize, saved.bit);
            (hand.entered, hand.counts.evicted) = (saved.entered, saved.evicted);
            self.note_age(class, &hand, &guard);
        }
        Ok(())
    }

    /// Notes do not outlive a process. What is in the pages begins in the order of CLOCK, which needs none, and the policy takes over from that
    /// while the cache is used.
    fn begin_orders(&mut self) {
        let policy = self.options.policy;
        self.turn = Turn::new(Policy::default());
        self.notes[0].set_words(0);
        for order in &mut self.orders {
            order.get_mut().unwrap_or_else(PoisonError::into_inner).placed.kept = Policy::default().kept(0);
        }
        // Nobody else has asked for one.
        let _ = self.turn_to(policy);
    }

    /// Whether index and pages fit together: every entry leads to a chunk that was handed out, no two to the same, and there are as many
    /// as there are items. Does not look at the items, which takes ten times as long.
    fn is_sound(&self, touched: u32) -> bool {
        // The occupied bits of all pages, one page after the other; those of chunks that an entry was found for are cleared.
        let mut bits: Vec<u64> = Vec::new();
        let mut begins = Vec::with_capacity(touched as usize);
        for page in (0..touched).map(PageId) {
            begins.push(bits.len());
            if let PageState::Serving(class) = self.memory.state_of(page) {
                let words = self.memory.classes().geometry(class).bitmap_words;
                bits.extend((0..words).map(|word| words::load(self.memory.occupied(page, word))));
            }
        }
        let mut entries = 0;
        let all_lead_somewhere = self.index.all_items(|at| {
            let Some((page, geometry, chunk)) = self.memory.locate(at) else {
                return false;
            };
            let start = self.memory.start_of(page).plus(geometry.start_of(chunk));
            let word = begins.get(page.0 as usize).map(|begin| begin + chunk as usize / 64);
            let Some(word) = word.and_then(|word| bits.get_mut(word)).filter(|_| start == at) else {
                return false;
            };
            let bit = 1 << (chunk % 64);
            let is_new = *word & bit != 0;
            *word &= !bit;
            entries += 1;
            is_new
        });
        all_lead_somewhere && entries == self.items_now()
    }

    /// Leaves everything so that another engine can go on with it, if the Region lasts. All sessions are gone.
    pub(crate) fn close(mut self, now: Seconds, notes: &[u8]) -> Result<(), CloseError> {
        if notes.len() > NOTES_MAX {
            return Err(CloseError::Notes(notes.len()));
        }
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        self.memory.settle();
        self.index.settle();
        let state = Saved::of(&self, now).encode::<X>();
        Ok(file.close(&self.region, &state, notes)?)
    }
}
