//! The advice, and the sizes and the window that it is about.

use crate::pool::PoolAdvice;
use guira_slab::Policy;

/// The simulated sizes, as multiples of the present memory.
pub const SCALES: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// Of these, the one that there is.
pub(crate) const PRESENT: usize = 1;

/// A window, in seconds. Advice is of the last complete window and of the present one so far.
pub const WINDOW: u32 = 3600;

/// What more memory, less of it, or another policy would be worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    pub sample: SampleSize,
    /// How long was counted, in seconds.
    pub seconds: u32,
    /// Reads in that time, of all keys.
    pub reads: u64,
    /// Of these, how many were sampled.
    pub sampled_reads: u64,
    /// The hit ratio that the server had in that time.
    pub measured: Option<f64>,
    /// The standard error of the served policy's hit ratios, by size.
    pub uncertainty: [Option<f64>; SCALES.len()],
    pub policies: Vec<OfPolicy>,
    /// What was asked for in the last whole hour, or until now in the first.
    pub working_set: WorkingSet,
    /// And in the last whole day, and the last whole week.
    pub long_sets: [LongSet; 2],
    /// Each family of keys that was read, or asked for within these.
    pub families: Vec<Family>,
}

/// The size of the present sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleSize {
    /// The share of all keys.
    pub rate: f64,
    /// Sampled keys that any miniature holds.
    pub keys: u64,
    /// Of these, the number that the miniature of the served policy and size holds. With fewer than some hundred, the
    /// estimates are not reliable.
    pub objects: u64,
    /// Bytes of memory of the sample.
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OfPolicy {
    pub policy: Policy,
    /// Whether it is the one that the server has.
    pub is_served: bool,
    /// The hit ratio at each of [`SCALES`] times the memory.
    pub hit_ratios: [Option<f64>; SCALES.len()],
}

/// What was asked for within an hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkingSet {
    pub keys: u64,
    /// What their items take of memory, in bytes, as far as they were there.
    pub bytes: u64,
    /// The share of the keys that was not asked for in the hour before. `None` if nothing is known of that.
    pub churn: Option<f64>,
}

/// What was asked for within a day, or a week.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongSet {
    /// `day` or `week`.
    pub name: &'static str,
    /// How long it is: shorter than that in the first.
    pub seconds: u32,
    pub keys: u64,
    /// What their items take of memory, in bytes: each with the smallest that it had, on average, and with the largest.
    pub bytes: [u64; 3],
    /// The share of the keys that was not asked for in the day, or week, before. `None` if nothing is known of that.
    pub churn: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The prefix; none for all keys that have none of their own.
    pub prefix: Box<[u8]>,
    pub share: f64,
    /// Its hit ratio with the served policy at each of [`SCALES`] times the memory.
    pub hit_ratios: [Option<f64>; SCALES.len()],
    /// What was asked for of it.
    pub working_set: WorkingSet,
    /// And in the last whole day, and the last whole week.
    pub long_sets: [LongSet; 2],
    /// Whether it deserves a pool of its own.
    pub pool: PoolAdvice,
}
