//! A server with a region, stopped or killed at any moment, and started again.
//!
//! After an orderly stop everything that was acknowledged is back, with value, flags, cas unique and time to live; if bits of
//! the region have changed since, the start says so, and some of it may not be. After SIGKILL nothing is, and the start says
//! so. Killed while it starts or stops, the region is whole or empty, and in any case no answer is wrong.

mod damage;
mod kept;

use std::path::Path;
use std::time::Duration;

use guira_harness::scratch::Scratch;
use guira_harness::server::ServerProcess;
use guira_workload::Rng;
use rustix::process::Signal;

use crate::admin::{flush, stat};
use crate::checked::{reader, writer::Writer};
use crate::client::Client;
use crate::field::{Field, Losses};
use crate::history::{History, Kind, Missed};
use crate::kills::kept::{Kept, read_kept};
use crate::link::{Addresses, Carrier};
use crate::plan::Plan;
use crate::report;
use crate::server::{self, has_option};
use crate::speech::Speech;

/// Memory of the server, in MiB.
const MEMORY: u64 = 64;

/// Keys: so few that nothing has to be evicted, since every life begins with a flush.
const KEYS: [(Kind, usize); 4] = [(Kind::Warm, 300), (Kind::Up, 30), (Kind::Down, 30), (Kind::Bulk, 300)];

/// Threads that write, and as many that read.
const THREADS: usize = 2;

/// How long an orderly stop may take.
const STOP_MAX: Duration = Duration::from_secs(30);

/// Longer than any life of a server here.
const LONG: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Killed,
    KilledAtStart,
    KilledAtStop,
    /// Stopped without load.
    Stopped,
    /// The same, and the region is damaged before the next start.
    Damaged,
    StoppedUnderLoad,
}

/// The items that the next start may find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finds {
    Nothing,
    /// The items outside damaged blocks.
    Part,
    PartOrNothing,
    Everything,
    Either,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    /// All items except dropped or evicted ones.
    Part,
    All,
}

/// The state of the server before.
#[derive(Debug)]
struct Past {
    field: Field,
    history: History,
    /// The evictions at its start.
    evictions: Option<u64>,
    /// The items of all keys, if nothing was written since.
    kept: Option<Vec<Option<Kept>>>,
    finds: Finds,
}

/// Stops and kills as often as the plan says. Returns what failed.
pub(crate) fn run(plan: &Plan) -> Result<Vec<String>, String> {
    if !has_option(&plan.binary, "--region") {
        println!("kills: skipped: this guira has no --region");
        return Ok(Vec::new());
    }
    println!("kills: seed {}, {} times", plan.seed, plan.kills);
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = Scratch::within(&parent).map_err(|error| format!("cannot make a folder: {error}"))?;
    let mut random = Rng::new(plan.seed);
    let mut past: Option<Past> = None;
    let total = Field::new(addresses(&folder, &[])?, 0, LONG, Losses::Expected);
    for round in 0..=plan.kills {
        let ending = match random.below(10) {
            // The last start looks at what the end before has left.
            _ if round == plan.kills => Ending::Stopped,
            0..3 => Ending::Killed,
            3 => Ending::KilledAtStart,
            4..6 => Ending::KilledAtStop,
            6 => Ending::Damaged,
            7 => Ending::Stopped,
            _ => Ending::StoppedUnderLoad,
        };
        total.remember(format!("round {round}: {ending:?}"));
        let seed = Rng::part(plan.seed, round).next_u64();
        past = one_life(plan, &folder, ending, past, (round, seed), &total)?;
        if !total.failures().is_empty() {
            break;
        }
    }
    report::counts(&total, total.now() as f64 / 1000.0);
    report::line("seconds", &format!("{:.1}", total.now() as f64 / 1000.0));
    Ok(report::verdict("kills", &total, plan.seed, &[]))
}

fn addresses(folder: &Scratch, tcp: &[std::net::SocketAddr]) -> Result<Addresses, String> {
    let nowhere = ([127, 0, 0, 1], 1).into();
    let tcp = *tcp.first().unwrap_or(&nowhere);
    Ok(Addresses { tcp, tls: None, unix: folder.file("socket") })
}

