//! Restarts: an engine continues with the Region that another one left in a file.
//!
//! Items, links, CLOCK values, page descriptors and bitmaps lie in the Region. The rest is written into the head of the file when the engine is closed
//! ([`Saved`]): setup, time, flushes, counters, the size of the table and the number of pages. Stacks of pages follow from the descriptors, and the usage of classes
//! from the list ([`crate::recover`]). Everything that is read is checked against the bounds of what there is; what does not fit together empties the
//! Region.
//!
//! Announcements, pins and what sessions keep belong to threads, and none is left.

use crate::core::Core;
use crate::index::{Index, ListEditor, SavedIndex};
use crate::options::{FleecOptions, LINK_BYTES};
use crate::plan::Plan;
use crate::retired::Retired;
use guira_contract::{ClassCounter, Dropped, Emptied, Preview};
use guira_items::{
    Begun, EmptyRegion, EngineOptions, Failure, HASHED, Leaves, MINIMUM, Numbers, OpenError, Pieces,
    Restored, SavedCounts, SavedFlushes, SavedPrefixes, SavedSetup, Shell, ShellState, bytes_of,
    open_lasting, reopen,
};
use guira_memory::lasting::{HandedBy, Loss, RegionFile, STATE_MAX, SavedRegion};
use guira_memory::slab::lockfree::{LockFreeSlab, Touched};
use guira_memory::slab::{MAX_CLASSES, PAGE_BYTES};
use guira_memory::{Offset, RegionPlace};
use guira_sync::clock::{Seconds, TimeBase};
use guira_sync::words::WORD;

/// Which engine left a Region, and how it is divided.
const FORMAT: [u8; 8] = *b"fleec002";

/// The state that a restart needs beside the Region.
#[derive(Clone, Debug, PartialEq)]
struct Saved {
    setup: SavedSetup,
    shell: ShellState,
    flushes: SavedFlushes,
    table: SavedIndex,
    touched: Touched,
    items: u64,
    /// With the usage of classes only between two processes: from a file, it follows from the list.
    counts: SavedCounts,
}

// The counters of as many classes as there can be leave room for the rest.
const _: () =
    assert!(MAX_CLASSES * ClassCounter::COUNT * WORD + SavedPrefixes::BYTES_MAX + 4096 <= STATE_MAX);

