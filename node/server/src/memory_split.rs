//! Divides the memory of the process. `--memory` is the ceiling of the whole process, unless it is
//! so small that nothing useful would be left. Then it is the limit of items and index only, as in
//! memcached.

use crate::direct::bytes as direct;
use crate::forward::bytes as forward;
use crate::options::Options;
use crate::size::Size;
use crate::top_keys::TopKeys;
use crate::udp::bytes as udp;
use guira_advice::{Advisor, Subjects};

use guira_memory::{KIB, MIB, available_memory};
use guira_serving::{CONNECTION_BYTES, ConnLimits, TLS_BYTES};

/// The memory of the process outside the engine: code, stacks, and the allocator's reserve
/// (docs/develop/decisions/0054-small-process.md); a little more in large caches, whose memory is
/// committed in larger steps …
const PROCESS_BYTES: usize = 4 * MIB;
const PROCESS_SHARE: usize = 256;
const PROCESS_SHARE_MAX: usize = 2 * MIB;
/// … and the buffers and the stack of each worker, without those for datagrams.
const WORKER_BYTES: usize = 512 * KIB;

/// Unread long values pin at most this part of the engine's memory.
const PINNED_PART: usize = 4;

/// Idle connections take at most this part of the whole; further ones are refused.
const CONNECTIONS_PART: usize = 4;

/// Partial requests and unread replies may take this part of the whole, within these limits …
const TRAFFIC_SHARE: usize = 128;
const TRAFFIC_RANGE: std::ops::RangeInclusive<usize> = MIB..=16 * MIB;
/// … but less of a small one: this part, or the least with which connections work.
const TRAFFIC_SHARE_SMALL: usize = 32;
const TRAFFIC_LEAST: usize = 256 * KIB;
/// The limit of the option for them is this part of the whole.
const TRAFFIC_PART: usize = 2;

/// The advisor takes its share of the whole, if that is large enough to be useful, and at most
/// this.
const ADVICE_MAX: usize = 24 * MIB;

/// Top keys take this part of the whole, or the least that is useful.
const TOP_KEYS_SHARE: usize = 100;

/// Items and index have at least this, or the whole memory if that is less, whatever else the
/// process takes: memcached cannot be limited to less than 8 MiB while it runs.
const ENGINE_LEAST: usize = 8 * MIB;
/// The largest item is this part of them.
const ITEM_PART: usize = 2;

/// The parts of a process's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemorySplit {
    pub(crate) process: usize,
    pub(crate) workers: usize,
    /// For idle connections.
    pub(crate) idle: usize,
    /// For requests and replies in flight.
    pub(crate) traffic: usize,
    /// For the rings of clients on this host.
    pub(crate) rings: usize,
    /// For the advisor; 0 without one.
    pub(crate) advice: usize,
    /// For the counts of the most requested keys; 0 without them.
    pub(crate) top_keys: usize,
    pub(crate) engine: usize,
}

impl MemorySplit {
    /// Divides `memory` for a server that is started with these options.
    pub(crate) fn of(options: &Options, memory: usize) -> Self {
        Self::with_tables_of(options, memory, memory)
    }

    /// Divides `memory` for a running server with these options, whose advisor keeps the size that
    /// it had at the start.
    pub(crate) fn of_running(options: &Options, memory: usize) -> Self {
        Self::with_tables_of(options, memory, options.memory.0)
    }

    fn with_tables_of(options: &Options, memory: usize, at_start: usize) -> Self {
        let process = PROCESS_BYTES + (memory / PROCESS_SHARE).min(PROCESS_SHARE_MAX);
        let datagrams = if options.udp.is_empty() { 0 } else { udp::OF_WORKER };
        let paths = direct::of_worker(options);
        let workers = options.workers * (WORKER_BYTES + datagrams + paths + forward::of_worker(options))
            + direct::of_interface(options)
            + options.admin.as_ref().map_or(0, |_| guira_web::MEMORY_BYTES);
        let each = CONNECTION_BYTES + if options.tls_cert.is_some() { TLS_BYTES } else { 0 };
        let idle = (options.max_connections as usize).saturating_mul(each).min(memory / CONNECTIONS_PART);
        let traffic = options.connection_memory.map_or_else(|| usual_traffic(memory), |size| size.0);
        let advice = if options.disable_advice { 0 } else { advice(at_start, subjects(options)) };
        let top_keys = if options.shows_top_keys() {
            TopKeys::bytes(top_keys_budget(at_start), options.workers)
        } else {
            0
        };
        let rings = direct::of_rings(options, memory);
        let fixed = (process + workers + idle + advice + top_keys + rings).saturating_add(traffic);
        let least = ENGINE_LEAST.max(ITEM_PART * options.max_item_size.0).min(memory);
        let engine = memory.saturating_sub(fixed).max(least);
        MemorySplit { process, workers, idle, traffic, rings, advice, top_keys, engine }
    }

