//! Going on where another engine has left off, in a Region that lasts in a file.
//!
//! Logs and indexes lie in the Region and last by themselves. The rest is put into the head of the file when the engine is closed ([`Saved`]). Nothing that is
//! read is believed before it was checked: every log is followed from its head to its tail, and every slot of the indexes has to lead to an item that
//! was found there; what does not fit together empties the Region.

use crate::bucket::Bucket;
use crate::core::{Core, MicaEngine};
use crate::entry::Anchor;
use crate::options::{MAX_PARTITIONS, MicaOptions};
use crate::partition::{Partition, SavedPartition};
use crate::plan::{Plan, arriving};
use crate::space::Space;
use guira_contract::{CloseError, Dropped, Emptied, Opened};
use guira_items::{
    ClassOptions, ClassUsage, EmptyRegion, EngineOptions, Failure, HASHED, Numbers, OpenError, Restored,
    SavedCounts, SavedSetup, Shell, ShellState, bytes_of, open_lasting, reopen,
};
use guira_memory::RegionPlace;
use guira_memory::lasting::{Damage, Loss, RegionFile, STATE_MAX, SavedRegion};
use guira_sync::clock::{Seconds, TimeBase};
use guira_sync::threads::map_by_threads;
use guira_sync::words::WORD;
use std::sync::Arc;

/// Numbers that are kept of a partition.
const OF_PARTITION: usize = 13;

// Those of as many partitions as there can be leave room for the rest.
const _: () = assert!(MAX_PARTITIONS * OF_PARTITION * WORD + 4096 <= STATE_MAX);

/// What has to be known beside the Region's contents.
#[derive(Clone, Debug, PartialEq)]
struct Saved {
    setup: SavedSetup,
    offset_bits: u64,
    shell: ShellState,
    flushes: u64,
    /// What the items come to.
    held: ClassUsage,
    counts: SavedCounts,
    partitions: Vec<SavedPartition>,
}

impl Saved {
    fn of<S: Space>(core: &Core<S>, now: Seconds) -> Self {
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
        }
    }

    fn encode(&self, format: [u8; 8]) -> Vec<u8> {
        let mut numbers = vec![u64::from_le_bytes(format)];
        numbers.extend(self.setup.numbers());
        numbers.push(self.offset_bits);
        numbers.extend(self.shell.numbers());
        numbers.extend([self.flushes, self.held.items, self.held.bytes]);
        numbers.extend(self.counts.numbers());
        numbers.push(self.partitions.len() as u64);
        for partition in &self.partitions {
            numbers.extend(partition.space);
            numbers.extend(partition.index);
            numbers.push(partition.flushes);
        }
        numbers.extend(self.counts.class_numbers());
        bytes_of(&numbers)
    }

    /// What [`Saved::encode`] has made.
    fn decode(state: &[u8], format: [u8; 8]) -> Result<Self, Emptied> {
        let mut numbers = Numbers::of(state, format)?;
        let mut saved = Saved {
            setup: numbers.setup()?,
            offset_bits: numbers.number()?,
            shell: numbers.shell()?,
            flushes: numbers.number()?,
            held: ClassUsage { items: numbers.number()?, bytes: numbers.number()? },
            counts: numbers.counts()?,
            partitions: partitions_of(&mut numbers)?,
        };
        saved.counts.classes = numbers.class_counts()?;
        numbers.end()?;
        Ok(saved)
    }
}

/// What is the same for the same offsets in any order, and hardly ever for others: how many there are, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OffsetSum {
    count: u64,
    sum: u64,
}

