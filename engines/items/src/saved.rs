//! What engines leave in the head of a Region that lasts: numbers of 8 bytes, one after the other.
//!
//! What is read from there is believed only after it was checked against the bounds of what there can be.

use crate::counts::{ClassUsage, ClassValues, SavedCounts};
use crate::flushes::SavedPrefixes;
use crate::named::NamedRows;
use crate::setup::{ClassOptions, EngineOptions, Hashing, MAX_MEMORY, MINIMUM};
use crate::shell::{ShellState, hash_by};
use guira_contract::{ClassCounter, Counter, Emptied, KeyHash};
use guira_memory::lasting::Loss;
use guira_memory::slab::{ClassTable, MAX_CLASSES, PAGE_BYTES};
use guira_sync::clock::{Seconds, TimeBase};

/// What is hashed to see whether the function is the same.
pub const HASHED: &[u8] = b"guira";

/// What decides where things lie in a Region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SavedSetup {
    /// The most memory there can be, in bytes.
    pub reserve: usize,
    max_item_size: u64,
    factor: f64,
    smallest_item: u64,
    page_bytes: u64,
    /// What the sizes of all classes come to.
    classes: u64,
    seed: u64,
    hash: u64,
}

impl SavedSetup {
    /// That of an engine with these options and classes. `hash` is that of [`HASHED`].
    pub fn of(options: &EngineOptions, classes: &ClassOptions, link: usize, hash: KeyHash) -> Self {
        SavedSetup {
            reserve: options.reserve,
            max_item_size: options.max_item_size as u64,
            factor: classes.factor,
            smallest_item: classes.smallest_item as u64,
            page_bytes: PAGE_BYTES as u64,
            classes: sum_of(&classes.table(link)),
            seed: if let Hashing::Seeded(seed) = options.hashing { seed } else { 0 },
            hash: hash.0,
        }
    }

    pub fn numbers(&self) -> [u64; 8] {
        [
            self.reserve as u64,
            self.max_item_size,
            self.factor.to_bits(),
            self.smallest_item,
            self.page_bytes,
            self.classes,
            self.seed,
            self.hash,
        ]
    }

    /// How an engine with these options and classes goes on with the Region, which was left in this `state`: the options where they are the
    /// Region's, and the time since when its seconds count.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn resume(
        &self,
        options: &EngineOptions,
        classes: &ClassOptions,
        link: usize,
        state: &ShellState,
        now_unix: u64,
    ) -> Result<(EngineOptions, TimeBase), Emptied> {
        self.check(options, classes, link)?;
        let base = state.base.resume(now_unix).ok_or(Emptied::TooOld)?;
        let hashing = self.hashing(options.hashing);
        self.check_hash(hash_by(hashing, HASHED))?;
        Ok((EngineOptions { reserve: self.reserve, hashing, ..*options }, base))
    }

    /// Whether an engine with these options can go on with the Region.
    fn check(&self, options: &EngineOptions, classes: &ClassOptions, link: usize) -> Result<(), Emptied> {
        let pairs = [
            ("page size", self.page_bytes, PAGE_BYTES as u64),
            ("largest item (-I)", self.max_item_size, options.max_item_size as u64),
            ("smallest item (-n)", self.smallest_item, classes.smallest_item as u64),
        ];
        let differs = |name, was: String, is: String| Err(Emptied::Setting { name, was, is });
        if let Some((name, was, is)) = pairs.into_iter().find(|(_, was, is)| was != is) {
            return differs(name, was.to_string(), is.to_string());
        }
        if self.factor.to_bits() != classes.factor.to_bits() {
            return differs("growth factor (-f)", self.factor.to_string(), classes.factor.to_string());
        }
        if self.classes != sum_of(&classes.table(link)) {
            // The same options lead to other classes: the code has changed.
            return Err(Loss::Version.into());
        }
        if !(MINIMUM..=MAX_MEMORY).contains(&self.reserve) {
            return Err(Loss::Damaged.into());
        }
        if options.memory > self.reserve {
            return Err(Emptied::Reserve { memory: options.memory, reserve: self.reserve });
        }
        Ok(())
    }

    /// How keys are hashed: the seed is the Region's, whatever `wanted` says.
    fn hashing(&self, wanted: Hashing) -> Hashing {
        match wanted {
            Hashing::Seeded(_) => Hashing::Seeded(self.seed),
            Hashing::Fixed(function) => Hashing::Fixed(function),
        }
    }

    /// Whether keys are hashed as before, if the hash of [`HASHED`] is `hash`.
    fn check_hash(&self, hash: KeyHash) -> Result<(), Emptied> {
        if hash.0 == self.hash {
            return Ok(());
        }
        let (was, is) = (format!("{:x}", self.hash), format!("{:x}", hash.0));
        Err(Emptied::Setting { name: "hash function", was, is })
    }
}

