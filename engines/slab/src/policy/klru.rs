//! KLRU: the victim is the one of K items drawn at random whose priority is the lowest, so that there is no list, and a read only stamps
//! the item (*Memcached with KLRU*, section 3, Algorithm 1; as Redis does it). Drawn items that are dead go at once (section 3.2).
//!
//! The priority is an option: when the item was used last, how often, or how often for the time that it is there
//! ([`Priority`]). With one item drawn the policy is random replacement, with 16, the default, nearly LRU, with 32 more so.
//!
//! Notes: one word for [`Priority::Recency`], two for the others. Beside the notes one bit a chunk, which tells what is in the order.

use super::bits::Bits;
use super::{Arrival, Chunk, Chunks, Lately, Moment, Notes, Order, PolicyOptions, Reads};
use guira_contract::{OptionError, Spec};

/// The most items that are drawn for one victim.
pub const SAMPLES_MAX: u32 = 32;

/// Which of the drawn items goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// What was used last the longest ago.
    #[default]
    Recency,
    /// What was used the least often, and of those what was used last the longest ago. Nothing grows old: what was
    /// popular once stays for long.
    Frequency,
    /// What was used the least often for the time that it is there: hyperbolic caching (Blankstein, Sen and Freedman,
    /// USENIX ATC 2017, section 2.1).
    Hyperbolic,
}

/// How many items are drawn, and which of them goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KlruOptions {
    /// Items drawn for each victim: 1 to [`SAMPLES_MAX`].
    pub samples: u32,
    pub priority: Priority,
}

impl Default for KlruOptions {
    fn default() -> Self {
        KlruOptions { samples: 16, priority: Priority::default() }
    }
}

impl PolicyOptions for KlruOptions {
    type Order = Klru;
    const NAME: &'static str = "klru";
    const ABOUT: &'static str =
        "evicts the lowest of samples=NUMBER, 16, by priority=recency, frequency or hyperbolic";
    const KEYS: &'static [&'static str] = &["samples", "priority"];

    fn read(spec: &Spec) -> Result<Self, OptionError> {
        let samples = spec.number("samples", 1..=u64::from(SAMPLES_MAX))?;
        let priority = match spec.value("priority") {
            None => Priority::default(),
            Some(name) => Priority::ALL
                .into_iter()
                .find(|priority| priority.name() == name)
                .ok_or_else(|| spec.not("priority", name, "recency, frequency or hyperbolic"))?,
        };
        let samples = samples.map_or(Self::default().samples, |count| count as u32);
        Ok(KlruOptions { samples, priority })
    }

    fn write(self) -> Vec<(&'static str, String)> {
        vec![("samples", self.samples.to_string()), ("priority", self.priority.name().to_owned())]
    }

    fn order(self, seed: u64) -> Klru {
        Klru::new(self, seed)
    }

    fn tune(self, order: &mut Klru) -> bool {
        let is_same = order.priority == self.priority;
        if is_same {
            order.tune(self.samples);
        }
        is_same
    }
}

/// The tick of the last use, or of the store.
const STAMP: usize = 0;
/// Uses, of which the store is one.
const USES: usize = 1;

impl Priority {
    const ALL: [Priority; 3] = [Priority::Recency, Priority::Frequency, Priority::Hyperbolic];

