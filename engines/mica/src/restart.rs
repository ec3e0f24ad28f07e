//! Restarts: an engine continues with the Region that another one left in a file.
//!
//! Logs and indexes lie in the Region. The rest is written into the head of the file when the engine is closed ([`Saved`]). Everything that is read is checked:
//! every log is followed from its head to its tail, and every slot of the indexes has to lead to an item that was found there; what does not fit together
//! empties the Region. What a live process hands over is as that has left it: nobody looks at its items, for which clients would wait.

use crate::core::Core;
use crate::flush::SavedFlushes;
use crate::mend::mend;
use crate::options::{MAX_PARTITIONS, MicaOptions};
use crate::partition::{HandedPartition, Partition, SavedPartition};
use crate::plan::Plan;
use crate::recover::recover;
use crate::resize::room_missing;
use crate::store::ItemStore;
use guira_contract::{Dropped, Emptied, Preview};
use guira_items::{
    Begun, ClassOptions, ClassUsage, EmptyRegion, EngineOptions, Failure, HASHED, Leaves, Numbers, OpenError,
    Restored, SavedCounts, SavedPrefixes, SavedSetup, Shell, ShellState, bytes_of, open_lasting, reopen,
};
use guira_memory::RegionPlace;
use guira_memory::lasting::{Damage, HandedBy, Loss, RegionFile, STATE_MAX, SavedRegion};
use guira_sync::clock::{Seconds, TimeBase};
use guira_sync::threads::map_by_threads;
use guira_sync::words::WORD;

const OF_PARTITION: usize = 14;

// The numbers of all partitions leave room for the rest.
const _: () = assert!(MAX_PARTITIONS * OF_PARTITION * WORD + SavedPrefixes::BYTES_MAX + 4096 <= STATE_MAX);

/// The state that a restart needs beside the Region.
#[derive(Clone, Debug, PartialEq)]
struct Saved {
    setup: SavedSetup,
    offset_bits: u64,
    shell: ShellState,
    flushes: SavedFlushes,
    held: ClassUsage,
    counts: SavedCounts,
    partitions: Vec<SavedPartition>,
    /// What is told of each partition between two processes only: from a file, it follows from the items.
    handed: Vec<HandedPartition>,
}

impl Saved {
    fn of<S: ItemStore>(core: &Core<S>, now: Seconds) -> Self {
        let options = EngineOptions { reserve: core.plan.reserve, ..core.options.engine };
        let counts = core.shell.registry().saved();
        Saved {
            setup: SavedSetup::of(&options, &ClassOptions::default(), 0, core.shell.hash(HASHED)),
            offset_bits: u64::from(core.options.offset_bits),
            shell: core.shell.state(now),
            flushes: core.flushes.saved(),
            held: counts.held.first().copied().unwrap_or_default(),
            counts: SavedCounts { held: Vec::new(), ..counts },
            partitions: core.partitions.iter().map(Partition::saved).collect(),
            handed: Vec::new(),
        }
    }

    /// What a live process gives to the next one. No session is left, and the stores are settled.
    fn handed_of<S: ItemStore>(core: &Core<S>, now: Seconds) -> Self {
        Saved { handed: core.partitions.iter().map(Partition::handed).collect(), ..Saved::of(core, now) }
    }

    fn encode(&self, format: [u8; 8]) -> Vec<u8> {
        let mut numbers = vec![u64::from_le_bytes(format)];
        numbers.extend(self.setup.numbers());
        numbers.push(self.offset_bits);
        numbers.extend(self.shell.numbers());
        numbers.extend([self.flushes.word, self.flushes.of_prefixes]);
        numbers.extend(self.flushes.prefixes.numbers());
        numbers.extend([self.held.items, self.held.bytes]);
        numbers.extend(self.counts.numbers());
        numbers.push(self.partitions.len() as u64);
        for partition in &self.partitions {
            numbers.extend(partition.store);
            numbers.extend(partition.index);
            numbers.extend([partition.flushes, partition.clean_since]);
        }
        numbers.extend(self.counts.class_numbers());
        for HandedPartition { usage, store } in &self.handed {
            numbers.extend([usage.items, usage.bytes, store.len() as u64]);
            numbers.extend(store);
        }
        bytes_of(&numbers)
    }