/// A number that differs if the chunks of any class do.
fn sum_of(classes: &ClassTable) -> u64 {
    let chunks = classes.ids().map(|class| u64::from(classes.geometry(class).chunk));
    chunks.fold(0xcbf2_9ce4_8422_2325, |sum, chunk| (sum ^ chunk).wrapping_mul(0x0100_0000_01b3))
}

/// The state that consists of these numbers.
pub fn bytes_of(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The numbers of a state, one after the other.
#[derive(Debug)]
pub struct Numbers<'a> {
    words: std::slice::Iter<'a, [u8; 8]>,
    /// What is left behind the last number.
    rest: &'a [u8],
}

impl<'a> Numbers<'a> {
    /// Those of `state`, of which the first says that it is of this format.
    ///
    /// # Errors
    /// If it is of another.
    pub fn of(state: &'a [u8], format: [u8; 8]) -> Result<Self, Emptied> {
        let (words, rest) = state.as_chunks::<8>();
        let mut numbers = Numbers { words: words.iter(), rest };
        if numbers.number()?.to_le_bytes() != format {
            return Err(Emptied::Engine);
        }
        Ok(numbers)
    }

    /// The next number.
    ///
    /// # Errors
    /// If there is none.
    pub fn number(&mut self) -> Result<u64, Emptied> {
        self.words.next().map(|bytes| u64::from_le_bytes(*bytes)).ok_or(Loss::Damaged.into())
    }

    /// The next number, of a smaller type.
    ///
    /// # Errors
    /// If there is none, or it is too large.
    pub fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Emptied> {
        T::try_from(self.number()?).map_err(|_| Loss::Damaged.into())
    }

    /// What [`SavedSetup::numbers`] has made.
    ///
    /// # Errors
    /// If it is not there.
    pub fn setup(&mut self) -> Result<SavedSetup, Emptied> {
        Ok(SavedSetup {
            reserve: self.small()?,
            max_item_size: self.number()?,
            factor: f64::from_bits(self.number()?),
            smallest_item: self.number()?,
            page_bytes: self.number()?,
            classes: self.number()?,
            seed: self.number()?,
            hash: self.number()?,
        })
    }

    /// What [`ShellState::numbers`] has made.
    ///
    /// # Errors
    /// If it is not there.
    pub fn shell(&mut self) -> Result<ShellState, Emptied> {
        let base = TimeBase { unix: self.number()?, reached: Seconds(self.small()?) };
        Ok(ShellState { base, cas: self.number()? })
    }

    /// What [`SavedCounts::numbers`] has made: the counters, but for the usage of classes.
    ///
    /// # Errors
    /// If it is not there.
    pub fn counts(&mut self) -> Result<SavedCounts, Emptied> {
        let rows = NamedRows::read(|| self.number(), &COUNTED_BEFORE, Some(2), 2)?;
        let mut rows = rows.rows(counter_names());
        let mut row = || rows.next().ok_or(Emptied::from(Loss::Damaged));
        Ok(SavedCounts { sums: row()?, base: row()?, held: Vec::new(), classes: Vec::new() })
    }