impl OffsetSum {
    pub(crate) fn add(&mut self, offset: u64) {
        let mixed = (offset + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.count += 1;
        self.sum = self.sum.wrapping_add((mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93));
    }
}

fn partitions_of(numbers: &mut Numbers<'_>) -> Result<Vec<SavedPartition>, Emptied> {
    let count: usize = numbers.small()?;
    let partition = |_| {
        let mut saved = SavedPartition::default();
        for number in saved.space.iter_mut().chain(&mut saved.index) {
            *number = numbers.number()?;
        }
        saved.flushes = numbers.number()?;
        Ok(saved)
    };
    (0..count.min(MAX_PARTITIONS)).map(partition).collect()
}

/// Opens an engine whose Region lasts at `place`.
pub(crate) fn open<S: Space>(
    options: MicaOptions,
    place: &RegionPlace,
    now_unix: u64,
) -> Result<Opened<MicaEngine<S>>, OpenError> {
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
    let begin = |region| {
        let mut shell = Shell::on(region, &options.engine, 1)?;
        shell.begin_at(TimeBase::new(now_unix));
        Core::on(shell, plan, options)
    };
    let mut begun = open_lasting(place, empty, go_on, begin)?;
    begun.core.shell.last_in(begun.file);
    let base = begun.core.shell.base();
    let engine = MicaEngine { core: Arc::new(begun.core) };
    Ok(Opened { engine, opening: begun.opening, notes: begun.notes, base })
}

/// An engine that goes on with what the file holds.
fn restore<S: Space>(
    options: MicaOptions,
    file: &RegionFile,
    kept: &SavedRegion,
    now_unix: u64,
) -> Result<(Core<S>, Dropped), Failure> {
    let saved = Saved::decode(&kept.state, S::FORMAT)?;
    saved.setup.check(&options.engine, &ClassOptions::default(), 0)?;
    let base = saved.shell.base.resume(now_unix).ok_or(Emptied::TooOld)?;
    let partitions = saved.partitions.len();
    if partitions == 0 || !partitions.is_power_of_two() || saved.offset_bits != u64::from(options.offset_bits)
    {
        return Err(Loss::Damaged.into());
    }
    let plan = Plan::new(saved.setup.reserve, partitions, options.offset_bits);
    if !plan.fills(kept.bytes) {
        return Err(Loss::Damaged.into());
    }
    let hashing = saved.setup.hashing(options.engine.hashing);
    let options = MicaOptions {
        engine: EngineOptions { reserve: plan.reserve, hashing, ..options.engine },
        partitions,
        ..options
    };
    let (shell, damage) = reopen(file, kept, &options.engine, 1, base)?;
    saved.setup.check_hash(shell.hash(HASHED))?;
    let mut core = Core::on(shell, plan, options).map_err(Failure::Open)?;
    let dropped = core.restore(&saved, &damage)?;
    Ok((core, dropped))
}

impl<S: Space> Core<S> {
    /// Goes on with what lies in the Region. The engine is new, and nobody uses it yet.
    fn restore(&mut self, saved: &Saved, damage: &Damage) -> Result<Dropped, Failure> {
        let damaged = || Failure::from(Loss::Damaged);
        self.flushes.restore(saved.flushes);
        let mut pairs = self.partitions.iter().zip(&saved.partitions);
        if !pairs.all(|(partition, saved)| partition.restore(saved, &self.plan)) {
            return Err(damaged());
        }
        self.find_room_again(damage)?;
        let numbers: Vec<usize> = (0..self.partitions.len()).collect();
        let held = map_by_threads(&numbers, 1, || (), |(), number| self.restore_items(*number, damage));
        let mut all = ClassUsage::default();
        for held in held {
            all = all.plus(held.ok_or_else(damaged)?);
        }
        if all != saved.held && damage.is_none() {
            return Err(damaged());
        }
        self.check_room()?;
        self.shell.registry().restore(&SavedCounts { held: vec![all], ..saved.counts.clone() });
        self.shell.restore_cas(saved.shell.cas);
        let items = saved.held.items.saturating_sub(all.items);
        Ok(Dropped { blocks: damage.count(), items })
    }

    /// Looks at all items of a partition, and drops what is damaged. `None` if what is left does not fit together.
    fn restore_items(&self, number: usize, damage: &Damage) -> Option<ClassUsage> {
        let (partition, [at, length]) = (&self.partitions[number], self.plan.part(number));
        if damage.touches(at, length) {
            self.mend(partition, damage);
        }
        let held = self.recover(partition)?;
        partition.items.set(held.items);
        partition.bytes.set(held.bytes);
        Some(held)
    }

