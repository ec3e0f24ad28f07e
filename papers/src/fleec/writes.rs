//! F2, the mechanism: how often an operation writes to a cache line that another session wrote to last.
//!
//! Every store of the program is seen by valgrind's lackey, whichever engine makes it and whatever it is for. Sessions take turns on one
//! thread, an operation each: so it is the most that threads could come to, and the same in every run.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use guira_sync::atomic::{AtomicU64, Ordering};
use guira_workload::{Rng, Zipf};

use super::ENGINES;
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, answer, table};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "fleec-writes",
    claims: &["F2"],
    about: "Writes of an operation to cache lines that another session wrote to last, by engine and sessions",
    run,
};

const SESSIONS: [usize; 4] = [2, 4, 8, 16];
/// Zipf's exponent, and one in how many requests stores.
const MIXES: [(&str, usize); 2] = [("99 % reads", 100), ("50 % reads", 2)];
const ALPHA: f64 = 0.99;
const KEYS: u32 = 2_000;
/// Requests that come before the counted ones: they set recency bits that do not change afterwards.
const SETTLING: usize = 2_000;
const COUNTED: usize = 4_000;

/// A store to one of these says whose turn it is: the first is for what is not counted.
static TURNS: [AtomicU64; 17] = [const { AtomicU64::new(0) }; 17];

/// What the other process is to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turns {
    engine: usize,
    set_each: usize,
    sessions: usize,
}

impl std::str::FromStr for Turns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Vec<usize> = text.split(',').filter_map(|number| number.parse().ok()).collect();
        match numbers[..] {
            [engine, set_each, sessions]
                if engine < ENGINES.len() && set_each > 0 && (1..TURNS.len()).contains(&sessions) =>
            {
                Ok(Self { engine, set_each, sessions })
            }
            _ => Err("not ENGINE,SET_EACH,SESSIONS".to_owned()),
        }
    }
}

/// In the process that is watched: sessions take turns at operations. What it writes first is where the turns are.
pub(crate) fn take_turns(turns: Turns) -> Result<(), Failure> {
    println!("{}", TURNS.as_ptr().addr());
    let cache = ENGINES[turns.engine].open(32 << 20)?;
    cache.fill(KEYS)?;
    let zipf = Zipf::new(u64::from(KEYS), ALPHA).map_err(failed)?;
    let mut rng = Rng::new(1);
    let requests: Vec<(u32, bool)> = (0..SETTLING + COUNTED)
        .map(|_| (zipf.draw(&mut rng) as u32, rng.below(turns.set_each as u64) == 0))
        .collect();
    cache.in_turn(turns.sessions, &requests, &mut |request, session| {
        let mark = if request < SETTLING { 0 } else { session + 1 };
        TURNS[mark].store(1, Ordering::Relaxed);
    })
}

/// Where valgrind puts the stack of the first thread, which all sessions share here and none would there.
const STACK: u64 = 0x1f_f000_0000;
const LINE: u64 = 64;

/// Counts writes to lines that another session wrote to last.
#[derive(Debug, Default)]
struct Watch {
    owners: HashMap<u64, usize>,
    turn: usize,
    shared: u64,
}

impl Watch {
    fn store(&mut self, at: u64, marks: u64) {
        if (marks..marks + 8 * TURNS.len() as u64).contains(&at) {
            self.turn = ((at - marks) / 8) as usize;
        } else if at < STACK {
            let before = self.owners.insert(at / LINE, self.turn);
            self.shared +=
                u64::from(self.turn > 0 && before.is_some_and(|before| before > 0 && before != self.turn));
        }
    }
}

/// Where a line of lackey's says that something was stored.
fn stored_at(line: &str) -> Option<u64> {
    let rest = line.strip_prefix(" S ").or_else(|| line.strip_prefix(" M "))?;
    u64::from_str_radix(rest.split(',').next()?, 16).ok()
}