    /// Reads the output of [`Saved::encode`].
    fn decode(state: &[u8], format: [u8; 8], by: HandedBy) -> Result<Self, Emptied> {
        let mut numbers = Numbers::of(state, format)?;
        let mut saved = Saved {
            setup: numbers.setup()?,
            offset_bits: numbers.number()?,
            shell: numbers.shell()?,
            flushes: SavedFlushes {
                word: numbers.number()?,
                of_prefixes: numbers.number()?,
                prefixes: numbers.prefixes()?.ok_or(Loss::Damaged)?,
            },
            held: ClassUsage { items: numbers.number()?, bytes: numbers.number()? },
            counts: numbers.counts()?,
            partitions: partitions_of(&mut numbers)?,
            handed: Vec::new(),
        };
        saved.counts.classes = numbers.class_counts()?;
        // An earlier build hands over what it would have closed: all items are looked at then.
        if by == HandedBy::Process && !numbers.is_over() {
            let count = saved.partitions.len();
            saved.handed = (0..count).map(|_| handed_of(&mut numbers)).collect::<Result<_, _>>()?;
        }
        numbers.end()?;
        Ok(saved)
    }
}

fn partitions_of(numbers: &mut Numbers<'_>) -> Result<Vec<SavedPartition>, Emptied> {
    let count: usize = numbers.small()?;
    let partition = |_| {
        let mut saved = SavedPartition::default();
        for number in saved.store.iter_mut().chain(&mut saved.index) {
            *number = numbers.number()?;
        }
        (saved.flushes, saved.clean_since) = (numbers.number()?, numbers.number()?);
        Ok(saved)
    };
    (0..count.min(MAX_PARTITIONS)).map(partition).collect()
}

fn handed_of(numbers: &mut Numbers<'_>) -> Result<HandedPartition, Emptied> {
    let usage = ClassUsage { items: numbers.number()?, bytes: numbers.number()? };
    let count: usize = numbers.small()?;
    let store = (0..count).map(|_| numbers.number()).collect::<Result<_, _>>()?;
    Ok(HandedPartition { usage, store })
}

/// Opens an engine whose Region lasts at `place`.
pub(crate) fn open<S: ItemStore>(
    options: MicaOptions,
    place: &RegionPlace,
    now_unix: u64,
) -> Result<Begun<Core<S>>, OpenError> {
    options.engine.check()?;
    let plan = Plan::new(
        options.engine.reserve.max(options.engine.memory),
        Plan::partitions(&options),
        options.offset_bits,
    );
    let empty =
        EmptyRegion { memory: options.engine.memory, bytes: plan.total, huge: options.engine.huge_pages() };
    let go_on = |file: &RegionFile, kept: &SavedRegion| {
        let (core, dropped) = restore(options, file, kept, now_unix)?;
        let items = core.shell.registry().items();
        Ok(Restored { core, items, dropped })
    };
    let begin =
        |region| Core::on(Shell::since(TimeBase::new(now_unix), region, &options.engine, 1)?, plan, options);
    open_lasting(place, empty, go_on, begin)
}

/// What the head says of a Region.
struct Found {
    saved: Saved,
    base: TimeBase,
    plan: Plan,
    /// Those that the Region was made with, where they decide where things lie.
    options: MicaOptions,
}

/// Reads a state, and finds out whether an engine with these options can continue with it in a Region of `bytes`.
fn examine<S: ItemStore>(
    options: MicaOptions,
    state: &[u8],
    bytes: usize,
    now_unix: u64,
    by: HandedBy,
) -> Result<Found, Emptied> {
    let saved = Saved::decode(state, S::FORMAT, by)?;
    let (engine, base) =
        saved.setup.resume(&options.engine, &ClassOptions::default(), 0, &saved.shell, now_unix)?;
    let partitions = saved.partitions.len();
    if partitions == 0 || !partitions.is_power_of_two() || saved.offset_bits != u64::from(options.offset_bits)
    {
        return Err(Loss::Damaged.into());
    }
    let plan = Plan::new(engine.reserve, partitions, options.offset_bits);
    if !plan.fills(bytes) {
        return Err(Loss::Damaged.into());
    }
    Ok(Found { saved, base, plan, options: MicaOptions { engine, partitions, ..options } })
}

/// Whether an engine with these options could continue with such a Region.
pub(crate) fn accepts<S: ItemStore>(
    options: MicaOptions,
    preview: &Preview,
    now_unix: u64,
) -> Result<(), Emptied> {
    // What a preview tells is what a file would.
    examine::<S>(options, &preview.state, preview.bytes, now_unix, HandedBy::File).map(|_| ())
}