    /// Sees to it that what was in use has room, if it has lost it, as a file may that was copied, or of which blocks were damaged.
    fn find_room_again(&self, damage: &Damage) -> Result<(), Failure> {
        let share = self.share();
        let takes = self.partitions.iter().map(|partition| partition.bytes_reached(share)).sum();
        let has_room = |partition: &Partition<S>| partition.back_reached(self.shell.region(), share);
        if (damage.is_none() && self.shell.region().takes(takes)) || self.partitions.iter().all(has_room) {
            return Ok(());
        }
        Err(Failure::Open(OpenError::Full))
    }

    /// Whether what cannot be given back leaves room for items.
    fn check_room(&self) -> Result<(), Emptied> {
        match self.room_missing(self.share().bytes) {
            Some(least) => Err(Emptied::TooSmall { memory: self.memory(), least }),
            None => Ok(()),
        }
    }

    /// If indexes, which give nothing back, would leave no room for items in a partition of `share` bytes: how much memory there would have to be.
    pub(crate) fn room_missing(&self, share: usize) -> Option<usize> {
        let index = self.partitions.iter().map(|partition| partition.index_bytes(self.share())).max();
        let least = 2 * index.unwrap_or(0);
        (least > share).then(|| {
            let all = least * self.partitions.len();
            all + arriving(2 * all, self.options.engine.max_item_size)
        })
    }

    /// What the items of a partition come to, if all that lies there is as it should be.
    pub(crate) fn recover(&self, partition: &Partition<S>) -> Option<ClassUsage> {
        let mut offsets = OffsetSum::default();
        let held = S::recover(self, partition, &mut offsets)?;
        (self.slots_in_use(partition)? == offsets).then_some(held)
    }

    /// Where the slots of a partition's index lead that lead to items. None if one leads elsewhere than to an item of its bucket. Those that lead to what is gone are
    /// emptied.
    fn slots_in_use(&self, partition: &Partition<S>) -> Option<OffsetSum> {
        let mut in_use = OffsetSum::default();
        let index = &partition.index;
        for number in 0..index.buckets() as u32 {
            let main = index.bucket(number);
            main.begin()?;
            let (mut bucket, mut left) = (main, index.spares_reached() + 1);
            loop {
                self.check_bucket(partition, number, [main, bucket], &mut in_use)?;
                let next = if S::IS_LOSSY { None } else { index.linked(bucket.link()) };
                let Some(next) = next else { break };
                // More than there are: they lead in a circle.
                left = left.checked_sub(1).filter(|left| *left > 0)?;
                bucket = next;
            }
        }
        Some(in_use)
    }

    /// Notes where the slots of a bucket lead, as above: one that `main` goes on in, or `main` itself.
    fn check_bucket(
        &self,
        partition: &Partition<S>,
        number: u32,
        [main, bucket]: [Bucket<'_>; 2],
        in_use: &mut OffsetSum,
    ) -> Option<()> {
        let (index, space) = (&partition.index, &partition.space);
        for slot in bucket.used() {
            let offset = bucket.offset(slot);
            if !space.is_live(offset) {
                main.change(|| bucket.clear(slot));
                continue;
            }
            if !self.can_be(space, offset) {
                return None;
            }
            let anchor = Anchor::load(self.shell.region(), space.at(offset));
            if anchor.is_dead() || index.bucket_of(anchor.place(), index.extent()) != number {
                return None;
            }
            in_use.add(offset);
        }
        Some(())
    }

    /// Whether an item can lie at `offset`.
    pub(crate) fn can_be(&self, space: &S, offset: u64) -> bool {
        space.age(offset) <= 2 * self.plan.ring && (S::IS_LOSSY || offset < self.plan.ring)
    }

    /// Leaves everything so that another engine can go on with it, if the Region lasts. All sessions are gone.
    pub(crate) fn close(self, now: Seconds, notes: &[u8]) -> Result<(), CloseError> {
        if !self.shell.lasts(notes)? {
            return Ok(());
        }
        let state = Saved::of(&self, now).encode(S::FORMAT);
        self.shell.close(&state, notes)
    }
}
