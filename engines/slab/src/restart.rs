//! Going on where another engine has left off, in a Region that lasts in a file.
//!
//! Items, tables, descriptors, occupied and recency bits lie in the Region and last by themselves. The rest is put into the head of
//! the file when the engine is closed (`Saved`): how it was set up, time, flushes, counters, hands, and where the table is. Lists of pages,
//! free chunks and ages follow from the descriptors. Nothing that is read from the head is believed before it was checked against the
//! bounds of what there is; what does not fit together empties the Region.
//!
//! Locks, pins, version counters and quiescence begin anew: they are about threads, and none is left.

use crate::core::Core;
use crate::index::{SavedIndex, Scheme};
use crate::options::SlabOptions;
use crate::plan::Plan;
use crate::policy::table::Policy;
use crate::salvage;
use crate::sizing::Sizing;
use guira_contract::{ClassCounter, Dropped, Emptied, Opened, Preview};
use guira_items::{
    EmptyRegion, EngineOptions, Failure, HASHED, Leaves, Numbers, OpenError, Restored, SavedCounts,
    SavedFlushes, SavedPrefixes, SavedSetup, Shell, ShellState, bytes_of, open_lasting, reopen,
};
use guira_memory::RegionPlace;
use guira_memory::lasting::{Damage, HandedBy, Loss, RegionFile, STATE_MAX, SavedRegion};
use guira_memory::slab::{MAX_CLASSES, PAGE_BYTES};
use guira_sync::clock::{Seconds, TimeBase};
use guira_sync::words::WORD;

/// What has to be known beside the Region's contents.
#[derive(Clone, Debug, PartialEq)]
struct Saved {
    setup: SavedSetup,
    shell: ShellState,
    flushes: SavedFlushes,
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

// Counters, usage and hand of as many classes as there can be leave room for the rest.
const _: () =
    assert!(MAX_CLASSES * (ClassCounter::COUNT + 6) * WORD + SavedPrefixes::BYTES_MAX + 4096 <= STATE_MAX);

impl Saved {
    fn of<X: Scheme>(core: &Core<X>, now: Seconds) -> Self {
        let shell = core.items.shell();
        let hand_of = |class| {
            let evicted = shell.registry().class_counts(class).evicted;
            let order = core.evictor().lock(class);
            let (word, bit) = order.hand().place();
            let word = word as u32 % core.pool.memory().lock(class).geometry().bitmap_words;
            SavedHand { word, bit, entered: order.entered(), evicted }
        };
        let options = EngineOptions { reserve: core.sizing.plan().reserve, ..core.options.engine };
        Saved {
            setup: SavedSetup::of(&options, &core.options.classes, X::LINK_BYTES, shell.hash(HASHED)),
            shell: shell.state(now),
            flushes: core.items.flushes().saved(),
            index: core.index.saved(),
            touched: core.pool.memory().pages_touched(),
            stored_bytes: core.pool.balance().stored_bytes(),
            counts: shell.registry().saved(),
            hands: core.pool.memory().classes().ids().map(hand_of).collect(),
        }
    }

    fn encode<X: Scheme>(&self) -> Vec<u8> {
        let mut numbers = vec![u64::from_le_bytes(X::FORMAT)];
        numbers.extend(self.setup.numbers());
        numbers.extend(self.shell.numbers());
        numbers.extend([
            self.flushes.word,
            u64::from(self.flushes.dirty),
            self.index.layout,
            u64::from(self.index.next_buckets),
            u64::from(self.index.moving),
            self.index.grown,
            u64::from(self.touched),
            self.stored_bytes,
        ]);
        numbers.extend(self.counts.numbers());
        numbers.push(self.hands.len() as u64);
        for hand in &self.hands {
            numbers.extend([hand.word, hand.bit, hand.entered].map(u64::from));
            numbers.push(hand.evicted);
        }
        numbers.extend(self.counts.held.iter().flat_map(|held| [held.items, held.bytes]));
        numbers.extend(self.counts.class_numbers());
        numbers.extend(self.flushes.prefix_numbers());
        bytes_of(&numbers)
    }

    fn items(&self) -> u64 {
        self.counts.held.iter().fold(0, |sum, held| sum.wrapping_add(held.items))
    }

