//! The table of policies: one row for each.

use super::clock::ReadBits;
use super::fifo::FifoOptions;
use super::klru::KlruOptions;
use super::lazy_lru::LazyLruOptions;
use super::lru::LruOptions;
use super::miniature::{InOrder, Miniature};
use super::s3_fifo::S3FifoOptions;
use super::seg_lru::SegLruOptions;
use super::sieve::SieveOptions;
use super::two_q::TwoQOptions;
use super::{Arrival, Chunk, Chunks, Lately, Moment, Notes, Order, PolicyOptions, Reads};
use guira_contract::{OptionError, PolicyError, Spec};
use std::any::Any;
use std::fmt;

/// Makes everything that there is for each policy from its row: a variant by which it is known, and its options.
macro_rules! policies {
    ($($policy:ident($options:ty),)*) => {
        /// A replacement policy, with its options. What each is: [`PolicyOptions::ABOUT`].
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Policy {
            $($policy($options),)*
        }

        /// The order of a class, by any policy.
        #[derive(Debug)]
        pub(crate) enum PolicyState {
            $($policy(<$options as PolicyOptions>::Order),)*
        }

        /// The policies, by number.
        #[derive(Clone, Copy)]
        enum Number {
            $($policy,)*
        }

        impl Policy {
            pub const COUNT: usize = [$(<$options as PolicyOptions>::NAME),*].len();

            /// Every policy, with its default options, and one line about it.
            pub fn all() -> impl Iterator<Item = (Policy, &'static str)> {
                [$((Policy::$policy(<$options>::default()), <$options as PolicyOptions>::ABOUT)),*].into_iter()
            }

            /// Reads a policy with its options.
            ///
            /// # Errors
            /// If there is no such policy or option, or a value is not allowed. The error lists what there is.
            pub fn read(spec: &Spec) -> Result<Self, OptionError> {
                match spec.name.as_str() {
                    $(<$options as PolicyOptions>::NAME => {
                        spec.allow(<$options as PolicyOptions>::KEYS)?;
                        <$options as PolicyOptions>::read(spec).map(Policy::$policy)
                    })*
                    _ => {
                        let known = Self::all().map(|(policy, _)| policy.name()).collect::<Vec<_>>();
                        let (name, known) = (spec.name.clone(), known.join(", "));
                        Err(OptionError::Unknown { what: "policy", name, known })
                    }
                }
            }

            pub fn name(self) -> &'static str {
                match self {
                    $(Policy::$policy(_) => <$options as PolicyOptions>::NAME,)*
                }
            }

            /// Name and all options, as [`Policy::read`] reads them.
            pub fn spec(self) -> Spec {
                let options = match self {
                    $(Policy::$policy(options) => options.write(),)*
                };
                let owned = |(key, value): (&str, String)| (key.to_owned(), value);
                Spec { name: self.name().to_owned(), options: options.into_iter().map(owned).collect() }
            }

            /// About what it takes of memory for each item, in bytes.
            pub fn item_bytes(self) -> u32 {
                match self {
                    $(Policy::$policy(options) => {
                        options.order(0).notes().bytes() as u32 + options.ghost_bytes()
                    })*
                }
            }

            /// An empty order. What it draws at random follows from `seed`.
            pub(crate) fn order(self, seed: u64) -> PolicyState {
                match self {
                    $(Policy::$policy(options) => PolicyState::$policy(options.order(seed)),)*
                }
            }

            /// Has `order` go on by these options, if it is one of this policy. False if that takes a new order.
            pub(super) fn tune(self, order: &mut dyn Any) -> bool {
                match self {
                    $(Policy::$policy(options) => {
                        order.downcast_mut().is_some_and(|order: &mut <$options as PolicyOptions>::Order| options.tune(order))
                    })*
                }
            }

            /// An empty miniature with this limit, for about `keys` keys, with memory for `chunks` cached keys
            /// from the start. What it draws at random follows from `seed`.
            pub fn miniature(self, seed: u64, limit: u64, keys: usize, chunks: usize) -> Box<dyn Miniature> {
                match self {
                    $(Policy::$policy(options) => Box::new(
                        InOrder::new(options.order(seed), limit).with_keys(keys).with_chunks(chunks)
                    ),)*
                }
            }
        }

        /// Does the same with the order of any policy.
        macro_rules! with_order {
            ($state:expr, $order:ident => $what:expr) => {
                match $state {
                    $(PolicyState::$policy($order) => $what,)*
                }
            };
        }

        impl PolicyState {
            /// Goes on with other options of the same policy. False if that takes a new order.
            pub(crate) fn tune(&mut self, policy: Policy) -> bool {
                match (self, policy) {
                    $((PolicyState::$policy(order), Policy::$policy(options)) => options.tune(order),)*
                    _ => false,
                }
            }

            /// What a read does for this order.
            pub(crate) fn read_hook(&self) -> ReadHook {
                match self {
                    $(PolicyState::$policy(order) => ReadHook::of(order, Number::$policy),)*
                }
            }
        }

        impl ReadHook {
            /// Updates the notes on a chunk that was read, without the order. True if the order wants to hear of the
            /// read as well.
            pub(crate) fn touch(self, chunks: &impl Chunks, chunk: Chunk, now: Moment) -> bool {
                $(if self.number() == Some(Number::$policy as u8) {
                    return touch::<<$options as PolicyOptions>::Order>(self.variant(), chunks, chunk, now);
                })*
                false
            }
        }
    };
}

