//! A region from its start to its end.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use guira_sync::clock::Stopwatch;
use guira_web::AdminError;

use crate::chaos;
use crate::child::Programs;
use crate::counts::Count;
use crate::faults::KINDS;
use crate::home::{CONTROL, Home};
use crate::outcome::Outcome;
use crate::web;
use crate::world::World;

/// How often the end is checked.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub struct Settings {
    pub programs: Programs,
    /// The folder of the region; `None` is a temporary one.
    pub folder: Option<PathBuf>,
    /// The port of the page; 0 is any.
    pub port: u16,
    /// The file with the token that clients need to see figures and cause faults.
    pub token_file: Option<PathBuf>,
    pub seed: u64,
    /// The length of random faults, after which the region ends.
    pub chaos: Option<Duration>,
}

/// The reason that there is no region.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("cannot use the folder: {0}")]
    Folder(io::Error),
    #[error("{0}")]
    Start(String),
    #[error(transparent)]
    Page(#[from] AdminError),
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// Starts a region, prints its addresses by `say`, and waits until `is_over` or the end of random
/// faults. All of its processes have ended then.
///
/// # Errors
/// When it cannot be started.
pub fn up(
    settings: &Settings,
    mut is_over: impl FnMut() -> bool,
    mut say: impl FnMut(&str),
) -> Result<Option<Outcome>, DemoError> {
    let time = Stopwatch::start();
    settings.chaos.map_or(Ok(()), chaos::check).map_err(DemoError::Start)?;
    let home = Home::open(settings.folder.as_deref()).map_err(DemoError::Folder)?;
    say(&format!("region in {}", home.path().display()));
    let outcome = start(settings, home.clone(), time, &mut is_over, &mut say);
    match &outcome {
        // The logs of the parts help to find the reason.
        Ok(Some(found)) if !found.wrong.is_empty() => {
            say(&format!("the logs of the region are in {}", home.path().display()));
        }
        _ => home.clear(),
    }
    outcome
}

fn start(
    settings: &Settings,
    home: Home,
    time: Stopwatch,
    is_over: &mut impl FnMut() -> bool,
    say: &mut impl FnMut(&str),
) -> Result<Option<Outcome>, DemoError> {
    let (sender, started) = channel();
    let (programs, seed) = (settings.programs.clone(), settings.seed);
    thread::Builder::new().name("start".to_owned()).spawn(move || {
        // After an early end the result is not needed: the process ends, and its children with it.
        let _ = sender.send(World::start(home, programs, seed));
    })?;
    let world = loop {
        match started.recv_timeout(LOOK) {
            Ok(world) => break world.map_err(DemoError::Start)?,
            Err(RecvTimeoutError::Timeout) if is_over() => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(DemoError::Start("the region panicked".to_owned()));
            }
        }
    };
    let outcome = run(settings, &world, time, is_over, say);
    world.end();
    let events = world.events.events();
    let lines: Vec<String> =
        events.iter().rev().map(|event| format!("{} {}\n", event.at_ms, event.what)).collect();
    // A missing file does not change the outcome.
    let _ = world.home.write("events.log", &lines.concat());
    outcome
}

fn run(
    settings: &Settings,
    world: &Arc<World>,
    time: Stopwatch,
    is_over: &mut impl FnMut() -> bool,
    say: &mut impl FnMut(&str),
) -> Result<Option<Outcome>, DemoError> {
    world.begin()?;
    let place = format!("127.0.0.1:{}", settings.port);
    let page = web::serve(&place, settings.token_file.as_deref(), world)?;
    // A user who may use the folder may do everything.
    let control = web::serve(&format!("unix:{}", world.home.file(CONTROL).display()), None, world)?;
    world.left_out.iter().for_each(|what| say(&format!("skipped: {what}")));
    say(&format!("page: http://{}/", page.address()));
    while world.counts.get(Count::Reads) == 0 && !is_over() {
        thread::sleep(LOOK);
    }
    say(&format!("first reply after {:.1} s", time.elapsed().as_secs_f64()));
    hints(say);
    if let Some(length) = settings.chaos {
        chaos::begin(world, settings.seed, length).map_err(DemoError::Start)?;
    }
    let outcome = loop {
        let outcome = world.chaos().and_then(|chaos| chaos.outcome).filter(|_| settings.chaos.is_some());
        if outcome.is_some() || is_over() {
            break outcome;
        }
        thread::sleep(LOOK);
    };
    control.end();
    page.end();
    Ok(outcome)
}

fn hints(say: &mut impl FnMut(&str)) {
    let verbs: Vec<&str> = KINDS.iter().map(|kind| kind.verb).collect();
    say("cause faults on the page or from another terminal:");
    say("  guira fleet break kill node --for 10s");
    say("  guira fleet break random --for 1m");
    say(&format!("  ({}: guira fleet break --list)", verbs.join(", ")));
    say("stop with Ctrl-C");
}