    /// What [`SavedCounts::class_numbers`] has made; nothing, if that is where the state of an earlier version ends.
    ///
    /// # Errors
    /// If it is something else.
    pub fn class_counts(&mut self) -> Result<Vec<ClassValues>, Emptied> {
        if self.words.as_slice().is_empty() && self.rest.is_empty() {
            return Ok(Vec::new());
        }
        let rows = NamedRows::read(|| self.number(), &CLASSES_COUNTED_BEFORE, None, MAX_CLASSES)?;
        Ok(rows.rows(ClassCounter::ALL.map(ClassCounter::name)).collect())
    }

    /// What [`SavedPrefixes::numbers`] has made; `None`, if that is where the state of an earlier version ends.
    ///
    /// # Errors
    /// If it is something else.
    pub fn prefixes(&mut self) -> Result<Option<SavedPrefixes>, Emptied> {
        if self.words.as_slice().is_empty() && self.rest.is_empty() {
            return Ok(None);
        }
        SavedPrefixes::read(|| self.number())?.map(Some).ok_or(Loss::Damaged.into())
    }

    /// The usage of this many classes.
    ///
    /// # Errors
    /// If it is not there.
    pub fn held(&mut self, classes: usize) -> Result<Vec<ClassUsage>, Emptied> {
        (0..classes).map(|_| Ok(ClassUsage { items: self.number()?, bytes: self.number()? })).collect()
    }

    /// Whether there is nothing more to read.
    pub fn is_over(&self) -> bool {
        self.words.len() == 0
    }

    /// There are no more.
    ///
    /// # Errors
    /// If there are.
    pub fn end(mut self) -> Result<(), Emptied> {
        if self.words.next().is_some() || !self.rest.is_empty() {
            return Err(Loss::Damaged.into());
        }
        Ok(())
    }
}

/// The counters of the version that wrote no names, in its order.
const COUNTED_BEFORE: [&str; 14] = [
    "total_items",
    "evictions",
    "evicted_unfetched",
    "index_evictions",
    "reclaimed",
    "expired_unfetched",
    "crawler_reclaimed",
    "crawler_items_checked",
    "slabs_moved",
    "index_displacements",
    "read_retries",
    "write_retries",
    "swaps_lost",
    "hand_steps",
];

/// The counters of a class of the version that wrote no names, in its order.
const CLASSES_COUNTED_BEFORE: [&str; 9] = [
    "evicted",
    "evicted_nonzero",
    "evicted_unfetched",
    "evicted_time",
    "reclaimed",
    "expired_unfetched",
    "crawler_reclaimed",
    "crawler_items_checked",
    "outofmemory",
];

fn counter_names() -> [&'static str; Counter::COUNT] {
    Counter::ALL.map(Counter::name)
}

impl SavedCounts {
    /// As they are written, but for the usage of classes.
    pub fn numbers(&self) -> Vec<u64> {
        NamedRows::of(counter_names(), [self.sums, self.base]).numbers()
    }

