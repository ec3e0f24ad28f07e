//! I9, I12, I13, I18, I19, I20 and I21: what can be computed, and models of what cannot be measured here.

use guira_client::mica::{ClientOptions, PipelinedClient, Request, Ticket};
use guira_harness::process::thread_cpu_s;
use guira_protocol::mica::{Directory, HashFunction, Operation, PartitionAccess};
use guira_transport::{ClientPath, PAYLOAD_MAX};
use guira_workload::rng::{Rng, mix64};
use std::io;
use std::time::Duration;

use super::{Data, KEY_MAX, SKEWED, TINY};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::figure::Figure;
use crate::outcome::{Outcome, answer, percent, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mica-model",
    claims: &["I9", "I12", "I13", "I18", "I19", "I20", "I21"],
    about: "What follows from the design: skew over partitions, spare buckets, offsets that wrap, the client's share of the work",
    run,
};

/// The paper's number of tiny items.
const PAPER_KEYS: u64 = 192 << 20;
/// Ranks whose weights are summed one by one; those behind them are spread evenly by any hash.
const HEAD: u64 = 1 << 20;

/// The sum of `1 / rank^alpha` for ranks up to `count`.
fn harmonic(count: u64, alpha: f64) -> f64 {
    let head: f64 = (1..=count.min(HEAD)).map(|rank| (rank as f64).powf(-alpha)).sum();
    if count <= HEAD {
        return head;
    }
    let integral = |rank: f64| rank.powf(1.0 - alpha) / (1.0 - alpha);
    head + integral(count as f64 + 0.5) - integral(HEAD as f64 + 0.5)
}

/// The load of the fullest of `partitions` partitions as a multiple of the mean, with a hash of this seed.
fn hottest(partitions: usize, seed: u64) -> f64 {
    let total = harmonic(PAPER_KEYS, SKEWED);
    let mut weights = vec![0.0; partitions];
    for rank in 1..=HEAD {
        let partition = mix64(rank ^ seed.rotate_left(32)) as usize % partitions;
        weights[partition] += (rank as f64).powf(-SKEWED);
    }
    let head: f64 = weights.iter().sum();
    let rest = (total - head) / partitions as f64;
    let most = weights.iter().map(|weight| weight + rest).fold(0.0, f64::max);
    most * partitions as f64 / total
}

const SLOTS: u32 = 15;

/// Fills buckets at random until the spare ones, a tenth of them, are used up. Tells the share of items in main buckets and how full all
/// slots are, with the look-ups of a hit in mean.
fn bulk_chaining(buckets: usize, seed: u64) -> (f64, f64, f64) {
    let mut rng = Rng::new(seed);
    let mut items = vec![0u32; buckets];
    let (mut spare, mut count) = (buckets / 10, 0u64);
    loop {
        let bucket = &mut items[rng.below(buckets as u64) as usize];
        if *bucket > 0 && bucket.is_multiple_of(SLOTS) {
            if spare == 0 {
                break;
            }
            spare -= 1;
        }
        *bucket += 1;
        count += 1;
    }
    let main: u64 = items.iter().map(|items| u64::from((*items).min(SLOTS))).sum();
    let looks: u64 =
        items.iter().map(|items| (0..*items).map(|item| u64::from(item / SLOTS + 1)).sum::<u64>()).sum();
    let slots = (buckets + buckets / 10) as f64 * f64::from(SLOTS);
    (main as f64 / count as f64, count as f64 / slots, looks as f64 / count as f64)
}

#[derive(Debug)]
struct Nowhere(Vec<u8>);

impl ClientPath for Nowhere {
    fn cores(&self) -> usize {
        16
    }

    fn reach(&mut self, _cores: usize) -> io::Result<()> {
        Ok(())
    }

    fn buffer(&mut self, _core: usize) -> Option<&mut [u8]> {
        Some(&mut self.0)
    }

    fn post(&mut self, _length: usize) {}

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, _take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        Ok(0)
    }

    fn wait(&mut self, _most: Duration) -> io::Result<()> {
        Ok(())
    }
}

/// Millions of requests that a client makes in a second of processor time: hashed, directed and written into datagrams.
fn made(data: Data, per_datagram: u16, count: u32) -> Result<f64, Failure> {
    let directory = Directory {
        generation: 1,
        access: PartitionAccess::Erew,
        hash: HashFunction::RapidMicro,
        cores: 16,
        partition_bits: 4,
        port: 1,
        seed: 7,
        datagram_max: PAYLOAD_MAX as u32,
    };
    // Nothing is answered: what is not in time is given up at once.
    let options = ClientOptions { per_datagram, window: 64, timeout: Duration::ZERO, retries: 0 };
    let mut client =
        PipelinedClient::new(Nowhere(vec![0; PAYLOAD_MAX]), directory, 1, options).map_err(failed)?;
    let mut key = [0; KEY_MAX];
    let begin = thread_cpu_s();
    for id in 0..count {
        let key = data.key(id, &mut key);
        while client
            .submit(&Request::of(Operation::Get, key), Ticket(u64::from(id)))
            .map_err(failed)?
            .is_err()
        {
            client.flush(Duration::ZERO).map_err(failed)?;
            client.poll(Duration::from_nanos(1), &mut |_, _| ()).map_err(failed)?;
        }
    }
    Ok(f64::from(count) / (thread_cpu_s() - begin) / 1e6)
}