/// Starts a server, looks at what it has found, puts a load on it and ends it.
fn one_life(
    plan: &Plan,
    folder: &Scratch,
    ending: Ending,
    past: Option<Past>,
    (round, seed): (u64, u64),
    total: &Field,
) -> Result<Option<Past>, String> {
    let mut random = Rng::new(seed);
    let mut server = start(plan, folder)?;
    if ending == Ending::KilledAtStart {
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        server.signal(Signal::KILL);
        server.wait(STOP_MAX).map_err(|error| error.to_string())?;
        count(total, ending);
        return Ok(past.map(|past| match past.finds {
            Finds::Nothing => past,
            Finds::Part | Finds::PartOrNothing => Past { finds: Finds::PartOrNothing, ..past },
            _ => Past { finds: Finds::Either, ..past },
        }));
    }
    let tcp = server::wait_until_ready(&mut server)?;
    let field = Field::new(addresses(folder, &tcp)?, server.id(), LONG, Losses::Expected);
    look(&server, &field, past, total);
    flush::once(&field).map_err(|error| format!("cannot flush: {error}"))?;
    let evictions = stat(&field, "evictions");
    let history = History::new(&format!("r{round}"), &KEYS);
    let busy = ending == Ending::Killed || ending == Ending::StoppedUnderLoad;
    let signal = if random.below(2) == 0 { Signal::TERM } else { Signal::USR1 };
    std::thread::scope(|scope| {
        let (field, history) = (&field, &history);
        for number in 0..THREADS {
            let writer = Writer::new(field, history, number, THREADS, Rng::part(seed, number as u64));
            scope.spawn(move || writer.run());
            let random = Rng::part(seed, 100 + number as u64);
            scope.spawn(move || reader::run(field, history, random));
        }
        std::thread::sleep(Duration::from_millis(20 + random.below(300)));
        if busy {
            server.signal(if ending == Ending::Killed { Signal::KILL } else { signal });
            std::thread::sleep(Duration::from_millis(random.below(20)));
        }
        field.stop();
    });
    let kept = if busy { None } else { Some(keep(&field, &history)?) };
    let finds = end(&mut server, ending, signal, &mut random, &field)?;
    if finds == Finds::Part {
        damage::flip(&folder.file("region"), &mut random)?;
    }
    for line in server.alarms() {
        field.fail(format!("the server says: {line}"));
    }
    pass_on(&field, total, &server);
    count(total, ending);
    Ok(Some(Past { field, history, evictions, kept, finds }))
}

fn start(plan: &Plan, folder: &Scratch) -> Result<ServerProcess, String> {
    let region = folder.file("region").display().to_string();
    let memory = format!("{MEMORY}MiB");
    let unix = format!("unix:{}", folder.file("socket").display());
    let words = ["--workers", "2", "--memory", &memory, "--region", &region];
    let listen = ["--listen", "127.0.0.1:0", "--listen", &unix];
    let arguments = words.into_iter().chain(listen).map(str::to_owned).collect::<Vec<_>>();
    server::spawn(plan, &arguments)
}

/// Ends the server; what the next may find.
fn end(
    server: &mut ServerProcess,
    ending: Ending,
    signal: Signal,
    random: &mut Rng,
    field: &Field,
) -> Result<Finds, String> {
    if matches!(ending, Ending::Stopped | Ending::Damaged | Ending::KilledAtStop) {
        server.signal(signal);
    }
    if ending == Ending::KilledAtStop {
        std::thread::sleep(Duration::from_micros(random.below(40_000)));
        server.signal(Signal::KILL);
    }
    let status = server.wait(STOP_MAX).map_err(|error| error.to_string())?;
    Ok(match ending {
        Ending::Killed => Finds::Nothing,
        Ending::KilledAtStop if !status.success() => Finds::Either,
        Ending::Damaged if status.success() => Finds::Part,
        _ if status.success() => Finds::Everything,
        _ => {
            field.fail(format!("the server ended with {status} when it was asked to stop"));
            Finds::Nothing
        }
    })
}

fn count(total: &Field, ending: Ending) {
    total.counters().one(match ending {
        Ending::Killed => "killed under load",
        Ending::KilledAtStart => "killed at the start",
        Ending::KilledAtStop => "killed at the stop",
        Ending::Stopped => "stopped",
        Ending::Damaged => "stopped and damaged",
        Ending::StoppedUnderLoad => "stopped under load",
    });
}

