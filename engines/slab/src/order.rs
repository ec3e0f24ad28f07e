//! The order of a class: whichever policy keeps it.

use crate::policy::clock::{Hand, ReadBits};
use crate::policy::fifo::Fifo;
use crate::policy::klru::{Frequency, Hyperbolic, Klru, Recency, SAMPLES, SAMPLES_MAX};
use crate::policy::lazy_lru::{LazyLru, LazyLruOptions, TailReclaim};
use crate::policy::lru::Lru;
use crate::policy::miniature::{InOrder, InRing, KeeperUser};
use crate::policy::s3_fifo::{S3Fifo, SMALL_PERCENT};
use crate::policy::seg_lru::{SegLru, SegLruOptions, Segments};
use crate::policy::sieve::Sieve;
use crate::policy::{Arrival, Chunk, Chunks, Moment, Order, Reads};
use guira_contract::{OptionError, Spec};
use guira_memory::slab::PageId;

/// A replacement policy, with its options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// CLOCK.
    Clock(ReadBits),
    /// First in, first out.
    Fifo,
    /// Strict LRU.
    Lru,
    /// LRU that moves an item once in a while only.
    LazyLru(LazyLruOptions),
    /// Segmented LRU.
    SegLru(SegLruOptions),
    /// The least recently used of some that are drawn.
    Klru(Worth, u32),
    /// SIEVE.
    Sieve,
    /// S3-FIFO, with so many percent for the small queue.
    S3Fifo(u32),
}

impl Default for Policy {
    fn default() -> Self {
        Policy::Clock(ReadBits::default())
    }
}

/// By what KLRU chooses among the items it has drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// When it was used last.
    Recency,
    /// How often it was used.
    Frequency,
    /// How often for the time that it is there.
    Hyperbolic,
}

/// The order of a class's chunks. CLOCK is the odd one: its order is that in which chunks lie in pages, its notes are the recency bits, and so
/// nothing is told to it.
#[derive(Debug)]
pub(crate) enum Kept {
    Clock(ReadBits),
    Fifo(Fifo),
    Lru(Lru),
    LazyLru(LazyLru),
    SegLru(SegLru),
    Recency(Klru<Recency>),
    Frequency(Klru<Frequency>),
    Hyperbolic(Klru<Hyperbolic>),
    Sieve(Sieve),
    S3Fifo(S3Fifo),
}

/// Does the same with the order of whichever policy; `$clock` if it is CLOCK.
macro_rules! with_order {
    ($kept:expr, $clock:expr, $order:ident => $what:expr) => {
        match $kept {
            Kept::Clock(_) => $clock,
            Kept::Fifo($order) => $what,
            Kept::Lru($order) => $what,
            Kept::LazyLru($order) => $what,
            Kept::SegLru($order) => $what,
            Kept::Recency($order) => $what,
            Kept::Frequency($order) => $what,
            Kept::Hyperbolic($order) => $what,
            Kept::Sieve($order) => $what,
            Kept::S3Fifo($order) => $what,
        }
    };
}

impl Kept {
    /// Whether an item that is read stays longer, however soon after it was stored or read before.
    pub(crate) fn heeds_every_read(&self) -> bool {
        !matches!(self, Kept::Fifo(_) | Kept::LazyLru(_))
    }
}

/// What is the same for all orders of a policy.
struct Kind {
    words: usize,
    reads: Reads,
    touching: Touching,
}

const fn kind_of<O: Order>(touching: Touching) -> Kind {
    Kind { words: O::WORDS, reads: O::READS, touching }
}

/// An order, and the area of notes that it is kept in.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) kept: Kept,
    pub(crate) area: usize,
}

/// The order that takes over from another one.
#[derive(Debug)]
pub(crate) struct Heir {
    pub(crate) placed: Placed,
    /// The pages whose chunks have still to go over, if the old order cannot say what comes first.
    pub(crate) pages: Vec<PageId>,
}

/// The order of a class, and what is counted of it.
#[derive(Debug)]
pub(crate) struct ClassOrder {
    pub(crate) placed: Placed,
    /// While another policy takes over.
    pub(crate) heir: Option<Heir>,
    /// The area in which there are notes of the policy before, which somebody may still be at.
    pub(crate) left_behind: Option<usize>,
    /// The hand that goes around the pages: CLOCK's; for other policies it stands at the page that goes next when one has to go.
    pub(crate) hand: Hand,
    /// When the hand came to the page that it points at; 0 before it has moved.
    pub(crate) entered: u32,
    /// What the order takes of memory beside the notes, as far as it was charged.
    pub(crate) charged: usize,
}

