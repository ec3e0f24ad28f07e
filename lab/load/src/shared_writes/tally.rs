//! From the accesses of all threads to the counts of each phase.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead};
use std::ops::Range;

use super::trace::{Event, LINE_BYTES};

/// Of a large array, such as the items, a counted load touches other lines than the other worker's: there this many
/// bytes count as touched if any of them is.
const BLOCK_BYTES: u64 = 64 << 10;
/// A mapping of this many bytes holds such an array. Stacks and heaps of threads are smaller.
const LARGE_BYTES: u64 = 16 << 20;

/// A line is hot if more than one operation in this many writes to it …
const HOT_PART: u64 = 64;
/// … and at least this many.
const HOT_LEAST: u64 = 5;

/// The threads that have touched something, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Threads(u64);

impl Threads {
    fn add(&mut self, thread: u32) {
        self.0 |= 1 << (thread % u64::BITS);
    }

    /// Whether one of `among` other than `thread` is in it.
    fn has_other(self, thread: u32, among: Self) -> bool {
        self.0 & among.0 & !(1 << (thread % u64::BITS)) != 0
    }

    fn has(self, thread: u32) -> bool {
        self.0 & 1 << (thread % u64::BITS) != 0
    }
}

/// The threads that have touched a line or a block, and those that have written to it.
#[derive(Debug, Clone, Copy, Default)]
struct Users {
    touched: Threads,
    written: Threads,
}

/// An access of a counted phase.
#[derive(Debug, Clone, Copy)]
struct Noted {
    phase: u32,
    operation: u32,
    thread: u32,
    line: u64,
    at: u64,
    is_write: bool,
}

/// The records of a run from the first marker on.
#[derive(Debug, Default)]
pub(super) struct Recording {
    lines: HashMap<u64, Users>,
    blocks: HashMap<u64, Users>,
    /// The threads that have received a marker.
    workers: Threads,
    noted: Vec<Noted>,
    /// Markers so far: a phase lies between the first and the second, the third and the fourth …
    markers: u32,
    operation: u32,
    thread: u32,
    at: u64,
}

/// The counts of a phase: of all its operations together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Counts {
    /// Lines that other workers touch, once for each operation and thread that writes to them.
    pub(super) lines_written: u64,
    /// Stores to them.
    pub(super) stores: u64,
    /// Those of them that are written by more than one operation in [`HOT_PART`]: writes to different lines happen at the
    /// same time, but those to one line one after another.
    pub(super) hot_lines_written: u64,
    /// Lines that other workers write to, once for each operation and thread that reads them and does not write.
    pub(super) lines_read: u64,
    /// The places of the stores, the most frequent first.
    pub(super) places: Vec<(u64, u64)>,
}

impl Recording {
    /// Reads a trace to its end. A thread that receives `marker` bytes begins or ends a phase.
    pub(super) fn of(mut trace: impl BufRead, marker: u64) -> io::Result<Self> {
        let mut recording = Self { thread: 1, ..Self::default() };
        let mut line = Vec::new();
        while trace.read_until(b'\n', &mut line)? > 0 {
            recording.add(Event::read(line.strip_suffix(b"\n").unwrap_or(&line)), marker);
            line.clear();
        }
        Ok(recording)
    }

    pub(super) fn phases(&self) -> u32 {
        self.markers / 2
    }

    fn add(&mut self, event: Event, marker: u64) {
        match event {
            Event::Runs(thread) => self.thread = thread,
            Event::At(at) => self.at = at,
            Event::Received(thread, bytes) => {
                self.operation += 1;
                if bytes == marker {
                    self.markers += 1;
                    self.workers.add(thread);
                }
            }
            Event::Access(access) if self.markers > 0 => {
                let (thread, at, is_write) = (self.thread, self.at, access.is_write);
                for line in access.lines() {
                    let block = line * LINE_BYTES / BLOCK_BYTES;
                    for users in [self.lines.entry(line).or_default(), self.blocks.entry(block).or_default()]
                    {
                        users.touched.add(thread);
                        if is_write {
                            users.written.add(thread);
                        }
                    }
                    if self.markers % 2 == 1 {
                        let (phase, operation) = (self.markers / 2, self.operation);
                        self.noted.push(Noted { phase, operation, thread, line, at, is_write });
                    }
                }
            }
            Event::Access(_) | Event::Other => {}
        }
    }

