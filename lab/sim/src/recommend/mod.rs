//! One answer for whoever has to order a server: which policy and how much memory, what that misses, and what more or less of it
//! would change.
//!
//! ```text
//!  sizes, each 1/√2 of the one before, × policies of the engine ──► the size from which on no doubling is worth it
//!                                                                    └► auto beside the best, half, twice ──► Answer
//! ```
//!
//! Sizes are the memory of a server, of which it has a part for items: who asks knows how it divides its memory ([`Server`]).

mod answer;
#[cfg(test)]
mod tests;

use guira_advice::CANDIDATES;
use guira_contract::OptionError;
use guira_roster::AUTO;
use guira_slab::Policy;

use crate::jobs;
use crate::registry::{Choice, Setup};
use crate::report::{PARTS, standard_error};
use crate::run::{Measure, Rules, weight};
use crate::size::Size;
use crate::stream::Stream;

pub use answer::{Amount, Answer, At, Report, Tried, Why};

/// Of a trace with more keys a sample of so many is simulated, unless something else is asked for.
pub const SAMPLE_KEYS: u32 = 32_000;

/// A doubling of memory is worth it if it saves this share of the misses …
const WORTH: f64 = 0.1;
/// … and this share of the reads.
const READS_WORTH: f64 = 0.001;
/// `auto` is recommended if it misses at most so many times as much as the best fixed policy.
const AUTO_WITHIN: f64 = 1.01;

/// How many sizes are tried at most: from what holds everything down to a 1,024th of it.
const SIZES_MAX: i32 = 21;
/// So many are tried before it is asked whether less could be enough.
const AT_ONCE: usize = 4;
/// So many objects of the sample fit into the smallest one.
const OBJECTS_LEAST: f64 = 100.0;

/// Items take up to so many times their bytes in chunks of the next size.
const CHUNKS: f64 = 1.06;
/// An item that expires has this more.
const EXPIRY_BYTES: u32 = 4;
/// Memory is given in MiB.
const MIB: u64 = 1 << 20;

/// How a server divides its memory, in bytes.
#[derive(Clone, Copy)]
pub struct Server<'a> {
    /// The least that is the ceiling of all that it takes.
    pub least: u64,
    /// What it has for items and index, of so much memory.
    pub items: &'a (dyn Fn(u64) -> u64 + Sync),
    /// The memory of which it has so much for items and index.
    pub memory: &'a (dyn Fn(u64) -> u64 + Sync),
}

#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub stream: &'a Stream,
    /// How they are driven. In bytes, the answer is a server's memory.
    pub rules: Rules,
    /// The size that there is, if it is not the question.
    pub given: Option<Size>,
    pub server: Server<'a>,
    pub threads: usize,
    /// Who hears how many more requests were simulated.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

impl std::fmt::Debug for Server<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Server").field("least", &self.least).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Question<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Question").field("given", &self.given).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// There are no misses to judge by.
    #[error("no request reads: policies and sizes are judged by misses, and there are none")]
    NoReads,
    /// No size makes a difference.
    #[error("nothing is ever stored: every read is of a key that is never there")]
    NothingStored,
    /// A server takes more for itself.
    #[error("{given} is less memory than a server takes without items: recommended is {least} or more")]
    TooLittle { given: Size, least: Size },
    #[error(transparent)]
    Policy(#[from] OptionError),
}

#[derive(Clone, Copy)]
struct Trial<'a> {
    policy: &'a Choice,
    /// Bytes that the policy notes of an item.
    notes: u32,
    size: u64,
}

/// The best policy at a size.
struct Best {
    size: u64,
    policy: usize,
    miss_ratio: f64,
}

/// Every fixed policy that is tried: all of the engine, and the others that `auto` chooses among.
///
/// Where requests tell no time, it would be a guess what `lazy-lru` does.
fn fixed_policies(stream: &Stream) -> Result<Vec<Choice>, OptionError> {
    let usual: Vec<Policy> = Policy::all().map(|(policy, _)| policy).collect();
    let others = CANDIDATES.iter().filter(|policy| !usual.contains(policy)).map(Policy::to_string);
    let all = usual.iter().map(|policy| policy.name().to_owned());
    let names = all.filter(|name| stream.has_times() || name != "lazy-lru").chain(others);
    names.map(|name| Choice::parse(&name)).collect()
}

