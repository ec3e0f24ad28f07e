//! What valgrind's lackey prints about a program: each instruction, load and store, the thread that runs, and what
//! its system calls returned.
//!
//! ```text
//! I  0023c790,2          an instruction
//!  L be80199c,4          it loads;  S stores;  M loads and stores
//! --77--   SCHED[3]:  acquired lock (…)
//! SYSCALL[77,3](45) … --> Success(0x4)
//! ```

/// How many bytes a line of a cache has.
pub(super) const LINE_BYTES: u64 = 64;

/// The numbers of the system calls that receive: read, recvfrom, recvmsg.
const RECEIVING: [&str; 3] = ["0", "45", "47"];

/// A line of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The thread that runs from now on.
    Runs(u32),
    /// The place of the instruction that the next accesses are of.
    At(u64),
    Access(Access),
    /// This thread has received this many bytes.
    Received(u32, u64),
    Other,
}

/// An access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) is_write: bool,
}

impl Access {
    /// The lines of the cache that it touches.
    pub(super) fn lines(self) -> impl Iterator<Item = u64> {
        self.address / LINE_BYTES..=(self.address + self.bytes.max(1) - 1) / LINE_BYTES
    }
}

impl Event {
    pub(super) fn read(line: &[u8]) -> Self {
        match line {
            [b'I', b' ', b' ', place @ ..] => {
                number_and_length(place).map_or(Self::Other, |(at, _)| Self::At(at))
            }
            [b' ', kind @ (b'L' | b'S' | b'M'), b' ', place @ ..] => {
                let access = |(address, bytes)| Access { address, bytes, is_write: *kind != b'L' };
                number_and_length(place).map_or(Self::Other, |place| Self::Access(access(place)))
            }
            [b'-' | b'S', ..] => std::str::from_utf8(line).ok().and_then(of_the_core).unwrap_or(Self::Other),
            _ => Self::Other,
        }
    }
}

/// Reads `0023c790,2`.
fn number_and_length(text: &[u8]) -> Option<(u64, u64)> {
    let comma = text.iter().position(|byte| *byte == b',')?;
    let digits = |text: &[u8], base: u64| {
        text.iter().try_fold(0, |number, byte| {
            let digit = char::from(*byte).to_digit(base as u32)?;
            Some(number * base + u64::from(digit))
        })
    };
    Some((digits(&text[..comma], 16)?, digits(&text[comma + 1..], 10)?))
}

/// A line of valgrind itself: which thread runs, or what a system call returned.
fn of_the_core(line: &str) -> Option<Event> {
    if let Some((_, after)) = line.split_once("SCHED[") {
        let (thread, what) = after.split_once("]:")?;
        return what.contains("acquired lock").then_some(Event::Runs(thread.parse().ok()?));
    }
    let (_, after) = line.split_once("SYSCALL[")?;
    let (ids, after) = after.split_once("](")?;
    let (number, after) = after.split_once(')')?;
    let (_, result) = after.split_once("Success(0x")?;
    let (bytes, _) = result.split_once(')')?;
    let thread = ids.split_once(',')?.1.trim().parse().ok()?;
    let bytes = u64::from_str_radix(bytes, 16).ok()?;
    RECEIVING.contains(&number.trim()).then_some(Event::Received(thread, bytes))
}

#[cfg(test)]
mod tests {
    use super::{Access, Event};

    #[test]
    fn lines_of_a_trace_are_read() {
        let access = |address, bytes, is_write| Event::Access(Access { address, bytes, is_write });
        for (line, event) in [
            ("I  0023C790,2", Event::At(0x23_c790)),
            (" L 1ffefff7a8,8", access(0x1f_feff_f7a8, 8, false)),
            (" S 04c2,32", access(0x4c2, 32, true)),
            (" M 04c2,4", access(0x4c2, 4, true)),
            ("--77--   SCHED[3]:  acquired lock (VG_(scheduler):timeslice)", Event::Runs(3)),
            ("--77--   SCHED[3]: releasing lock (VG_(scheduler):timeslice) -> VgTs_Yielding", Event::Other),
            ("SYSCALL[77,2](45) ... [async] --> Success(0x1c) ", Event::Received(2, 28)),
            ("SYSCALL[77,2](44) ... [async] --> Success(0x1c) ", Event::Other),
            ("SYSCALL[77,2](45) sys_recvfrom ( 9, 0x4a000, 16384 ) --> [async] ... ", Event::Other),
            ("==77== Lackey, an example Valgrind tool", Event::Other),
            ("", Event::Other),
        ] {
            assert_eq!(Event::read(line.as_bytes()), event, "{line}");
        }
    }

    #[test]
    fn an_access_across_a_line_touches_both() {
        let lines = |address, bytes| Access { address, bytes, is_write: true }.lines().collect::<Vec<_>>();
        assert_eq!(lines(60, 8), [0, 1]);
        assert_eq!(lines(64, 8), [1]);
        assert_eq!(lines(0, 0), [0]);
    }
}