impl ClassOrder {
    pub(crate) fn new(policy: Policy, seed: u64) -> Self {
        ClassOrder {
            placed: Placed { kept: policy.kept(seed), area: 0 },
            heir: None,
            left_behind: None,
            hand: Hand::default(),
            entered: 0,
            charged: 0,
        }
    }

    /// What the order takes of memory beside the notes.
    pub(crate) fn bytes(&self) -> usize {
        let of = |placed: &Placed| with_order!(&placed.kept, 0, order => order.bytes());
        of(&self.placed) + self.heir.as_ref().map_or(0, |heir| of(&heir.placed))
    }

    /// The areas in which something is noted of the class's chunks.
    pub(crate) fn areas(&self) -> impl Iterator<Item = usize> + use<> {
        let used =
            [Some(self.placed.area), self.heir.as_ref().map(|heir| heir.placed.area), self.left_behind];
        (0..2).filter(move |area| used.contains(&Some(*area)))
    }
}

/// What a read does with what is noted of a chunk, without the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touching {
    Nothing = 0,
    /// Every read is told.
    Queued,
    /// A read is told if an item is to move.
    Lazy,
    Recency,
    Frequency,
    Hyperbolic,
    S3Fifo,
}

impl Touching {
    pub(crate) const ALL: [Touching; 7] = [
        Touching::Nothing,
        Touching::Queued,
        Touching::Lazy,
        Touching::Recency,
        Touching::Frequency,
        Touching::Hyperbolic,
        Touching::S3Fifo,
    ];

    pub(crate) fn touch(self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        match self {
            Touching::Nothing | Touching::Queued | Touching::Lazy => {}
            Touching::Recency => Klru::<Recency>::touch(chunks, chunk, now),
            Touching::Frequency => Klru::<Frequency>::touch(chunks, chunk, now),
            Touching::Hyperbolic => Klru::<Hyperbolic>::touch(chunks, chunk, now),
            Touching::S3Fifo => S3Fifo::touch(chunks, chunk, now),
        }
    }

    /// Whether the read is to be told.
    pub(crate) fn tells(self, chunks: &impl Chunks, chunk: Chunk, now: Moment) -> bool {
        match self {
            Touching::Queued => true,
            Touching::Lazy => LazyLru::is_due(chunks, chunk, now),
            _ => false,
        }
    }
}

/// Reads a policy's options.
type Reader = fn(&Spec) -> Result<Policy, OptionError>;

/// The policies there are, by name, and their options.
const POLICIES: &[(&str, &[&str], Reader)] = &[
    ("clock", &["bits"], |spec| {
        let one = spec.number("bits", 1..=2)? == Some(1);
        Ok(Policy::Clock(if one { ReadBits::One } else { ReadBits::Two }))
    }),
    ("fifo", &[], |_| Ok(Policy::Fifo)),
    ("lru", &[], |_| Ok(Policy::Lru)),
    ("lazy-lru", &["interval", "tail_reclaim"], lazy_lru),
    ("seg-lru", &["hot_pct", "warm_pct", "hot_factor", "warm_factor", "temp_ttl", "mode"], seg_lru),
    ("klru", &["samples", "priority"], klru),
    ("sieve", &[], |_| Ok(Policy::Sieve)),
    ("s3-fifo", &["small_pct"], |spec| {
        Ok(Policy::S3Fifo(spec.number("small_pct", 1..=99)?.map_or(SMALL_PERCENT, |percent| percent as u32)))
    }),
];

fn lazy_lru(spec: &Spec) -> Result<Policy, OptionError> {
    let default = LazyLruOptions::default();
    let interval = spec.number("interval", 0..=86_400)?.map_or(default.interval, |seconds| seconds as u32);
    let tail_reclaim = match spec.value("tail_reclaim") {
        None => default.tail_reclaim,
        Some("on") => TailReclaim::On,
        Some("off") => TailReclaim::Off,
        Some(value) => return Err(spec.not("tail_reclaim", value, "on or off")),
    };
    Ok(Policy::LazyLru(LazyLruOptions { interval, tail_reclaim }))
}