/// Simulates what it takes, and answers.
///
/// # Errors
/// If requests, or the size that is given, make no sense.
pub fn recommend(question: &Question<'_>) -> Result<Answer, NoAnswer> {
    let unavoidable = question.unavoidable()?;
    let fixed = fixed_policies(question.stream)?;
    let sizes = question.sizes()?;
    let best = question.best(&fixed, &sizes)?;
    let (index, why) = match question.given {
        Some(_) => (usize::from(sizes.len() > 1), Why::Given),
        None => question.found(&best),
    };
    let auto = Choice::parse(AUTO)?;
    let chosen = &best[index];
    let policy = &fixed[chosen.policy];
    // auto comes to have the notes of the best one.
    let trial = |policy, size| Trial { policy, notes: fixed[chosen.policy].notes(), size };
    let auto_miss_ratio = question.miss_ratio(question.stream, trial(&auto, chosen.size))?;
    let recommended = if auto_miss_ratio <= AUTO_WITHIN * chosen.miss_ratio { &auto } else { policy };
    let at = |size: u64| -> Result<At, NoAnswer> {
        let miss_ratio = question.miss_ratio(question.stream, trial(recommended, size))?;
        Ok(At { amount: question.amount(size), miss_ratio })
    };
    Ok(Answer {
        policy: recommended.name(),
        at: at(chosen.size)?,
        uncertainty: question.uncertainty(trial(recommended, chosen.size))?,
        unavoidable,
        twice: at(2 * chosen.size)?,
        half: question.half(chosen.size).map(at).transpose()?,
        best_fixed: policy.name(),
        best_fixed_miss_ratio: chosen.miss_ratio,
        auto_miss_ratio,
        holds_all: question.amount(question.whole()),
        why,
        sizes: best.iter().map(|best| question.tried(best, &fixed)).collect(),
    })
}

/// Whether a doubling is worth it that turns one miss ratio into another.
fn is_worth(miss_ratio: f64, doubled: f64) -> bool {
    let saved = miss_ratio - doubled;
    saved >= READS_WORTH && saved >= WORTH * miss_ratio
}

/// The same for one of several sizes, of which every second one is half as large. Nothing is saved beyond the largest.
fn is_doubling_worth_it(best: &[Best], index: usize) -> bool {
    is_worth(best[index].miss_ratio, best[index.saturating_sub(2)].miss_ratio)
}