    fn name(self) -> &'static str {
        match self {
            Priority::Recency => "recency",
            Priority::Frequency => "frequency",
            Priority::Hyperbolic => "hyperbolic",
        }
    }

    fn stored(self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        stamp(chunks, chunk, now);
        if self != Priority::Recency {
            chunks.set_note(chunk, USES, 1);
        }
    }

    #[inline]
    fn read(self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        // With Hyperbolic the stamp remains that of the store.
        if self != Priority::Hyperbolic {
            stamp(chunks, chunk, now);
        }
        if self != Priority::Recency {
            chunks.set_note(chunk, USES, chunks.note(chunk, USES).saturating_add(1));
        }
    }

    #[inline]
    fn worth(self, chunks: &impl Chunks, chunk: Chunk, now: Moment) -> u64 {
        let since = now.ticks_since(chunks.note(chunk, STAMP));
        let uses = || u64::from(chunks.note(chunk, USES)) << 32;
        match self {
            Priority::Recency => u64::from(u32::MAX - since),
            Priority::Frequency => uses() | u64::from(u32::MAX - since),
            Priority::Hyperbolic => uses() / (1 + u64::from(since)),
        }
    }

    /// How many ticks it has been left alone. With [`Priority::Hyperbolic`] that is the mean time between two uses:
    /// when the last one was is not noted.
    fn idle(self, chunks: &impl Chunks, chunk: Chunk, now: Moment) -> u32 {
        let since = now.ticks_since(chunks.note(chunk, STAMP));
        match self {
            Priority::Recency | Priority::Frequency => since,
            Priority::Hyperbolic => since / chunks.note(chunk, USES).max(1),
        }
    }
}

fn stamp(chunks: &impl Chunks, chunk: Chunk, now: Moment) {
    // Most reads of a popular item are of the same tick, and write nothing.
    if chunks.note(chunk, STAMP) != now.tick {
        chunks.set_note(chunk, STAMP, now.tick);
    }
}

/// Random numbers: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
#[derive(Clone, Copy, Debug)]
struct Random {
    state: u64,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Evicts the lowest of some items drawn at random.
#[derive(Clone, Debug)]
pub struct Klru {
    samples: u32,
    priority: Priority,
    random: Random,
    members: Bits,
    newest: Newest,
    /// The last moment that was heard of.
    latest: Moment,
}

/// What was stored last. A class of few items, as of long values, spares these: some clients have each stored one and not
/// read it yet, and by its uses it would be the first to go.
#[derive(Clone, Debug)]
struct Newest {
    ring: [Chunk; NEWEST],
    next: usize,
}

/// So many are spared, and no more than a quarter of the class.
const NEWEST: usize = 8;
/// A class of this many items, and more, is not one of few.
const FEW: usize = 64;

impl Newest {
    fn push(&mut self, chunk: Chunk) {
        self.ring[self.next] = chunk;
        self.next = (self.next + 1) % NEWEST;
    }

    /// How many items were stored since `chunk` was, if it is one of the last.
    fn since(&self, chunk: Chunk) -> Option<usize> {
        (0..NEWEST).find(|since| self.ring[(self.next + NEWEST - 1 - since) % NEWEST] == chunk)
    }
}

/// What was drawn for one victim.
#[derive(Clone, Copy)]
struct Drawn {
    chunks: [Chunk; SAMPLES_MAX as usize],
    count: usize,
    /// A random number, for the case that most of them are nothing.
    spare: u64,
}

impl Klru {
    /// An empty order. Which items it draws follows from `seed`.
    pub fn new(options: KlruOptions, seed: u64) -> Self {
        let samples = options.samples.clamp(1, SAMPLES_MAX);
        Klru {
            samples,
            priority: options.priority,
            random: Random { state: seed },
            members: Bits::default(),
            newest: Newest { ring: [Chunk::MAX; NEWEST], next: 0 },
            latest: Moment::default(),
        }
    }

    /// From now on draws `samples` items.
    pub fn tune(&mut self, samples: u32) {
        self.samples = samples.clamp(1, SAMPLES_MAX);
    }

    /// Draws, and asks for whatever is going to be looked at of what is drawn: one after the other they would keep the processor waiting for
    /// most of the time.
    #[inline]
    fn draw(&self, chunks: &impl Chunks, random: &mut Random) -> Drawn {
        let mut drawn = Drawn { chunks: [0; SAMPLES_MAX as usize], count: 0, spare: 0 };
        for _ in 0..self.samples {
            if let Some(chunk) = chunks.any(random.next()) {
                chunks.prefetch(chunk);
                drawn.chunks[drawn.count] = chunk;
                drawn.count += 1;
            }
        }
        drawn.spare = random.next();
        drawn
    }