    /// The counters of classes, as they are written.
    pub fn class_numbers(&self) -> Vec<u64> {
        NamedRows::of(ClassCounter::ALL.map(ClassCounter::name), self.classes.iter().copied()).numbers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: [u8; 8] = *b"a format";

    fn options() -> EngineOptions {
        let hashing = Hashing::Seeded(7);
        EngineOptions {
            memory: 4 << 20,
            reserve: 16 << 20,
            max_item_size: 1 << 20,
            hashing,
            ..EngineOptions::default()
        }
    }

    const CLASSES: ClassOptions = ClassOptions { factor: 1.25, smallest_item: 16 };

    fn setup(options: &EngineOptions) -> SavedSetup {
        SavedSetup::of(options, &CLASSES, 0, KeyHash(9))
    }

    #[test]
    fn what_was_written_is_read_again_and_nothing_less_or_more() {
        let counts = SavedCounts {
            sums: [3; Counter::COUNT],
            base: [2; Counter::COUNT],
            held: Vec::new(),
            classes: Vec::new(),
        };
        let mut numbers = vec![u64::from_le_bytes(FORMAT)];
        numbers.extend(setup(&options()).numbers());
        numbers.extend(counts.numbers());
        numbers.extend([5, 6]);
        let state = bytes_of(&numbers);
        let read = |state: &[u8]| {
            let mut numbers = Numbers::of(state, FORMAT)?;
            let read = (numbers.setup()?, numbers.counts()?, numbers.held(1)?);
            numbers.end().map(|()| read)
        };
        assert_eq!(read(&state), Ok((setup(&options()), counts, vec![ClassUsage { items: 5, bytes: 6 }])));
        for length in 8..state.len() {
            assert_eq!(read(&state[..length]), Err(Loss::Damaged.into()));
        }
        assert_eq!(read(&[state.as_slice(), &[0]].concat()), Err(Loss::Damaged.into()));
        assert_eq!(Numbers::of(&state, *b"another!").unwrap_err(), Emptied::Engine);
        let mut numbers = Numbers::of(&state, FORMAT).unwrap();
        assert_eq!(numbers.small::<u16>(), Err(Loss::Damaged.into()), "the reserve is too large for it");
    }

    #[test]
    fn counters_of_a_version_that_counts_other_things_are_read_by_name() {
        let mut numbers = vec![u64::from_le_bytes(FORMAT)];
        numbers.extend(NamedRows::of(["evictions", "forgotten"], [[5, 1], [2, 0]]).numbers());
        numbers
            .extend(NamedRows::of(["outofmemory", "forgotten", "evicted"], [[7, 8, 9], [1, 2, 3]]).numbers());
        let state = bytes_of(&numbers);
        let mut numbers = Numbers::of(&state, FORMAT).unwrap();
        let counts = numbers.counts().unwrap();
        let [evictions, stored] = [Counter::Evictions, Counter::ItemsStored].map(|what| what as usize);
        assert_eq!((counts.sums[evictions], counts.base[evictions], counts.sums[stored]), (5, 2, 0));
        let classes = numbers.class_counts().unwrap();
        let of = |class: usize, what: ClassCounter| classes[class][what as usize];
        assert_eq!((of(0, ClassCounter::Evicted), of(0, ClassCounter::OutOfMemory)), (9, 7));
        assert_eq!((of(1, ClassCounter::Evicted), of(1, ClassCounter::Reclaimed)), (3, 0));
        numbers.end().unwrap();
    }

    #[test]
    fn another_setup_is_told_by_what_is_other() {
        let saved = setup(&options());
        let check = |options: EngineOptions| saved.check(&options, &CLASSES, 0);
        assert_eq!(check(options()), Ok(()));
        assert_eq!(
            check(EngineOptions { memory: 8 << 20, reserve: 0, ..options() }),
            Ok(()),
            "memory may differ"
        );
        let differs = |options: EngineOptions, classes: ClassOptions, what: &str| {
            let why = saved.check(&options, &classes, 0).unwrap_err().to_string();
            assert!(why.contains(what), "{why}");
        };
        let smaller = EngineOptions { max_item_size: 1 << 19, ..options() };
        differs(smaller, CLASSES, "largest item (-I) was 1048576 and is now 524288");
        differs(options(), ClassOptions { smallest_item: 48, ..CLASSES }, "smallest item (-n)");
        let steeper = ClassOptions { factor: 1.5, ..CLASSES };
        differs(options(), steeper, "growth factor (-f) was 1.25 and is now 1.5");
        differs(EngineOptions { memory: 17 << 20, ..options() }, CLASSES, "up to 16777216 bytes");
        assert_eq!(saved.check(&options(), &CLASSES, 8), Err(Loss::Version.into()));
        let small = EngineOptions { reserve: MINIMUM - 1, ..options() };
        assert_eq!(setup(&small).check(&small, &CLASSES, 0), Err(Loss::Damaged.into()));
        assert!(matches!(saved.hashing(Hashing::Seeded(1)), Hashing::Seeded(7)));
        assert_eq!(saved.check_hash(KeyHash(9)), Ok(()));
        assert!(saved.check_hash(KeyHash(8)).unwrap_err().to_string().contains("hash function"));
    }
}