impl Question<'_> {
    /// How many requests will be simulated for the answer at most, about.
    #[must_use]
    pub fn requests(&self) -> u64 {
        let sizes = self.sizes().map_or(0, |sizes| sizes.len());
        let policies = fixed_policies(self.stream).map_or(0, |fixed| fixed.len());
        // And one without evictions, auto, and the recommended one at three sizes.
        ((sizes * policies + 5) * self.stream.len()) as u64
    }

    fn is_in_bytes(&self) -> bool {
        self.rules.measure != Measure::Objects
    }

    fn amount(&self, size: u64) -> Amount {
        if self.is_in_bytes() { Amount::Memory(size) } else { Amount::Objects(size) }
    }

    fn tried(&self, best: &Best, fixed: &[Choice]) -> Tried {
        let at = At { amount: self.amount(best.size), miss_ratio: best.miss_ratio };
        Tried { at, policy: fixed[best.policy].name() }
    }

    /// The share of reads that miss even if nothing is ever evicted.
    fn unavoidable(&self) -> Result<f64, NoAnswer> {
        let endless = Choice::parse("fifo")?;
        let counters = endless.run(&self.setup(self.stream, u64::MAX >> 1, 0))?;
        if counters.reads == 0 {
            return Err(NoAnswer::NoReads);
        }
        if self.stream.keys() == 0 {
            return Err(NoAnswer::NothingStored);
        }
        Ok(1.0 - counters.hit_ratio_of(self.stream.reads_expected()))
    }

    fn setup<'a>(&'a self, stream: &'a Stream, limit: u64, notes: u32) -> Setup<'a> {
        let more = notes + if stream.has_expiries() { EXPIRY_BYTES } else { 0 };
        let measure = match self.rules.measure {
            Measure::Objects => Measure::Objects,
            Measure::Bytes { size, overhead } => Measure::Bytes { size, overhead: overhead + more },
        };
        Setup { limit, stream, rules: Rules { measure, ..self.rules }, progress: self.progress }
    }

    /// The room for items, of all keys, in memory or a number of objects.
    fn room(&self, size: u64) -> f64 {
        if self.is_in_bytes() { (self.server.items)(size) as f64 / CHUNKS } else { size as f64 }
    }

    /// The size that holds everything: each key's largest item.
    fn whole(&self) -> u64 {
        let most_notes = Policy::all().map(|(policy, _)| policy.item_bytes()).max().unwrap_or(0);
        let rules = self.setup(self.stream, 0, most_notes).rules;
        let mut largest = vec![0; self.stream.keys()];
        for (number, &id) in self.stream.ids().iter().enumerate() {
            if let Some(known) = largest.get_mut(id as usize) {
                *known = weight(self.stream, rules.measure, number).max(*known);
            }
        }
        let sum: u64 = largest.into_iter().map(u64::from).sum();
        let all = sum as f64 / self.stream.rate();
        if self.is_in_bytes() { (self.server.memory)((all * CHUNKS) as u64) } else { all.ceil() as u64 }
    }

    /// The smallest size that is tried.
    fn least(&self) -> u64 {
        if self.is_in_bytes() { self.server.least } else { 1 }
    }

    /// Sizes from the largest to the smallest; around the one that is given, if one is.
    fn sizes(&self) -> Result<Vec<u64>, NoAnswer> {
        if let Some(given) = self.given {
            let size = match given {
                Size::Bytes(bytes) if bytes < self.server.least => {
                    return Err(NoAnswer::TooLittle { given, least: Size::Bytes(self.server.least) });
                }
                Size::Objects(size) | Size::Bytes(size) => size,
                Size::Percent(percent) => {
                    let keys = self.stream.keys() as f64 / self.stream.rate();
                    ((keys * percent / 100.0) as u64).max(1)
                }
            };
            return Ok(vec![2 * size, size]);
        }
        let whole = self.whole().max(self.least());
        let objects_sampled = |size: u64| {
            let mean = self.room(whole) / (self.stream.keys() as f64 / self.stream.rate());
            self.room(size) * self.stream.rate() / mean.max(1.0)
        };
        let size = |step: i32| {
            let size = whole as f64 / 2f64.powf(f64::from(step) / 2.0);
            if self.is_in_bytes() { (size as u64).next_multiple_of(MIB) } else { size as u64 }
        };
        let tried = (1..SIZES_MAX).map(size);
        let tried = tried.take_while(|&size| size >= self.least() && objects_sampled(size) >= OBJECTS_LEAST);
        Ok(std::iter::once(whole).chain(tried).collect())
    }

    /// Half of a size, if there are servers with so little.
    fn half(&self, size: u64) -> Option<u64> {
        let half = if self.is_in_bytes() { (size / 2).next_multiple_of(MIB) } else { size / 2 };
        (half >= self.least()).then_some(half)
    }

    /// The best fixed policy at each size, from the largest to the one of which a doubling is worth it.
    fn best(&self, fixed: &[Choice], sizes: &[u64]) -> Result<Vec<Best>, NoAnswer> {
        let mut best = Vec::with_capacity(sizes.len());
        for some in sizes.chunks(AT_ONCE) {
            best.extend(self.best_of(fixed, some)?);
            if (0..best.len()).any(|index| is_doubling_worth_it(&best, index)) {
                break;
            }
        }
        Ok(best)
    }

    fn best_of(&self, fixed: &[Choice], sizes: &[u64]) -> Result<Vec<Best>, NoAnswer> {
        let trials = sizes
            .iter()
            .flat_map(|&size| fixed.iter().map(move |policy| Trial { policy, notes: policy.notes(), size }));
        let ratios = jobs::each(trials.collect(), self.threads, |trial| self.miss_ratio(self.stream, trial));
        let ratios: Vec<f64> = ratios.into_iter().collect::<Result<_, _>>()?;
        let of_size = |(&size, ratios): (&u64, &[f64])| {
            // Of equal ones the first.
            let best = ratios.iter().copied().enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
            best.map(|(policy, miss_ratio)| Best { size, policy, miss_ratio })
        };
        Ok(sizes.iter().zip(ratios.chunks(fixed.len())).filter_map(of_size).collect())
    }

    /// The size from which on no doubling is worth it, by its place among `best`.
    fn found(&self, best: &[Best]) -> (usize, Why) {
        let too_much = (0..best.len()).take_while(|&index| !is_doubling_worth_it(best, index));
        let index = too_much.last().unwrap_or(0);
        let why = if index + 1 < best.len() {
            Why::Found
        } else if self.half(best[index].size).is_none() {
            Why::Least
        } else {
            Why::SmallestTried
        };
        (index, why)
    }

    fn miss_ratio(&self, stream: &Stream, trial: Trial<'_>) -> Result<f64, OptionError> {
        let limit = ((self.room(trial.size) * stream.rate()) as u64).max(1);
        let counters = trial.policy.run(&self.setup(stream, limit, trial.notes))?;
        Ok(1.0 - counters.hit_ratio_of(stream.reads_expected()))
    }

    /// The standard error of a trial's miss ratio, if it is that of a sample.
    fn uncertainty(&self, trial: Trial<'_>) -> Result<Option<f64>, OptionError> {
        if self.stream.rate() >= 1.0 {
            return Ok(None);
        }
        let part = |index| self.miss_ratio(&self.stream.part(index, PARTS), trial);
        let ratios = jobs::each((0..PARTS).collect(), self.threads, part);
        let ratios: Vec<f64> = ratios.into_iter().collect::<Result<_, _>>()?;
        Ok(standard_error(&ratios))
    }
}