    pub(crate) fn conn_limits(&self) -> ConnLimits {
        ConnLimits { idle: self.idle, traffic: self.traffic, pinned: self.engine / PINNED_PART }
    }

    /// The memory of the whole process: more than `memory`, if that is small.
    pub(crate) fn total(&self) -> usize {
        self.parts().into_iter().map(|(_, bytes)| bytes).fold(0, usize::saturating_add)
    }

    /// Logs it if `memory` is not the ceiling of the whole process, or exceeds the machine's
    /// memory.
    pub(crate) fn report(&self, memory: Size) {
        if let Some(machine) = available_memory().filter(|machine| *machine < memory.0) {
            // Operator: Lower `memory`, or give the machine or container more.
            tracing::warn!(
                "memory {memory} exceeds the {} of this machine or container: the system may swap or kill \
                     the server",
                Size(machine / MIB * MIB)
            );
        }
        if self.total() > memory.0 {
            let all = Size(self.total().div_ceil(MIB) * MIB);
            // Operator: Expect the process to exceed `memory` by the given size.
            tracing::warn!(
                "memory {memory} is small: items and index use {} of it, and the whole process may use \
                     {all}",
                Size(self.engine)
            );
        }
    }

    pub(crate) fn parts(&self) -> Vec<(&'static str, usize)> {
        vec![
            ("items and index", self.engine),
            ("connections", self.idle + self.traffic + self.rings),
            ("workers' buffers and stacks", self.workers),
            ("samples of requests", self.advice + self.top_keys),
            ("code and system", self.process),
        ]
    }
}

/// The memory of top keys for this much memory.
pub(crate) fn top_keys_budget(memory: usize) -> usize {
    memory / TOP_KEYS_SHARE
}

/// The subjects of the advisor.
pub(crate) fn subjects(options: &Options) -> Subjects {
    match options.choice() {
        Ok(choice) if choice.can_choose() => Subjects::SizesAndPolicies,
        _ => Subjects::Sizes,
    }
}

fn advice(memory: usize, subjects: Subjects) -> usize {
    let share = (memory / Advisor::MEMORY_PART).min(ADVICE_MAX);
    let least = subjects.least_budget();
    match subjects {
        _ if share < least => 0,
        Subjects::SizesAndPolicies => share,
        // Policies have the other half.
        Subjects::Sizes => (share / 2).max(least),
    }
}

/// The least memory that is the ceiling of the whole process with these options.
pub fn least_ceiling(options: &Options) -> Size {
    least_of(|memory| MemorySplit::of(options, memory).total() <= memory)
}

/// The memory for items and index of a server with these options and `memory` bytes.
pub fn items_memory(options: &Options, memory: usize) -> usize {
    MemorySplit::of(options, memory).engine
}

/// The least memory with which a server with these options has `items` bytes for items and index.
pub fn memory_for_items(options: &Options, items: usize) -> Size {
    least_of(|memory| MemorySplit::of(options, memory).engine >= items)
}

/// The most of this memory that requests and replies in flight may be given.
pub(crate) fn most_connection_memory(memory: Size) -> Size {
    Size(memory.0 / TRAFFIC_PART)
}

fn usual_traffic(memory: usize) -> usize {
    let small = (memory / TRAFFIC_SHARE_SMALL).clamp(TRAFFIC_LEAST, *TRAFFIC_RANGE.start());
    (memory / TRAFFIC_SHARE).clamp(small, *TRAFFIC_RANGE.end())
}