/// An engine that continues with the contents of the file.
fn restore<S: ItemStore>(
    options: MicaOptions,
    file: &RegionFile,
    kept: &SavedRegion,
    now_unix: u64,
) -> Result<(Core<S>, Dropped), Failure> {
    let by = kept.handed_by();
    let Found { saved, base, plan, options } = examine::<S>(options, &kept.state, kept.bytes, now_unix, by)?;
    let (shell, damage) = reopen(file, kept, &options.engine, 1, base)?;
    let core = Core::on(shell, plan, options).map_err(Failure::Open)?;
    let dropped = core.restore(&saved, &damage)?;
    Ok((core, dropped))
}

impl<S: ItemStore> Core<S> {
    /// Continues with the contents of the Region. The engine is not in use yet.
    fn restore(&self, saved: &Saved, damage: &Damage) -> Result<Dropped, Failure> {
        let damaged = || Failure::from(Loss::Damaged);
        self.flushes.restore(&saved.flushes);
        let mut pairs = self.partitions.iter().zip(&saved.partitions);
        if !pairs.all(|(partition, saved)| partition.restore(saved, &self.plan, &self.flushes)) {
            return Err(damaged());
        }
        self.back_used(damage)?;
        let all = match saved.handed.as_slice() {
            [] => self.restore_all_items(damage),
            handed => self.go_on(handed),
        };
        let all = all.ok_or_else(damaged)?;
        if all != saved.held && damage.is_none() {
            return Err(damaged());
        }
        // Indexes give nothing back, and have to leave room for items.
        if let Some(least) = room_missing(self, self.sizing.share().bytes) {
            return Err(Emptied::TooSmall { memory: self.sizing.memory(), least }.into());
        }
        self.shell.registry().restore(&SavedCounts { held: vec![all], ..saved.counts.clone() });
        self.shell.restore_cas(saved.shell.cas);
        let items = saved.held.items.saturating_sub(all.items);
        Ok(Dropped { blocks: damage.count(), items })
    }

    /// Checks all items, and drops damaged ones. Returns what is left, unless that does not fit together.
    fn restore_all_items(&self, damage: &Damage) -> Option<ClassUsage> {
        let numbers: Vec<usize> = (0..self.partitions.len()).collect();
        let held = map_by_threads(&numbers, 1, || (), |(), number| self.restore_items(*number, damage));
        held.into_iter().try_fold(ClassUsage::default(), |all, held| Some(all.plus(held?)))
    }

    /// Goes on with items as a live process has left them. `None` if there can be no such partitions.
    fn go_on(&self, handed: &[HandedPartition]) -> Option<ClassUsage> {
        let mut pairs = self.partitions.iter().zip(handed);
        let go_on = |(partition, handed): (&Partition<S>, &HandedPartition)| partition.go_on(handed);
        let usages = handed.iter().map(|handed| handed.usage);
        pairs.all(go_on).then(|| usages.fold(ClassUsage::default(), ClassUsage::plus))
    }

    /// Checks all items of a partition, and drops damaged ones. `None` if what is left does not fit together.
    fn restore_items(&self, number: usize, damage: &Damage) -> Option<ClassUsage> {
        let (partition, [at, length]) = (&self.partitions[number], self.plan.part(number));
        let region = self.shell.region();
        if damage.touches(at, length) {
            mend(region, &self.plan, partition, damage);
        }
        let held = recover(region, &self.plan, partition)?;
        partition.set_usage(held);
        Some(held)
    }

    /// Backs everything that was in use, if the file has lost blocks, as one may that was copied or damaged.
    fn back_used(&self, damage: &Damage) -> Result<(), Failure> {
        let (region, share) = (self.shell.region(), self.sizing.share());
        let takes = self.partitions.iter().map(|partition| partition.bytes_reached(share)).sum();
        let has_room = |partition: &Partition<S>| partition.back_reached(region, share);
        if (damage.is_none() && region.takes(takes)) || self.partitions.iter().all(has_room) {
            return Ok(());
        }
        Err(Failure::Open(OpenError::Full))
    }
}

impl<S: ItemStore> Leaves for Core<S> {
    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn into_shell(self) -> Shell {
        self.shell
    }

    fn settle(&self, by: HandedBy) {
        if by == HandedBy::Process {
            self.partitions.iter().for_each(|partition| partition.store().settle());
        }
    }

    fn state(&self, now: Seconds, by: HandedBy) -> Vec<u8> {
        let saved = match by {
            HandedBy::File => Saved::of(self, now),
            HandedBy::Process => Saved::handed_of(self, now),
        };
        saved.encode(S::FORMAT)
    }

    /// What a live process gives is known only once no session is left.
    fn preview_state(&self) -> Vec<u8> {
        self.state(self.shell.time_seen(), HandedBy::File)
    }
}