/// The share of requests that find their lines in a cache of `bytes` bytes that holds the most popular keys.
fn cached(keys: u64, alpha: f64, bytes: f64) -> f64 {
    // A bucket of two lines and an item in one.
    let held = (bytes / 192.0).min(keys as f64);
    if alpha == 0.0 { held / keys as f64 } else { harmonic(held as u64, alpha) / harmonic(keys, alpha) }
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let mean_ratio = PAPER_KEYS as f64 / harmonic(PAPER_KEYS, SKEWED);
    let seeds = u64::from(context.runs).max(3);
    let by_cores = [2, 4, 8, 16, 64];
    let spread =
        |partitions: usize| -> Vec<f64> { (0..seeds).map(|seed| hottest(partitions, mix64(seed))).collect() };
    let rows = by_cores.iter().map(|&cores| {
        let figure = Figure::of(&spread(cores));
        vec![
            cores.to_string(),
            format!("{figure:.2}"),
            format!("{:.2}", 1.0 / figure.mean),
            format!("{:.1}", cores as f64 / figure.mean),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let sixteen = Figure::of(&spread(16));
    let chained: Vec<(f64, f64, f64)> = (0..seeds)
        .map(|seed| bulk_chaining(context.scale.pick(1 << 20, 1 << 12), context.seed + seed))
        .collect();
    let chain = |of: fn(&(f64, f64, f64)) -> f64| Figure::of(&chained.iter().map(of).collect::<Vec<_>>());
    let count = context.scale.pick(8 << 20, 200_000);
    let one = Figure::measure(context.runs, |_| made(TINY, 1, count))?;
    let many = Figure::measure(context.runs, |_| made(TINY, 16, count))?;
    let (uniform, skewed) = (cached(PAPER_KEYS, 0.0, 20e6), cached(PAPER_KEYS, SKEWED, 20e6));
    // An offset counts words of eight bytes here.
    let wraps_s = 2f64.powi(48 + 3) / 2f64.powi(30);
    Ok(Outcome {
        how: format!("Computed for {PAPER_KEYS} keys and Zipf's exponent {SKEWED}: the weights of the first {HEAD} ranks are summed one by one, those behind them by an integral. Buckets are filled at random {seeds} times. A model says so."),
        answers: vec![
            answer("I9", format!("model: of requests {} % find bucket and item in a cache of 20 MB if keys are uniform, {} % with Zipf {SKEWED}", percent(uniform), percent(skewed)),
                verdict(&[("skew raises the share", skewed > uniform)])
                    + "A cache that always holds what is asked for most, nothing else in it; the paper counts all that its cores load, code and packets among it."),
            answer("I12", format!("model: with a core for each partition and clients that direct requests, the fullest of 16 partitions lets all do {:.1} times what one core does, of 2 {:.1}", 16.0 / sixteen.mean, 2.0 / Figure::of(&spread(2)).mean),
                "EREW writes no line that another core reads, so that nothing but uneven division holds it back (I18); what the cores share in other engines is counted in fleec-writes. More than two cores have not been measured here."),
            answer("I13", "model: a path's throughput is that of its ports until the cores are busy, and each worker has ports of its own".to_owned(),
                "No ports to count with here. What a worker's path costs is in mica-paths."),
            answer("I18", format!("the hottest key is asked for {:.2} million times as often as the mean; the fullest of 16 partitions gets {:.0} % more than the mean ({:.0} to {:.0} % with {seeds} hashes)", mean_ratio / 1e6, 100.0 * (sixteen.mean - 1.0), 100.0 * (spread(16).iter().copied().fold(f64::MAX, f64::min) - 1.0), 100.0 * (spread(16).iter().copied().fold(0.0, f64::max) - 1.0)),
                verdict(&[("the paper's 9.3 million for the hottest key", (mean_ratio / 1e6 - 9.3).abs() < 0.1)])
                    + "The paper's 53 % are one hash of many. What it does to throughput is I3."),
            answer("I19", format!("one core makes {one} M requests a second, one to a datagram, and {many} with 16; hashed, directed, written, and given up again"),
                "The paper's client machines make 40 M on twelve cores, 3.3 a core, packets sent and received among it."),
            answer("I20", format!("{} % of items are in main buckets when a tenth as many spare ones are used up, at {} % of all slots; a hit looks at {:.3} buckets", percent(chain(|it| it.0).mean), percent(chain(|it| it.1).mean), chain(|it| it.2).mean),
                verdict(&[
                    ("95 % of the items in main buckets", chain(|it| it.0).mean >= 0.945),
                    ("close to one read a lookup", chain(|it| it.2).mean < 1.1),
                ]) + "Of all slots those of spare buckets are part. The engine lets 72 % of the main buckets' slots be used before it grows."),
            answer("I21", format!("offsets of 48 bits wrap after 2^{:.0} s at 2^30 bytes a second, so that 2^24 buckets need {:.0} looks a second", wraps_s.log2(), 2f64.powi(24) / wraps_s),
                "The paper's 2^18 s and 2^6 buckets a second with offsets in bytes; here they count words of eight. Offsets of 18 to 20 bits, and the scan that keeps up with them, are run in the engine's tests."),
        ],
        tables: vec![table("The fullest partition, with a core for each:", &["partitions", "× the mean", "throughput of uniform, if all requests cost the same", "cores' worth"], rows)],
        charts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_sum_up() {
        assert!((harmonic(3, 1.0) - (1.0 + 0.5 + 1.0 / 3.0)).abs() < 1e-12);
        let exact: f64 = (1..=3_000_000u64).map(|rank| (rank as f64).powf(-SKEWED)).sum();
        assert!((harmonic(3_000_000, SKEWED) / exact - 1.0).abs() < 1e-9);
        assert!((cached(1000, 0.0, 192.0 * 500.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn main_buckets_hold_most() {
        let (main, full, looks) = bulk_chaining(1 << 12, 1);
        assert!(main > 0.9 && full > 0.6 && (1.0..1.2).contains(&looks), "{main} {full} {looks}");
    }
}
