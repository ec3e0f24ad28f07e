//! KLRU: the victim is the one of K items drawn at random whose priority is the lowest, so that there is no list, and a read only stamps
//! the item (*Memcached with KLRU*, section 3, Algorithm 1; as Redis does it). Drawn items that are dead go at once (section 3.2).
//!
//! What the priority is, is a type: when the item was used last ([`Recency`]), how often ([`Frequency`]), or how often per time that it
//! is there ([`Hyperbolic`]). With one item drawn the policy is random replacement, with 16, the default, nearly LRU, with 32 more so.
//!
//! Notes: one word for [`Recency`], two for the others. Beside the notes one bit a chunk, which tells what is in the order.

use super::bits::Bits;
use super::{Arrival, Chunk, Chunks, Moment, Order, Reads};
use std::fmt::Debug;
use std::marker::PhantomData;

/// The most items that are drawn for one victim.
pub const SAMPLES_MAX: u32 = 32;

/// How many are drawn if nobody says otherwise.
pub const SAMPLES: u32 = 16;

/// Which of the drawn items goes.
pub trait Priority: Debug + 'static {
    /// Words of notes on each chunk.
    const WORDS: usize;
    /// An item was stored in `chunk`.
    fn stored(chunks: &impl Chunks, chunk: Chunk, now: Moment);
    /// It was read.
    fn read(chunks: &impl Chunks, chunk: Chunk, now: Moment);
    /// What it is worth: the lowest goes.
    fn worth(chunks: &impl Chunks, chunk: Chunk, now: Moment) -> u64;
    /// How many ticks it has been left alone.
    fn idle(chunks: &impl Chunks, chunk: Chunk, now: Moment) -> u32;
}

/// The tick of the last use, or of the store.
const STAMP: usize = 0;
/// Uses, and the store is one.
const USES: usize = 1;

/// What was used last the longest ago goes.
#[derive(Debug)]
pub struct Recency;

/// What was used the least often goes, and of those the one that was used last the longest ago. Nothing grows old: what was popular
/// once stays for long.
#[derive(Debug)]
pub struct Frequency;

/// What was used the least often for the time that it is there goes: hyperbolic caching (Blankstein, Sen and Freedman, USENIX ATC 2017,
/// section 2.1).
#[derive(Debug)]
pub struct Hyperbolic;

/// Counts one more use.
fn count(chunks: &impl Chunks, chunk: Chunk) {
    chunks.set_note(chunk, USES, chunks.note(chunk, USES).saturating_add(1));
}

impl Priority for Recency {
    const WORDS: usize = 1;

    fn stored(chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        Self::read(chunks, chunk, now);
    }

    fn read(chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        // Most reads of a popular item are of the same tick, and write nothing.
        if chunks.note(chunk, STAMP) != now.tick {
            chunks.set_note(chunk, STAMP, now.tick);
        }
    }

    fn worth(chunks: &impl Chunks, chunk: Chunk, now: Moment) -> u64 {
        u64::from(u32::MAX - Self::idle(chunks, chunk, now))
    }

    fn idle(chunks: &impl Chunks, chunk: Chunk, now: Moment) -> u32 {
        now.ticks_since(chunks.note(chunk, STAMP))
    }
}

impl Priority for Frequency {
    const WORDS: usize = 2;

    fn stored(chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        Recency::stored(chunks, chunk, now);
        chunks.set_note(chunk, USES, 1);
    }

    fn read(chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        Recency::read(chunks, chunk, now);
        count(chunks, chunk);
    }

    fn worth(chunks: &impl Chunks, chunk: Chunk, now: Moment) -> u64 {
        u64::from(chunks.note(chunk, USES)) << 32 | Recency::worth(chunks, chunk, now)
    }

    fn idle(chunks: &impl Chunks, chunk: Chunk, now: Moment) -> u32 {
        Recency::idle(chunks, chunk, now)
    }
}

impl Priority for Hyperbolic {
    const WORDS: usize = 2;

    fn stored(chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        Frequency::stored(chunks, chunk, now);
    }

    /// The stamp remains that of the store.
    fn read(chunks: &impl Chunks, chunk: Chunk, _now: Moment) {
        count(chunks, chunk);
    }

    fn worth(chunks: &impl Chunks, chunk: Chunk, now: Moment) -> u64 {
        let there = 1 + u64::from(now.ticks_since(chunks.note(chunk, STAMP)));
        (u64::from(chunks.note(chunk, USES)) << 32) / there
    }