impl Saved {
    fn of(core: &Core, now: Seconds) -> Self {
        let options = EngineOptions { reserve: core.plan.reserve, ..core.options.engine };
        Saved {
            setup: SavedSetup::of(&options, &core.options.classes, LINK_BYTES, core.shell.hash(HASHED)),
            shell: core.shell.state(now),
            flushes: core.flushes.saved(),
            table: core.table.saved(),
            touched: core.memory.slab().touched(),
            items: core.shell.registry().items(),
            counts: core.shell.registry().saved(),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut numbers = vec![u64::from_le_bytes(FORMAT)];
        numbers.extend(self.setup.numbers());
        numbers.extend(self.shell.numbers());
        numbers.extend([
            self.flushes.word,
            u64::from(self.flushes.dirty),
            self.table.buckets,
            self.table.hand,
            u64::from(self.touched.pages),
            u64::from(self.touched.paid),
            self.items,
        ]);
        numbers.extend(self.counts.numbers());
        numbers.extend(self.counts.class_numbers());
        numbers.extend(self.flushes.prefix_numbers());
        bytes_of(&numbers)
    }

    /// What a live process gives to the next one: with the usage of classes, so that this need not look at all items.
    fn encode_for_process(&self) -> Vec<u8> {
        let held = self.counts.held.iter().flat_map(|held| [held.items, held.bytes]);
        let numbers: Vec<u64> = std::iter::once(self.counts.held.len() as u64).chain(held).collect();
        [self.encode(), bytes_of(&numbers)].concat()
    }

    /// Reads the output of [`Saved::encode`], or of [`Saved::encode_for_process`].
    fn decode(state: &[u8], by: HandedBy) -> Result<Self, Emptied> {
        let mut numbers = Numbers::of(state, FORMAT)?;
        let mut saved = Saved {
            setup: numbers.setup()?,
            shell: numbers.shell()?,
            flushes: SavedFlushes::of(numbers.number()?, numbers.small()?),
            table: SavedIndex { buckets: numbers.number()?, hand: numbers.number()? },
            touched: Touched { pages: numbers.small()?, paid: numbers.small()? },
            items: numbers.number()?,
            counts: numbers.counts()?,
        };
        saved.counts.classes = numbers.class_counts()?;
        saved.flushes.prefixes = numbers.prefixes()?;
        if by == HandedBy::Process {
            let classes = numbers.small::<usize>()?.min(MAX_CLASSES + 1);
            saved.counts.held = numbers.held(classes)?;
        }
        numbers.end()?;
        Ok(saved)
    }
}

/// Opens an engine whose Region lasts at `place`.
pub(crate) fn open(
    options: FleecOptions,
    place: &RegionPlace,
    now_unix: u64,
) -> Result<Begun<Core>, OpenError> {
    options.check()?;
    let plan = Plan::new(options.engine.reserve.max(options.engine.memory));
    let huge = options.engine.huge_pages();
    let empty = EmptyRegion { memory: options.engine.memory, bytes: plan.total, huge };
    let go_on = |file: &RegionFile, kept: &SavedRegion| {
        let core = restore(options, file, kept, now_unix)?;
        let items = core.shell.registry().items();
        Ok(Restored { core, items, dropped: Dropped::default() })
    };
    let begin = |region| {
        let classes = options.classes.table(LINK_BYTES).len();
        let shell = Shell::since(TimeBase::new(now_unix), region, &options.engine, classes)?;
        let core = Core::on(shell, plan, options)?;
        core.table.begin();
        Ok(core)
    };
    open_lasting(place, empty, go_on, begin)
}

/// What the head says of a Region.
struct Found {
    saved: Saved,
    base: TimeBase,
    plan: Plan,
    /// Those that the Region was made with, where they decide where things lie.
    options: FleecOptions,
}

/// Reads a state, and finds out whether an engine with these options can continue with it in a Region of `bytes`.
fn examine(
    options: FleecOptions,
    state: &[u8],
    bytes: usize,
    now_unix: u64,
    by: HandedBy,
) -> Result<Found, Emptied> {
    let saved = Saved::decode(state, by)?;
    let (engine, base) =
        saved.setup.resume(&options.engine, &options.classes, LINK_BYTES, &saved.shell, now_unix)?;
    let plan = Plan::new(engine.reserve);
    if !plan.fills(bytes) {
        return Err(Loss::Damaged.into());
    }
    Ok(Found { saved, base, plan, options: FleecOptions { engine, ..options } })
}

/// Whether an engine with these options could continue with such a Region.
pub(crate) fn accepts(options: FleecOptions, preview: &Preview, now_unix: u64) -> Result<(), Emptied> {
    examine(options, &preview.state, preview.bytes, now_unix, HandedBy::Process).map(|_| ())
}

/// An engine that continues with the contents of the file.
fn restore(
    options: FleecOptions,
    file: &RegionFile,
    kept: &SavedRegion,
    now_unix: u64,
) -> Result<Core, Failure> {
    let Found { saved, base, plan, options } =
        examine(options, &kept.state, kept.bytes, now_unix, kept.handed_by())?;
    let classes = options.classes.table(LINK_BYTES).len();
    let (shell, damage) = reopen(file, kept, &options.engine, classes, base)?;
    if !damage.is_none() {
        // The list leads through all items: those behind a lost one cannot be found.
        return Err(Emptied::Contents(Dropped { blocks: damage.count(), items: saved.items }).into());
    }
    let core = Core::on(shell, plan, options).map_err(Failure::Open)?;
    core.restore(&saved, kept.handed_by())?;
    Ok(core)
}

impl Core {
    /// Continues with the contents of the Region. The engine is not in use yet.
    fn restore(&self, saved: &Saved, by: HandedBy) -> Result<(), Failure> {
        let damaged = || Failure::from(Loss::Damaged);
        let is_sound = self.flushes.restore(&saved.flushes, self.quiescence.ticket())
            && self.table.restore(saved.table, self.sizing.budget());
        if !is_sound {
            return Err(damaged());
        }
        self.charge_metadata(saved.touched)?;
        let slab = self.memory.slab();
        let serving = slab.restore(saved.touched, by).map_err(|_| damaged())?;
        let takes = serving * PAGE_BYTES + self.table.committed();
        let has_room = || self.table.back_paid() && slab.back_serving();
        if !self.shell.region().takes(takes) && !has_room() {
            return Err(Failure::Open(OpenError::Full));
        }
        let held = match by {
            HandedBy::File => self.recover().ok_or_else(damaged)?,
            // As a live process has left it, which has freed what nothing refers to; and clients wait.
            HandedBy::Process if saved.counts.held.len() == self.memory.classes().len() => {
                saved.counts.held.clone()
            }
            HandedBy::Process => return Err(damaged()),
        };
        if held.iter().map(|held| held.items).sum::<u64>() != saved.items {
            return Err(damaged());
        }
        self.table.count_items(saved.items as i64);
        self.shell.registry().restore(&SavedCounts { held, ..saved.counts.clone() });
        self.shell.restore_cas(saved.shell.cas);
        Ok(())
    }