fn seg_lru(spec: &Spec) -> Result<Policy, OptionError> {
    let default = SegLruOptions::default();
    let percent = |name, usual: u32| Ok(spec.number(name, 0..=80)?.map_or(usual, |percent| percent as u32));
    let factor = |name, usual: f32| match spec.value(name) {
        None => Ok(usual),
        Some(value) => match value.parse::<f32>() {
            Ok(factor) if factor > 0.0 && factor.is_finite() => Ok(factor),
            _ => Err(spec.not(name, value, "a number above 0")),
        },
    };
    let options = SegLruOptions {
        segments: match spec.value("mode") {
            None | Some("segmented") => Segments::Segmented,
            Some("flat") => Segments::Flat,
            Some(value) => return Err(spec.not("mode", value, "flat or segmented")),
        },
        hot_percent: percent("hot_pct", default.hot_percent)?,
        warm_percent: percent("warm_pct", default.warm_percent)?,
        hot_max_factor: factor("hot_factor", default.hot_max_factor)?,
        warm_max_factor: factor("warm_factor", default.warm_max_factor)?,
        temp_ttl: spec.number("temp_ttl", 0..=u64::from(u32::MAX - 1))?.map(|seconds| seconds as u32),
    };
    if options.hot_percent + options.warm_percent > 80 {
        let both = format!("{} and {}", options.hot_percent, options.warm_percent);
        return Err(spec.not("hot_pct and warm_pct", &both, "80 or less together"));
    }
    Ok(Policy::SegLru(options))
}

fn klru(spec: &Spec) -> Result<Policy, OptionError> {
    let samples = spec.number("samples", 1..=u64::from(SAMPLES_MAX))?.map_or(SAMPLES, |count| count as u32);
    let worth = match spec.value("priority") {
        None | Some("recency") => Worth::Recency,
        Some("frequency") => Worth::Frequency,
        Some("hyperbolic") => Worth::Hyperbolic,
        Some(value) => return Err(spec.not("priority", value, "recency, frequency or hyperbolic")),
    };
    Ok(Policy::Klru(worth, samples))
}

impl Policy {
    /// Reads a policy with its options.
    ///
    /// # Errors
    /// If there is no such policy or option, or a value is not allowed. The error lists what there is.
    pub fn read(spec: &Spec) -> Result<Self, OptionError> {
        match POLICIES.iter().find(|(name, ..)| *name == spec.name) {
            Some((_, options, read)) => {
                spec.allow(options)?;
                read(spec)
            }
            None => {
                let known: Vec<&str> = Self::names().collect();
                Err(OptionError::Unknown { what: "policy", name: spec.name.clone(), known: known.join(", ") })
            }
        }
    }

    /// The same the other way round, with all options.
    pub fn spec(self) -> Spec {
        let (name, options): (&str, Vec<(&str, String)>) = match self {
            Policy::Clock(bits) => {
                ("clock", vec![("bits", if bits == ReadBits::One { "1" } else { "2" }.to_owned())])
            }
            Policy::Fifo => ("fifo", Vec::new()),
            Policy::Lru => ("lru", Vec::new()),
            Policy::LazyLru(LazyLruOptions { interval, tail_reclaim }) => {
                let reclaims = if tail_reclaim == TailReclaim::On { "on" } else { "off" };
                ("lazy-lru", vec![("interval", interval.to_string()), ("tail_reclaim", reclaims.to_owned())])
            }
            Policy::SegLru(options) => ("seg-lru", seg_lru_options(options)),
            Policy::Klru(worth, samples) => {
                let priority = match worth {
                    Worth::Recency => "recency",
                    Worth::Frequency => "frequency",
                    Worth::Hyperbolic => "hyperbolic",
                };
                ("klru", vec![("samples", samples.to_string()), ("priority", priority.to_owned())])
            }
            Policy::Sieve => ("sieve", Vec::new()),
            Policy::S3Fifo(percent) => ("s3-fifo", vec![("small_pct", percent.to_string())]),
        };
        let options = options.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Spec { name: name.to_owned(), options }
    }

    /// An order by it. What it draws at random follows from `seed`.
    pub(crate) fn kept(self, seed: u64) -> Kept {
        match self {
            Policy::Clock(bits) => Kept::Clock(bits),
            Policy::Fifo => Kept::Fifo(Fifo::default()),
            Policy::Lru => Kept::Lru(Lru::default()),
            Policy::LazyLru(options) => Kept::LazyLru(LazyLru::new(options)),
            Policy::SegLru(options) => Kept::SegLru(SegLru::new(options)),
            Policy::Klru(Worth::Recency, samples) => Kept::Recency(Klru::new(samples, seed)),
            Policy::Klru(Worth::Frequency, samples) => Kept::Frequency(Klru::new(samples, seed)),
            Policy::Klru(Worth::Hyperbolic, samples) => Kept::Hyperbolic(Klru::new(samples, seed)),
            Policy::Sieve => Kept::Sieve(Sieve::default()),
            Policy::S3Fifo(percent) => Kept::S3Fifo(S3Fifo::new(percent)),
        }
    }

    /// Gives the same order over plain arrays to `user`: for simulations and estimates.
    pub fn keep<U: KeeperUser>(self, seed: u64, user: U) -> U::Output {
        let counted = match self {
            Policy::Clock(counted) => counted,
            _ => ReadBits::default(),
        };
        with_order!(self.kept(seed), user.with(InRing::new(counted)), order => user.with(InOrder::new(order)))
    }