    /// The counts of phase number `phase`, of this many operations, in a process with these mappings.
    pub(super) fn counts(&self, phase: u32, operations: u64, mappings: &[Range<u64>]) -> Counts {
        let users = |line: u64| {
            let address = line * LINE_BYTES;
            let is_large = |mapping: &&Range<u64>| mapping.end - mapping.start >= LARGE_BYTES;
            let large = mappings.iter().filter(is_large).any(|mapping| mapping.contains(&address));
            let found = if large { self.blocks.get(&(address / BLOCK_BYTES)) } else { self.lines.get(&line) };
            found.copied().unwrap_or_default()
        };
        let (mut written, mut read) = (HashSet::new(), HashSet::new());
        let (mut stores, mut places) = (0, HashMap::<u64, u64>::new());
        let is_workers = |noted: &&Noted| noted.phase == phase && self.workers.has(noted.thread);
        for noted in self.noted.iter().filter(is_workers) {
            let (users, once) = (users(noted.line), (noted.operation, noted.thread, noted.line));
            if noted.is_write && users.touched.has_other(noted.thread, self.workers) {
                written.insert(once);
                stores += 1;
                *places.entry(noted.at).or_default() += 1;
            } else if !noted.is_write && users.written.has_other(noted.thread, self.workers) {
                read.insert(once);
            }
        }
        let mut places: Vec<(u64, u64)> = places.into_iter().collect();
        places.sort_unstable_by_key(|(at, count)| (std::cmp::Reverse(*count), *at));
        let lines_read = read.difference(&written).count() as u64;
        let mut writes = HashMap::<u64, u64>::new();
        written.iter().for_each(|(_, _, line)| *writes.entry(*line).or_default() += 1);
        let is_hot = |count: &&u64| **count * HOT_PART > operations && **count >= HOT_LEAST;
        let hot_lines_written = writes.values().filter(is_hot).sum();
        Counts { lines_written: written.len() as u64, stores, hot_lines_written, lines_read, places }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, LARGE_BYTES, Recording};

    const MARKER: u64 = 9;

    fn received(thread: u32, bytes: u64) -> String {
        format!("SYSCALL[1,{thread}](45) ... [async] --> Success(0x{bytes:x})\n")
    }

    fn runs(thread: u32) -> String {
        format!("--1--   SCHED[{thread}]:  acquired lock (…)\n")
    }

    /// Threads 2 and 3 are workers; both have touched line 1 (64 to 127), and thread 2 alone line 2.
    fn recording(counted: &str) -> Recording {
        let trace = [
            received(2, MARKER),
            received(3, MARKER),
            runs(2),
            " L 40,8\n S 80,8\n".to_owned(),
            runs(3),
            " S 44,4\n".to_owned(),
            received(2, MARKER),
            runs(2),
            counted.to_owned(),
            received(2, MARKER),
            " S 40,8\n".to_owned(),
        ];
        Recording::of(trace.concat().as_bytes(), MARKER).unwrap()
    }

    #[test]
    fn a_store_to_a_line_of_another_worker_counts_once_for_an_operation() {
        let counted = ["I  7,1\n S 40,8\n S 48,8\n S 80,8\n", &received(2, 20), "I  8,1\n S 7c,8\n"].concat();
        let recording = recording(&counted);
        assert_eq!(recording.phases(), 2);
        let counts = recording.counts(1, 100, &[]);
        let places = vec![(7, 2), (8, 1)];
        let expected = Counts { lines_written: 2, stores: 3, hot_lines_written: 0, lines_read: 0, places };
        assert_eq!(counts, expected);
    }

    #[test]
    fn threads_that_are_no_workers_share_nothing() {
        let counted = [runs(5), " S c0,8\n S 40,8\n".to_owned(), runs(2), " S c0,8\n".to_owned()].concat();
        assert_eq!(recording(&counted).counts(1, 1, &[]), Counts::default());
    }

    #[test]
    fn a_read_counts_if_another_worker_writes_there() {
        let counts = recording(" L 40,4\n L 80,8\n").counts(1, 1, &[]);
        assert_eq!(counts, Counts { lines_read: 1, ..Counts::default() });
    }

    #[test]
    fn in_a_large_mapping_blocks_are_shared() {
        let counts = |mapping| recording(" S 100,8\n").counts(1, 1, &[mapping]).lines_written;
        assert_eq!((counts(0..LARGE_BYTES), counts(0..LARGE_BYTES - 1)), (1, 0));
    }
}