    /// What [`Saved::encode`] has made.
    fn decode<X: Scheme>(state: &[u8]) -> Result<Self, Emptied> {
        let mut numbers = Numbers::of(state, X::FORMAT)?;
        let mut saved = Saved {
            setup: numbers.setup()?,
            shell: numbers.shell()?,
            flushes: SavedFlushes::of(numbers.number()?, numbers.small()?),
            index: SavedIndex {
                layout: numbers.number()?,
                next_buckets: numbers.small()?,
                moving: numbers.small()?,
                grown: numbers.number()?,
            },
            touched: numbers.small()?,
            stored_bytes: numbers.number()?,
            counts: numbers.counts()?,
            hands: hands_of(&mut numbers)?,
        };
        saved.counts.held = numbers.held(saved.hands.len())?;
        saved.counts.classes = numbers.class_counts()?;
        saved.flushes.prefixes = numbers.prefixes()?;
        numbers.end()?;
        Ok(saved)
    }
}

fn hands_of(numbers: &mut Numbers<'_>) -> Result<Vec<SavedHand>, Emptied> {
    let count: usize = numbers.small()?;
    let hand = |_| {
        let (word, bit, entered) = (numbers.small()?, numbers.small()?, numbers.small()?);
        Ok(SavedHand { word, bit, entered, evicted: numbers.number()? })
    };
    (0..count.min(MAX_CLASSES + 1)).map(hand).collect()
}

/// Opens an engine whose Region lasts at `place`.
pub(crate) fn open<X: Scheme>(
    options: SlabOptions,
    place: &RegionPlace,
    now_unix: u64,
) -> Result<Opened<Core<X>>, OpenError> {
    options.check(X::LINK_BYTES)?;
    let plan = Plan::new::<X>(options.engine.reserve.max(options.engine.memory));
    let huge = options.engine.huge_pages();
    let empty = EmptyRegion { memory: options.engine.memory, bytes: plan.total, huge };
    let go_on = |file: &RegionFile, kept: &SavedRegion| {
        let (core, dropped) = restore::<X>(options, file, kept, now_unix)?;
        let items = core.items.count();
        Ok(Restored { core, items, dropped })
    };
    let begin = |region| {
        let classes = options.classes.table(X::LINK_BYTES).len();
        let shell = Shell::since(TimeBase::new(now_unix), region, &options.engine, classes)?;
        Core::<X>::on(shell, plan, options, options.policy)
    };
    let mut begun = open_lasting(place, empty, go_on, begin)?;
    begun.core.items.shell_mut().last_in(begun.file);
    let base = begun.core.items.shell().base();
    Ok(Opened {
        engine: begun.core,
        opening: begun.opening,
        notes: begun.notes,
        base,
        shortage: begun.shortage,
    })
}

/// What the head says of a Region.
struct Found {
    saved: Saved,
    base: TimeBase,
    plan: Plan,
    /// Those that the Region was made with, where they decide where things lie.
    options: SlabOptions,
}

/// Reads a state, and finds out whether an engine with these options can go on with it in a Region of `bytes`.
fn examine<X: Scheme>(
    options: SlabOptions,
    state: &[u8],
    bytes: usize,
    now_unix: u64,
) -> Result<Found, Emptied> {
    let saved = Saved::decode::<X>(state)?;
    let (engine, base) =
        saved.setup.resume(&options.engine, &options.classes, X::LINK_BYTES, &saved.shell, now_unix)?;
    let plan = Plan::new::<X>(engine.reserve);
    if !plan.fills(bytes) {
        return Err(Loss::Damaged.into());
    }
    Ok(Found { saved, base, plan, options: SlabOptions { engine, ..options } })
}

/// Whether an engine with these options could go on with such a Region.
pub(crate) fn accepts<X: Scheme>(
    options: SlabOptions,
    preview: &Preview,
    now_unix: u64,
) -> Result<(), Emptied> {
    examine::<X>(options, &preview.state, preview.bytes, now_unix).map(|_| ())
}

/// An engine that goes on with what the file holds.
fn restore<X: Scheme>(
    options: SlabOptions,
    file: &RegionFile,
    kept: &SavedRegion,
    now_unix: u64,
) -> Result<(Core<X>, Dropped), Failure> {
    let Found { saved, base, plan, options } = examine::<X>(options, &kept.state, kept.bytes, now_unix)?;
    let classes = options.classes.table(X::LINK_BYTES).len();
    let (shell, damage) = reopen(file, kept, &options.engine, classes, base)?;
    // Metadata of policies does not outlive a process. What is in the pages begins in the order of CLOCK, which needs none,
    // and the policy takes over from that while the cache is used.
    let mut core = Core::<X>::on(shell, plan, options, Policy::default()).map_err(Failure::Open)?;
    take_up(&mut core, &saved, &damage, kept.handed_by())?;
    let items = saved.items().saturating_sub(core.items.count());
    Ok((core, Dropped { blocks: damage.count(), items }))
}

/// Goes on with what lies in the Region. The engine is new and not in use yet.
fn take_up<X: Scheme>(
    core: &mut Core<X>,
    saved: &Saved,
    damage: &Damage,
    by: HandedBy,
) -> Result<(), Failure> {
    let damaged = || Failure::from(Loss::Damaged);
    let first_table = core.index.committed(core.index.buckets().0);
    let classes = core.pool.memory().classes().len();
    let is_sound = saved.hands.len() == classes
        && core.items.flushes().restore(&saved.flushes, core.pool.quiescence().ticket())
        && core.index.restore(saved.index);
    if !is_sound {
        return Err(damaged());
    }
    let memory = core.pool.budget().limit();
    let metadata = core
        .sizing
        .plan()
        .metadata(memory.max(saved.touched as usize * PAGE_BYTES), core.items.shell().commit_step());
    let least = 8 * metadata;
    if least > memory {
        return Err(Emptied::TooSmall { memory, least }.into());
    }
    core.pool.balance().stored(saved.stored_bytes as usize);
    if salvage::is_lost(core, saved.touched, damage) {
        let lost = Dropped { blocks: damage.count(), items: saved.items() };
        return Err(Emptied::Contents(lost).into());
    }
    let has_room = || core.index.back_tables() && core.pool.memory().back_serving(saved.touched);
    // A damaged block may have lost its space. Found before anything is written: without room the Region is left as it is.
    if !damage.is_none() && !has_room() {
        return Err(Failure::Open(OpenError::Full));
    }
    core.pool.memory().drop_damaged(saved.touched, damage);
    let serving =
        core.pool.memory().restore(saved.touched, core.pool.balance().tick()).map_err(|_| damaged())?;
    let takes = serving * PAGE_BYTES + core.index.committed_now();
    if damage.is_none() && !core.items.region().takes(takes) && !has_room() {
        return Err(Failure::Open(OpenError::Full));
    }
    let held =
        if damage.is_none() { saved.counts.held.clone() } else { salvage::salvage(core, saved.touched) };
    core.items.shell().registry().restore(&SavedCounts { held, ..saved.counts.clone() });
    // Memory that has come from a live process is as that has left it, and clients wait.
    if by == HandedBy::File {
        if X::LINK_BYTES > 0 {
            // The index lies in the pages as well.
            core.items.region().map_now(core.sizing.plan().pages_at, saved.touched as usize * PAGE_BYTES);
        }
        if !fits_together(core, saved.touched) {
            return Err(damaged());
        }
    }
    core.index.clear_unused();
    let was = core.sizing.lock().metadata;
    core.pool.budget().give(first_table + was);
    core.pool.budget().charge(metadata + core.index.committed_now() + serving * PAGE_BYTES);
    core.sizing = Sizing::new(*core.sizing.plan(), metadata, core.pool.budget().used().max(memory));
    core.items.shell().restore_cas(saved.shell.cas);
    for (class, saved) in core.pool.memory().classes().ids().zip(&saved.hands) {
        core.evictor().restore(class, (saved.word, saved.bit), saved.entered);
    }
    // No other change of the policy can be under way.
    let _ = core.evictor().change_policy(core.options.policy);
    Ok(())
}

/// Whether index and pages fit together: every entry leads to a chunk that was handed out, no two to the same, and there are as many
/// as there are items. Does not look at the items, which takes ten times as long.
fn fits_together<X: Scheme>(core: &Core<X>, touched: u32) -> bool {
    let mut chunks = core.pool.memory().handed_out(touched);
    let mut entries = 0;
    let all_lead_somewhere = core.index.all_items(|at| {
        entries += 1;
        chunks.claim(at).is_some()
    });
    all_lead_somewhere && entries == core.items.count()
}

impl<X: Scheme> Leaves for Core<X> {
    fn shell(&self) -> &Shell {
        self.items.shell()
    }

    fn into_shell(self) -> Shell {
        self.items.into_shell()
    }

    fn settle(&self, _by: HandedBy) {
        self.pool.memory().settle();
        self.index.settle();
    }

    fn state(&self, now: Seconds, _by: HandedBy) -> Vec<u8> {
        Saved::of(self, now).encode::<X>()
    }
}