/// The least memory with which a running server with these options has `engine` bytes for items and
/// index.
pub(crate) fn memory_for(options: &Options, engine: usize) -> Size {
    least_of(|memory| MemorySplit::of_running(options, memory).engine >= engine)
}

fn least_of(is_enough: impl Fn(usize) -> bool) -> Size {
    // In whole MiB, so that rounding never makes the result too small. More memory never means less
    // for the engine, so the search can halve its range.
    let (mut least, mut most) = (1, usize::MAX / MIB);
    while least < most {
        let middle = least + (most - least) / 2;
        if is_enough(middle * MIB) {
            most = middle;
        } else {
            least = middle + 1;
        }
    }
    Size(least * MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole() {
        let options = Options { workers: 2, ..Options::default() };
        for memory in [16 * MIB, 64 * MIB, 1 << 30, 64 << 30] {
            let division = MemorySplit::of(&options, memory);
            assert_eq!(division.total(), memory);
        }
    }

    #[test]
    fn little_memory_is_for_items() {
        for workers in [1, 4, 64] {
            let options = Options { workers, ..Options::default() };
            let engine = |memory| MemorySplit::of(&options, memory).engine;
            for mebibytes in 1..=8 {
                assert_eq!(engine(mebibytes * MIB), mebibytes * MIB);
            }
            // More memory never means less for items.
            assert!((0..200).all(|number| engine((number + 1) * MIB) >= engine(number * MIB)));
            let division = MemorySplit::of(&options, 8 * MIB);
            assert!(division.total() > 8 * MIB + workers * WORKER_BYTES);
        }
    }

    #[test]
    fn the_largest_item_fits_twice_into_little_memory() {
        let options = Options { max_item_size: Size(6 * MIB), workers: 16, ..Options::default() };
        assert_eq!(MemorySplit::of(&options, 12 * MIB).engine, 12 * MIB);
        assert_eq!(MemorySplit::of(&options, 13 * MIB).engine, 12 * MIB);
    }

    #[test]
    fn the_tables_of_a_running_server_do_not_shrink_with_its_memory() {
        let options = Options { memory: Size(4 << 30), ..Options::default() };
        let started = MemorySplit::of(&options, options.memory.0);
        assert_eq!(MemorySplit::of_running(&options, options.memory.0), started);
        let shrunk = MemorySplit::of_running(&options, 1 << 30);
        assert_eq!((shrunk.advice, shrunk.top_keys), (started.advice, started.top_keys));
        assert!(shrunk.engine < MemorySplit::of(&options, 1 << 30).engine);
    }

    #[test]
    fn what_the_admin_listener_takes_is_not_the_engines() {
        let without = Options::default();
        let given = [("admin", vec!["0".to_owned()])];
        let with = Options::read(&given.into_iter().collect()).unwrap();
        let [without, with] = [without, with].map(|options| MemorySplit::of(&options, 64 * MIB));
        assert!(without.engine - with.engine == with.workers - without.workers);
        assert!((2 * MIB..3 * MIB).contains(&(without.engine - with.engine)));
    }

    #[test]
    fn what_is_told_to_be_enough_is() {
        for workers in [1, 4, 64] {
            let options = Options { workers, ..Options::default() };
            for engine in [MIB, 8 * MIB, 100 * MIB] {
                let least = memory_for(&options, engine).0;
                assert!(MemorySplit::of_running(&options, least).engine >= engine);
                assert!(MemorySplit::of_running(&options, least - MIB).engine < engine);
            }
        }
    }

    #[test]
    fn the_memory_for_items_is_the_least_that_leaves_as_much() {
        let options = Options::default();
        for items in [3 * MIB, 100 * MIB, 5 << 30] {
            let memory = memory_for_items(&options, items).0;
            assert!(items_memory(&options, memory) >= items && items_memory(&options, memory - MIB) < items);
        }
    }

    #[test]
    fn what_is_needed_is_found_at_once_however_much_it_is() {
        let connection_memory = Some(Size(4_000_000_000 * MIB));
        let options = Options { connection_memory, ..Options::default() };
        let least = memory_for(&options, 100 * MIB).0;
        assert!(least > 4_000_000_000 * MIB && least < 4_001_000_000 * MIB);
    }
}