    /// Shows what was drawn and is dead to `dead`, until that returns false. Returns the lowest of the others. If most
    /// chunks that were drawn held no item of the order, as in a class of which long values have most chunks, items of
    /// the order are drawn instead.
    fn judge(
        &self,
        chunks: &impl Chunks,
        drawn: &Drawn,
        now: Moment,
        mut dead: impl FnMut(Chunk) -> bool,
    ) -> Option<Chunk> {
        let (mut lowest, mut members) = (Lowest::default(), 0);
        for &chunk in &drawn.chunks[..drawn.count] {
            if !chunks.is_held(chunk) || !self.members.contains(chunk) {
                continue;
            }
            if chunks.is_dead(chunk) {
                if !dead(chunk) {
                    return None;
                }
                continue;
            }
            members += 1;
            lowest.see(self.worth(chunks, chunk, now), chunk);
        }
        if members <= self.samples / 2 {
            let mut random = Random { state: drawn.spare };
            for _ in members..self.samples {
                match self.members.some(random.next()) {
                    Some(chunk) if chunks.is_held(chunk) => {
                        lowest.see(self.worth(chunks, chunk, now), chunk);
                    }
                    _ => {}
                }
            }
        }
        lowest.chunk().or_else(|| self.members.some(drawn.spare))
    }

    /// What an item is worth. Among few items those stored last are worth more than all others, and of two with the same
    /// priority the later one is worth more: many are stored in one tick if they are long.
    #[inline]
    fn worth(&self, chunks: &impl Chunks, chunk: Chunk, now: Moment) -> (bool, u64, usize) {
        let (worth, items) = (self.priority.worth(chunks, chunk, now), self.members.len());
        let since = if items < FEW { self.newest.since(chunk) } else { None };
        (since.is_some_and(|since| since < items / 4), worth, since.map_or(0, |since| NEWEST - since))
    }
}

/// What is worth the least of what was seen.
#[derive(Default)]
struct Lowest(Option<((bool, u64, usize), Chunk)>);

impl Lowest {
    #[inline]
    fn see(&mut self, worth: (bool, u64, usize), chunk: Chunk) {
        if self.0.is_none_or(|(least, _)| worth < least) {
            self.0 = Some((worth, chunk));
        }
    }

    fn chunk(self) -> Option<Chunk> {
        self.0.map(|(_, chunk)| chunk)
    }
}

impl Default for Klru {
    fn default() -> Self {
        Self::new(KlruOptions::default(), 0)
    }
}

impl Order for Klru {
    const READS: Reads = Reads::Touch;
    const IS_SEQUENCE: bool = false;

    fn notes(&self) -> Notes {
        Notes::words(if self.priority == Priority::Recency { 1 } else { 2 })
    }

    fn variant(&self) -> u8 {
        self.priority as u8
    }

    fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, _arrival: Arrival, now: Moment) {
        self.members.insert(chunk);
        self.newest.push(chunk);
        // What is taken over from another order was stored before.
        if now.ticks_since(self.latest.tick) > 0 {
            self.latest = now;
        }
        self.priority.stored(chunks, chunk, now);
    }

    /// Its notes are those of the item, unless the item was never in this order.
    fn put_back(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        if chunks.note(chunk, STAMP) == 0 {
            self.priority.stored(chunks, chunk, now);
        }
        self.members.insert(chunk);
    }

    fn touch(variant: u8, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        let priority = Priority::ALL[usize::from(variant) % Priority::ALL.len()];
        priority.read(chunks, chunk, now);
    }

    fn has(&self, _chunks: &impl Chunks, chunk: Chunk) -> bool {
        self.members.contains(chunk)
    }

    fn removed(&mut self, _chunks: &impl Chunks, chunk: Chunk) {
        self.members.remove(chunk);
    }