fn measure(turns: Turns) -> Result<f64, Failure> {
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes", "--basic-counts=no"])
        .arg(program)
        .arg(format!("--turns={},{},{}", turns.engine, turns.set_each, turns.sessions))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::Other(format!("valgrind cannot be started: {error}")))?;
    let (Some(output), Some(trace)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(Failure::Other("no pipe to valgrind".to_owned()));
    };
    let (marks, is_there) = std::sync::mpsc::channel();
    let listener = std::thread::spawn(move || {
        let mut line = String::new();
        let _shorter = BufReader::new(output).read_line(&mut line);
        let _nobody_waits = marks.send(line.trim().parse::<u64>());
    });
    let (mut watch, mut at) = (Watch::default(), None);
    let mut lines = BufReader::with_capacity(1 << 20, trace);
    let mut line = String::new();
    while lines.read_line(&mut line).map_err(failed)? > 0 {
        if at.is_none() {
            at = is_there.try_recv().ok().and_then(Result::ok);
        }
        if let (Some(marks), Some(stored)) = (at, stored_at(line.trim_end())) {
            watch.store(stored, marks);
        }
        line.clear();
    }
    let _joined = listener.join();
    let ended = child.wait().map_err(failed)?;
    if !ended.success() || watch.turn == 0 {
        return Err(Failure::Other(format!("valgrind ended with {ended}")));
    }
    Ok(watch.shared as f64 / COUNTED as f64)
}

fn run(_: &Context) -> Result<Outcome, Failure> {
    let (mut rows, mut summary) = (Vec::new(), Vec::new());
    for (about, set_each) in MIXES {
        let mut of_mix = Vec::new();
        for (engine, config) in ENGINES.iter().enumerate() {
            let writes = SESSIONS
                .iter()
                .map(|&sessions| measure(Turns { engine, set_each, sessions }))
                .collect::<Result<Vec<f64>, _>>()?;
            of_mix.push(format!("{} {:.3}", config.name, writes[SESSIONS.len() - 1]));
            let cells = writes.iter().map(|writes| format!("{writes:.3}"));
            rows.push([about.to_owned(), config.name.to_owned()].into_iter().chain(cells).collect());
        }
        summary.push(format!("{about}: {}", of_mix.join(", ")));
    }
    Ok(Outcome {
        how: format!(
            "Sessions on one thread take turns, one operation each, {COUNTED} counted after {SETTLING}; {KEYS} keys of 16 + 32 bytes, Zipf {ALPHA}. Counted is every store outside of the stack to a cache line that another session has stored to last. What one operation writes alone is not counted, and neither is what is only read."
        ),
        answers: vec![answer(
            "F2",
            format!("shared cache-line writes of an operation with 16 sessions: {}", summary.join("; ")),
            "A read in fleec and memc3 writes nothing that others write but once in a while its recency. In memclock it takes and gives back a lock.",
        )],
        tables: vec![table(
            "Writes of an operation to lines that another session wrote to last, by sessions:",
            &["mix", "engine", "2", "4", "8", "16"],
            rows,
        )],
        charts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Watch, stored_at};

    #[test]
    fn stores_are_told_from_loads() {
        assert_eq!(stored_at(" S 1ffeffe7e0,8"), Some(0x1f_feff_e7e0));
        assert_eq!(stored_at(" M 0421a0,4"), Some(0x42_1a0));
        assert_eq!([" L 0421a0,4", "I  0421a0,4", "==7== x"].map(stored_at), [None; 3]);
    }

    #[test]
    fn only_lines_that_another_session_wrote_to_last_are_shared() {
        let marks = 0x1000;
        let mut watch = Watch::default();
        let turn = |watch: &mut Watch, session: u64| watch.store(marks + 8 * session, marks);
        watch.store(0x8000, marks);
        for (session, shared) in [(1, 0), (1, 0), (2, 1), (2, 1), (1, 2)] {
            turn(&mut watch, session);
            watch.store(0x8010, marks);
            watch.store(0x9000 + 64 * session, marks);
            assert_eq!(watch.shared, shared);
        }
        turn(&mut watch, 0);
        watch.store(0x8010, marks);
        assert_eq!(watch.shared, 2, "what is not counted");
    }
}