    /// The names of the policies there are.
    pub fn names() -> impl Iterator<Item = &'static str> {
        POLICIES.iter().map(|(name, ..)| *name)
    }

    fn kind(self) -> Kind {
        match self {
            Policy::Clock(_) => Kind { words: 0, reads: Reads::Bit, touching: Touching::Nothing },
            Policy::Fifo => kind_of::<Fifo>(Touching::Nothing),
            Policy::Lru => kind_of::<Lru>(Touching::Queued),
            Policy::LazyLru(_) => kind_of::<LazyLru>(Touching::Lazy),
            Policy::SegLru(_) => kind_of::<SegLru>(Touching::Nothing),
            Policy::Klru(Worth::Recency, _) => kind_of::<Klru<Recency>>(Touching::Recency),
            Policy::Klru(Worth::Frequency, _) => kind_of::<Klru<Frequency>>(Touching::Frequency),
            Policy::Klru(Worth::Hyperbolic, _) => kind_of::<Klru<Hyperbolic>>(Touching::Hyperbolic),
            Policy::Sieve => kind_of::<Sieve>(Touching::Nothing),
            Policy::S3Fifo(_) => kind_of::<S3Fifo>(Touching::S3Fifo),
        }
    }

    /// Words noted of each chunk.
    pub(crate) fn words(self) -> usize {
        self.kind().words
    }

    /// What a read has to do.
    pub(crate) fn reads(self) -> Reads {
        self.kind().reads
    }

    /// What a read does with its notes.
    pub(crate) fn touching(self) -> Touching {
        self.kind().touching
    }

    /// Whether it wants to be told of what is stored.
    pub(crate) fn wants_stores(self) -> bool {
        !matches!(self, Policy::Clock(_))
    }
}

fn seg_lru_options(options: SegLruOptions) -> Vec<(&'static str, String)> {
    let mut told = vec![
        ("hot_pct", options.hot_percent.to_string()),
        ("warm_pct", options.warm_percent.to_string()),
        ("hot_factor", options.hot_max_factor.to_string()),
        ("warm_factor", options.warm_max_factor.to_string()),
    ];
    if let Some(seconds) = options.temp_ttl {
        told.push(("temp_ttl", seconds.to_string()));
    }
    if options.segments == Segments::Flat {
        told.push(("mode", "flat".to_owned()));
    }
    told
}

impl Kept {
    /// Whether its victims come in an order of its own, so that another can take over from it one after the other. If not, they are drawn, or
    /// found in pages.
    pub(crate) fn is_sequence(&self) -> bool {
        !matches!(self, Kept::Clock(_) | Kept::Recency(_) | Kept::Frequency(_) | Kept::Hyperbolic(_))
    }

    /// Goes on with other options of the same policy. False if that takes a new order.
    pub(crate) fn tune(&mut self, policy: Policy) -> bool {
        match (self, policy) {
            (Kept::Clock(counted), Policy::Clock(bits)) => *counted = bits,
            (Kept::SegLru(order), Policy::SegLru(options)) => order.tune(options),
            (Kept::Recency(order), Policy::Klru(Worth::Recency, samples)) => order.tune(samples),
            (Kept::Frequency(order), Policy::Klru(Worth::Frequency, samples)) => order.tune(samples),
            (Kept::Hyperbolic(order), Policy::Klru(Worth::Hyperbolic, samples)) => order.tune(samples),
            _ => return false,
        }
        true
    }

    pub(crate) fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, arrival: Arrival, now: Moment) {
        with_order!(self, {}, order => order.stored(chunks, chunk, arrival, now));
    }

    pub(crate) fn was_read(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        with_order!(self, {}, order => order.was_read(chunks, chunk, now));
    }

    pub(crate) fn has(&self, chunks: &impl Chunks, chunk: Chunk) -> bool {
        with_order!(self, true, order => order.has(chunks, chunk))
    }

    pub(crate) fn removed(&mut self, chunks: &impl Chunks, chunk: Chunk) {
        with_order!(self, {}, order => order.removed(chunks, chunk));
    }

    pub(crate) fn reclaim(&mut self, chunks: &impl Chunks, now: Moment, take: impl FnMut(Chunk)) {
        with_order!(self, {}, order => order.reclaim(chunks, now, take));
    }

    pub(crate) fn victims(
        &mut self,
        chunks: &impl Chunks,
        want: usize,
        now: Moment,
        take: impl FnMut(Chunk),
    ) {
        with_order!(self, {}, order => order.victims(chunks, want, now, take));
    }

    pub(crate) fn next(&self, chunks: &impl Chunks) -> Option<(Chunk, u32)> {
        with_order!(self, None, order => order.next(chunks))
    }
}