    fn victims(&mut self, chunks: &impl Chunks, want: usize, now: Moment, mut take: impl FnMut(Chunk)) {
        self.latest = now;
        let mut random = self.random;
        let mut taken = 0;
        let mut next = self.draw(chunks, &mut random);
        while taken < want && !self.members.is_empty() {
            // What the victim after this one is chosen from is on its way meanwhile.
            self.random = random;
            let drawn = std::mem::replace(&mut next, self.draw(chunks, &mut random));
            // The dead of one draw: the same may be drawn twice, so they leave the order when the draw is over.
            let mut dead = [0; SAMPLES_MAX as usize];
            let mut count = 0;
            let lowest = self.judge(chunks, &drawn, now, |chunk| {
                if !dead[..count].contains(&chunk) {
                    dead[count] = chunk;
                    count += 1;
                }
                taken + count < want
            });
            for chunk in dead[..count].iter().copied().chain(lowest) {
                if taken < want && self.members.remove(chunk) {
                    take(chunk);
                    taken += 1;
                }
            }
        }
    }

    /// Draws what the next victim will be drawn from.
    fn next(&self, chunks: &impl Chunks) -> Option<Chunk> {
        let drawn = self.draw(chunks, &mut self.random.clone());
        self.judge(chunks, &drawn, self.latest, |_| true)
    }

    fn since(&self, chunks: &impl Chunks, chunk: Chunk) -> u32 {
        self.latest.tick.wrapping_sub(self.priority.idle(chunks, chunk, self.latest))
    }

    fn newest(&self, chunks: &impl Chunks, among: &[Chunk], lately: Lately) -> Vec<(u32, Chunk)> {
        let members = among.iter().filter(|chunk| self.members.contains(**chunk));
        let aged = members.map(|&chunk| (self.priority.idle(chunks, chunk, lately.now), chunk));
        aged.filter(|(age, _)| *age < lately.ticks).collect()
    }