    /// The mean time between two uses: when the last one was is not noted.
    fn idle(chunks: &impl Chunks, chunk: Chunk, now: Moment) -> u32 {
        now.ticks_since(chunks.note(chunk, STAMP)) / chunks.note(chunk, USES).max(1)
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

/// The lowest of so many.
#[derive(Clone, Debug)]
pub struct Klru<P> {
    samples: u32,
    random: Random,
    members: Bits,
    /// The last moment that was heard of.
    latest: Moment,
    priority: PhantomData<P>,
}

/// What was drawn for one victim.
#[derive(Clone, Copy)]
struct Drawn {
    chunks: [Chunk; SAMPLES_MAX as usize],
    count: usize,
    /// A random number, should all of them be nothing.
    spare: u64,
}

impl<P: Priority> Klru<P> {
    /// Draws `samples` items for each victim, at least one and at most [`SAMPLES_MAX`]; which ones follows from `seed`.
    pub fn new(samples: u32, seed: u64) -> Self {
        let samples = samples.clamp(1, SAMPLES_MAX);
        let (members, latest) = (Bits::default(), Moment::default());
        Klru { samples, random: Random { state: seed }, members, latest, priority: PhantomData }
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

    /// Shows what was drawn and is dead to `dead`, until that returns false. Returns the lowest of the others, or just any item
    /// if all that was drawn was nothing.
    fn judge(
        &self,
        chunks: &impl Chunks,
        drawn: &Drawn,
        now: Moment,
        mut dead: impl FnMut(Chunk) -> bool,
    ) -> Option<Chunk> {
        let mut lowest: Option<(u64, Chunk)> = None;
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
            let worth = P::worth(chunks, chunk, now);
            if lowest.is_none_or(|(least, _)| worth < least) {
                lowest = Some((worth, chunk));
            }
        }
        lowest.map(|(_, chunk)| chunk).or_else(|| self.members.some(drawn.spare))
    }
}

impl<P: Priority> Default for Klru<P> {
    fn default() -> Self {
        Self::new(SAMPLES, 0)
    }
}

impl<P: Priority> Order for Klru<P> {
    const WORDS: usize = P::WORDS;
    const READS: Reads = Reads::Touch;

    fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, _arrival: Arrival, now: Moment) {
        self.members.insert(chunk);
        self.latest = now;
        P::stored(chunks, chunk, now);
    }

    fn touch(chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        P::read(chunks, chunk, now);
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
    fn next(&self, chunks: &impl Chunks) -> Option<(Chunk, u32)> {
        let drawn = self.draw(chunks, &mut self.random.clone());
        let chunk = self.judge(chunks, &drawn, self.latest, |_| true)?;
        Some((chunk, self.latest.tick.wrapping_sub(P::idle(chunks, chunk, self.latest))))
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
    fn filled<P: Priority>() -> (Plain, Klru<P>) {
        let (chunks, mut klru) = (Plain::new(4, P::WORDS), Klru::new(SAMPLES_MAX, 1));
        (0..4).for_each(|chunk| plain::store(&mut klru, &chunks, chunk, 10 + chunk));
        (chunks, klru)
    }

    fn touch<P: Priority>(chunks: &Plain, chunk: Chunk, ticks: &[u32]) {
        ticks.iter().for_each(|tick| Klru::<P>::touch(chunks, chunk, plain::at(*tick)));
    }

    fn victims_at<P: Priority>(klru: &mut Klru<P>, chunks: &Plain, tick: u32) -> Vec<Chunk> {
        let mut all = Vec::new();
        klru.victims(chunks, 9, plain::at(tick), |chunk| {
            chunks.occupied[chunk as usize].set(false);
            all.push(chunk);
        });
        all
    }

    #[test]
    fn by_recency_what_was_used_the_longest_ago_goes() {
        let (chunks, mut klru) = filled::<Recency>();
        touch::<Recency>(&chunks, 0, &[14]);
        touch::<Recency>(&chunks, 2, &[15]);
        assert_eq!(klru.next(&chunks).map(|next| next.1), Some(11));
        assert_eq!(victims_at(&mut klru, &chunks, 20), [1, 3, 0, 2]);
        assert_eq!(klru.next(&chunks).map(|next| next.1), None);
    }

    #[test]
    fn by_frequency_what_was_used_the_least_often_goes() {
        let (chunks, mut klru) = filled::<Frequency>();
        touch::<Frequency>(&chunks, 0, &[14, 15, 16]);
        touch::<Frequency>(&chunks, 1, &[14]);
        touch::<Frequency>(&chunks, 2, &[13]);
        assert_eq!(victims_at(&mut klru, &chunks, 20), [3, 2, 1, 0]);
        plain::store(&mut klru, &chunks, 0, 21);
        assert_eq!(chunks.note(0, USES), 1, "what was counted is of another item");
    }

    #[test]
    fn hyperbolic_it_is_uses_for_the_time_that_an_item_is_there() {
        let (chunks, mut klru) = filled::<Hyperbolic>();
        touch::<Hyperbolic>(&chunks, 0, &[14, 15]);
        plain::store(&mut klru, &chunks, 3, 106);
        // At 109: 3 uses in 100 ticks, 1 in 99, 1 in 98, 1 in 4.
        assert_eq!(
            klru.next(&chunks).map(|next| next.1),
            Some(106 - 95),
            "1: the mean time between its uses is 95 ticks"
        );
        assert_eq!(victims_at(&mut klru, &chunks, 109), [1, 2, 0, 3]);
    }

    #[test]
    fn ticks_may_wrap() {
        let (chunks, mut klru) = (Plain::new(3, 1), Klru::<Recency>::new(SAMPLES_MAX, 1));
        (0..3).for_each(|chunk| plain::store(&mut klru, &chunks, chunk, (u32::MAX - 1).wrapping_add(chunk)));
        assert_eq!(victims_at(&mut klru, &chunks, 5), [0, 1, 2]);
    }

    #[test]
    fn the_dead_go_first_and_each_once() {
        let (chunks, mut klru) = filled::<Recency>();
        [2, 3].iter().for_each(|chunk: &usize| chunks.dead[*chunk].set(true));
        let mut first = plain::victims(&mut klru, &chunks, 2);
        first.sort_unstable();
        assert_eq!(first, [2, 3]);
        assert_eq!(victims_at(&mut klru, &chunks, 20), [0, 1]);
    }

    #[test]
    fn victims_are_found_where_nearly_nothing_is_there() {
        let (chunks, mut klru) = (Plain::new(100_000, 1), Klru::<Recency>::default());
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
            let (chunks, mut klru) = (Plain::new(1000, 1), Klru::<Recency>::default());
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