    /// Charges the metadata of all pages there ever were, if that and the table, which are never given back, leave room for items.
    fn charge_metadata(&self, touched: Touched) -> Result<(), Emptied> {
        let memory = self.sizing.budget().limit();
        let pages = touched.pages as usize;
        let table: usize = Index::bytes(self.table.buckets()).into_iter().sum();
        let least = MINIMUM.max(2 * (table + LockFreeSlab::metadata_bytes(pages)));
        if least > memory {
            return Err(Emptied::TooSmall { memory, least });
        }
        self.sizing.describe(pages * PAGE_BYTES);
        Ok(())
    }

    /// Completes the insert of a bucket that a session left half done. No other thread uses the engine. Returns the items that have left
    /// the list.
    pub(crate) fn finish_growth(&self) -> Vec<Offset> {
        let (hazard, mut retired) = (self.announcements.claim(), Vec::new());
        let (index, shell) = (&self.table, &self.shell);
        ListEditor { index, shell, hazard: &hazard, retired: &mut retired }.finish_growth();
        retired
    }

    /// Frees what is not on the list any more, as a restart from a file would.
    fn free_orphans(&self) {
        let mut orphans = Retired::default();
        orphans.adopt(&self.announcements);
        orphans.items().extend(self.finish_growth());
        for at in orphans.items().drain(..) {
            let item = self.item(at, Seconds(0));
            let pieces = item.map(|item| Pieces::freed(self.shell.region(), &item));
            pieces.into_iter().flatten().for_each(|at| self.memory.give(at));
            self.memory.give(at);
        }
    }
}

impl Leaves for Core {
    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn into_shell(self) -> Shell {
        self.shell
    }

    fn settle(&self, by: HandedBy) {
        match by {
            // What that takes off the list is freed by the restart.
            HandedBy::File => drop(self.finish_growth()),
            HandedBy::Process => self.free_orphans(),
        }
        self.memory.slab().settle();
    }

    fn state(&self, now: Seconds, by: HandedBy) -> Vec<u8> {
        let saved = Saved::of(self, now);
        match by {
            HandedBy::File => saved.encode(),
            HandedBy::Process => saved.encode_for_process(),
        }
    }
}