    fn bytes(&self) -> usize {
        self.members.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::plain::{self, Plain};

    /// So few chunks that 32 samples draw all of them.
    fn filled(priority: Priority) -> (Plain, Klru) {
        let mut klru = drawing_all(priority);
        let chunks = Plain::new(4, klru.notes());
        (0..4).for_each(|chunk| plain::store(&mut klru, &chunks, chunk, 10 + chunk));
        (chunks, klru)
    }

    fn drawing_all(priority: Priority) -> Klru {
        Klru::new(KlruOptions { samples: SAMPLES_MAX, priority }, 1)
    }

    fn touch(klru: &Klru, chunks: &Plain, chunk: Chunk, ticks: &[u32]) {
        ticks.iter().for_each(|tick| Klru::touch(klru.variant(), chunks, chunk, plain::at(*tick)));
    }

    fn victims_at(klru: &mut Klru, chunks: &Plain, tick: u32) -> Vec<Chunk> {
        let mut all = Vec::new();
        klru.victims(chunks, 9, plain::at(tick), |chunk| {
            chunks.occupied[chunk as usize].set(false);
            all.push(chunk);
        });
        all
    }

    #[test]
    fn by_recency_what_was_used_the_longest_ago_goes() {
        let (chunks, mut klru) = filled(Priority::Recency);
        touch(&klru, &chunks, 0, &[14]);
        touch(&klru, &chunks, 2, &[15]);
        assert_eq!(plain::next_since(&klru, &chunks), Some(11));
        assert_eq!(victims_at(&mut klru, &chunks, 20), [1, 3, 0, 2]);
        assert_eq!(plain::next_since(&klru, &chunks), None);
    }

    #[test]
    fn by_frequency_what_was_used_the_least_often_goes() {
        let (chunks, mut klru) = filled(Priority::Frequency);
        touch(&klru, &chunks, 0, &[14, 15, 16]);
        touch(&klru, &chunks, 1, &[14]);
        touch(&klru, &chunks, 2, &[13]);
        assert_eq!(victims_at(&mut klru, &chunks, 20), [2, 3, 1, 0], "3 is the newest of four");
        plain::store(&mut klru, &chunks, 0, 21);
        assert_eq!(chunks.note(0, USES), 1, "what was counted is of another item");
    }

    #[test]
    fn hyperbolic_it_is_uses_for_the_time_that_an_item_is_there() {
        let (chunks, mut klru) = filled(Priority::Hyperbolic);
        touch(&klru, &chunks, 0, &[14, 15]);
        plain::store(&mut klru, &chunks, 3, 106);
        // At 109: 3 uses in 100 ticks, 1 in 99, 1 in 98, 1 in 4.
        assert_eq!(
            plain::next_since(&klru, &chunks),
            Some(106 - 95),
            "1: the mean time between its uses is 95 ticks"
        );
        assert_eq!(victims_at(&mut klru, &chunks, 109), [1, 2, 0, 3]);
    }

    #[test]
    fn what_is_taken_over_makes_nothing_older() {
        for priority in Priority::ALL {
            let (chunks, mut klru) = filled(priority);
            plain::store(&mut klru, &chunks, 0, 500);
            klru.adopted(&chunks, 1, plain::at(20));
            assert_eq!((klru.since(&chunks, 0), klru.since(&chunks, 1)), (500, 20), "{priority:?}");
        }
    }

    #[test]
    fn what_is_put_back_is_as_old_as_before() {
        let (chunks, mut klru) = filled(Priority::Recency);
        assert_eq!(plain::victims(&mut klru, &chunks, 1), [0]);
        chunks.occupied[0].set(true);
        klru.put_back(&chunks, 0, plain::at(20));
        assert_eq!(victims_at(&mut klru, &chunks, 20), [0, 1, 2, 3]);
    }

    #[test]
    fn among_few_items_in_many_chunks_one_of_the_oldest_goes() {
        for seed in 0..50 {
            let mut klru = Klru::new(KlruOptions { samples: 16, priority: Priority::Recency }, seed);
            let chunks = Plain::new(4096, Notes::words(1));
            (0..8).for_each(|number| plain::store(&mut klru, &chunks, 512 * number, 10 + number));
            let victims = plain::victims(&mut klru, &chunks, 1);
            assert!(victims[0] < 4 * 512, "seed {seed}: {victims:?}");
        }
    }

    #[test]
    fn ticks_may_wrap() {
        let (chunks, mut klru) = (Plain::new(3, Notes::words(1)), drawing_all(Priority::Recency));
        (0..3).for_each(|chunk| plain::store(&mut klru, &chunks, chunk, (u32::MAX - 1).wrapping_add(chunk)));
        assert_eq!(victims_at(&mut klru, &chunks, 5), [0, 1, 2]);
    }

    #[test]
    fn the_dead_go_first_and_each_once() {
        let (chunks, mut klru) = filled(Priority::Recency);
        [2, 3].iter().for_each(|chunk: &usize| chunks.dead[*chunk].set(true));
        let mut first = plain::victims(&mut klru, &chunks, 2);
        first.sort_unstable();
        assert_eq!(first, [2, 3]);
        assert_eq!(victims_at(&mut klru, &chunks, 20), [0, 1]);
    }

    #[test]
    fn victims_are_found_where_nearly_nothing_is_there() {
        let (chunks, mut klru) = (Plain::new(100_000, Notes::words(1)), Klru::default());
        [77, 9_000, 99_999].into_iter().for_each(|chunk| plain::store(&mut klru, &chunks, chunk, 1));
        klru.removed(&chunks, 9_000);
        klru.removed(&chunks, 9_000);
        let mut all = plain::victims(&mut klru, &chunks, 9);
        all.sort_unstable();
        assert_eq!(all, [77, 99_999]);
    }

    #[test]
    fn the_more_samples_the_older_are_the_victims() {
        let mean_age = |samples| {
            let (chunks, mut klru) = (Plain::new(1000, Notes::words(1)), Klru::default());
            klru.tune(samples);
            (0..1000).for_each(|chunk| plain::store(&mut klru, &chunks, chunk, chunk));
            let mut sum = 0;
            klru.victims(&chunks, 100, plain::at(1000), |chunk| sum += 1000 - chunk);
            sum / 100
        };
        // Of k drawn of ages evenly spread the oldest is k/(k + 1) of the oldest there is: 500, 941 and 970, and somewhat less, since the
        // oldest hundred go.
        let ages = [1, 16, 32].map(mean_age);
        assert!((430..570).contains(&ages[0]) && ages[1] > 880 && ages[2] > ages[1], "{ages:?}");
    }
}