policies! {
    Clock(ReadBits),
    Fifo(FifoOptions),
    Lru(LruOptions),
    LazyLru(LazyLruOptions),
    SegLru(SegLruOptions),
    Klru(KlruOptions),
    Sieve(SieveOptions),
    S3Fifo(S3FifoOptions),
    TwoQ(TwoQOptions),
}

/// The typed part of [`guira_contract::Control`] for engines that can have any [`Policy`]. [`Spec`] is for operators' text.
pub trait PolicyControl {
    /// The policy, and the one that is taking over, if there is one.
    fn policies(&self) -> (Policy, Option<Policy>);

    /// As [`guira_contract::Control::change_policy`].
    ///
    /// # Errors
    /// If another policy is taking over, or there is no memory for the notes of this one.
    fn switch_to(&self, policy: Policy) -> Result<(), PolicyError>;
}

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec().fmt(formatter)
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy::Clock(ReadBits::default())
    }
}

fn touch<O: Order>(variant: u8, chunks: &impl Chunks, chunk: Chunk, now: Moment) -> bool {
    match O::READS {
        Reads::Bit => false,
        Reads::Touch => {
            O::touch(variant, chunks, chunk, now);
            false
        }
        Reads::Queue => O::is_due(chunks, chunk, now),
    }
}

/// What a read does for a policy beyond the recency bit, as a number that is loaded and stored at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadHook(u32);

impl ReadHook {
    pub(crate) const NOTHING: ReadHook = ReadHook(0);

    fn of<O: Order>(order: &O, number: Number) -> Self {
        if O::READS == Reads::Bit {
            return Self::NOTHING;
        }
        ReadHook((number as u32 + 1) << 8 | u32::from(order.variant()))
    }

    pub(crate) fn to_bits(self) -> u32 {
        self.0
    }

    /// The hook that [`ReadHook::to_bits`] was called on.
    pub(crate) fn from_bits(bits: u32) -> Self {
        ReadHook(bits)
    }

    fn number(self) -> Option<u8> {
        (self.0 >> 8).checked_sub(1).map(|number| number as u8)
    }

    fn variant(self) -> u8 {
        self.0 as u8
    }
}

impl PolicyState {
    pub(crate) fn notes(&self) -> Notes {
        with_order!(self, order => order.notes())
    }

    /// See [`Order::GOES_BY_HAND`].
    pub(crate) fn goes_by_hand(&self) -> bool {
        fn of<O: Order>(_order: &O) -> bool {
            O::GOES_BY_HAND
        }
        with_order!(self, order => of(order))
    }

    /// See [`Order::CLEARS_BITS`].
    pub(crate) fn clears_bits(&self) -> bool {
        fn of<O: Order>(_order: &O) -> bool {
            O::CLEARS_BITS
        }
        with_order!(self, order => of(order))
    }

    /// See [`Order::IS_SEQUENCE`].
    pub(crate) fn is_sequence(&self) -> bool {
        fn of<O: Order>(_order: &O) -> bool {
            O::IS_SEQUENCE
        }
        with_order!(self, order => of(order))
    }

    /// See [`Order::HEEDS_EVERY_READ`].
    pub(crate) fn heeds_every_read(&self) -> bool {
        fn of<O: Order>(_order: &O) -> bool {
            O::HEEDS_EVERY_READ
        }
        with_order!(self, order => of(order))
    }

    pub(crate) fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, arrival: Arrival, now: Moment) {
        with_order!(self, order => order.stored(chunks, chunk, arrival, now));
    }

    pub(crate) fn adopted(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        with_order!(self, order => order.adopted(chunks, chunk, now));
    }

    pub(crate) fn put_back(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        with_order!(self, order => order.put_back(chunks, chunk, now));
    }

    pub(crate) fn was_read(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        with_order!(self, order => order.was_read(chunks, chunk, now));
    }

    pub(crate) fn has(&self, chunks: &impl Chunks, chunk: Chunk) -> bool {
        with_order!(self, order => order.has(chunks, chunk))
    }

    pub(crate) fn removed(&mut self, chunks: &impl Chunks, chunk: Chunk) {
        with_order!(self, order => order.removed(chunks, chunk));
    }

    pub(crate) fn reclaim(&mut self, chunks: &impl Chunks, now: Moment, take: impl FnMut(Chunk)) {
        with_order!(self, order => order.reclaim(chunks, now, take));
    }

    pub(crate) fn victims(
        &mut self,
        chunks: &impl Chunks,
        want: usize,
        now: Moment,
        take: impl FnMut(Chunk),
    ) {
        with_order!(self, order => order.victims(chunks, want, now, take));
    }

    pub(crate) fn next(&self, chunks: &impl Chunks) -> Option<Chunk> {
        with_order!(self, order => order.next(chunks))
    }

    pub(crate) fn since(&self, chunks: &impl Chunks, chunk: Chunk) -> u32 {
        with_order!(self, order => order.since(chunks, chunk))
    }

    pub(crate) fn newest(&self, chunks: &impl Chunks, among: &[Chunk], lately: Lately) -> Vec<(u32, Chunk)> {
        with_order!(self, order => order.newest(chunks, among, lately))
    }

    pub(crate) fn bytes(&self) -> usize {
        with_order!(self, order => order.bytes())
    }
}