/// Adds what a life has seen to all.
fn pass_on(field: &Field, total: &Field, server: &ServerProcess) {
    let mut counters = total.counters();
    for (what, times) in field.counts() {
        counters.add(what, times);
    }
    for failure in field.failures() {
        total.fail(format!("{failure}; the server said: {:?}", server.lines()));
    }
}

fn keep(field: &Field, history: &History) -> Result<Vec<Option<Kept>>, String> {
    let failed = |error| format!("cannot read everything: {error}");
    let mut client = Client::try_open(field, Carrier::Unix, Speech::Meta).map_err(failed)?;
    (0..history.len())
        .map(|key| read_kept(&mut client, &history.name(history.owner(key))).map_err(failed))
        .collect()
}

/// Checks the items after a start, by the server's log and by reading them.
fn look(server: &ServerProcess, field: &Field, past: Option<Past>, total: &Field) {
    let lines = server.lines();
    let said = lines.iter().find(|line| line.starts_with("region ")).cloned().unwrap_or_default();
    let restored = said.contains(": restored");
    if !restored && !said.contains(": emptied") && !said.contains(": new and empty") {
        field.fail(format!("it does not say what it has found: {lines:?}"));
    }
    let Some(past) = past else { return };
    let is_damaged = matches!(past.finds, Finds::Part | Finds::PartOrNothing);
    total.counters().one(match (restored, is_damaged) {
        (true, false) => "starts with everything",
        (true, true) => "starts with a part",
        (false, _) => "starts with nothing",
    });
    // Blocks, or the sums of all of them.
    let says_so = said.contains("KiB are corrupt") || said.contains("the region is corrupt");
    let legal = match past.finds {
        Finds::Nothing => !restored,
        Finds::Part => says_so,
        Finds::PartOrNothing => says_so || !restored,
        Finds::Everything => restored,
        Finds::Either => true,
    };
    if !legal {
        field.fail(format!("{:?} was to be found: {said}", past.finds));
    }
    let evicted = stat(field, "evictions") != past.evictions;
    let found = match restored {
        false => Found::Nothing,
        true if evicted || is_damaged => Found::Part,
        true => Found::All,
    };
    if evicted && restored {
        total.counters().one("lives in which something was evicted");
    }
    if !restored && stat(field, "curr_items") != Some(0) {
        field.fail(format!("it says {said:?}, and has items"));
    }
    match compare(field, &past, found) {
        Ok((back, gone)) => {
            total.counters().add("keys that were back", back);
            total.counters().add("keys that were not, or held nothing", gone);
        }
        Err(what) => field.fail(what),
    }
}

/// Compares the items with those before; returns the number of keys with an item, and without.
fn compare(field: &Field, past: &Past, all: Found) -> Result<(u64, u64), String> {
    let failed = |error| format!("cannot read what is back: {error}");
    let mut client = Client::try_open(field, Carrier::Unix, Speech::Meta).map_err(failed)?;
    let (mut back, mut gone) = (0, 0);
    for key in 0..past.history.len() {
        let claim = past.history.claim(key, past.field.now());
        let name = past.history.name(claim.owner);
        let found = read_kept(&mut client, &name).map_err(failed)?;
        let wrong = |what: &str| {
            let name = String::from_utf8_lossy(&name);
            Err(format!("{name}: {what}; {}", past.history.log(key).story()))
        };
        match &found {
            Some(_) if all == Found::Nothing => {
                return wrong("it is back, although the region is said to be empty");
            }
            Some(found) => past.history.found(claim, &found.value, found.flags)?,
            None => {}
        }
        // In mica a read may move an item to the end of the log, which may evict another: it is counted, but after this began.
        let may_be_evicted =
            found.is_none() && (all == Found::Part || stat(field, "evictions") != past.evictions);
        if all == Found::All && found.is_none() {
            let missed = past.history.missed(claim) == Missed::Evicted;
            if missed && !may_be_evicted {
                return wrong("it was acknowledged and not evicted, and is not back");
            }
        }
        if let (Some(kept), true) = (&past.kept, all != Found::Nothing)
            && let (Err(what), false) = (Kept::compare(kept[key].as_ref(), found.as_ref()), may_be_evicted)
        {
            return wrong(&what);
        }
        if found.is_some() {
            back += 1;
        } else {
            gone += 1;
        }
    }
    Ok((back, gone))
}
