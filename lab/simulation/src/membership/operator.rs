//! An operator who drains a slot with `guira fleet drain`: the command itself, as a process of the machine.

use super::SLOTS;
use crate::programs::{ETCD_POOL, host, server};
use crate::tasks::lock;
use guira_world::hooks;
use guira_world::net::set_host;
use guira_world::scheduler::{draw, start};
use guira_world::thread::sleep;
use guira_world::time;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The host of the operator.
const PLACE: u8 = 70;
/// A command that was interrupted by faults, and is started again after them, ends within this time.
const LAST: Duration = Duration::from_secs(60);

/// How far a drain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// The command has ended without success, and may be started again.
    Failed,
    Done,
}

#[derive(Clone, Debug)]
pub(super) struct Operator {
    state: Arc<Mutex<State>>,
    words: Vec<String>,
}

impl Operator {
    /// Drains a slot some seconds later, in three of four seeds.
    pub(super) fn draw(etcds: &[u8]) -> Operator {
        let urls: Vec<String> = etcds.iter().map(|number| format!("http://{}", server(*number))).collect();
        let slot = draw(SLOTS as u64);
        let words =
            format!("guira fleet --etcd {} drain {ETCD_POOL} {slot} --settle 4s --within 3s", urls.join(","));
        let words = words.split(' ').map(str::to_owned).collect();
        let operator = Operator { state: Arc::new(Mutex::new(State::Done)), words };
        if draw(4) > 0 {
            operator.begin(Duration::from_millis(draw(12_000)));
        }
        operator
    }

    fn begin(&self, delay: Duration) {
        *lock(&self.state) = State::Running;
        let (state, words) = (self.state.clone(), self.words.clone());
        let process = start("operator", move || {
            sleep(delay);
            let code = guira_program::run(words.into_iter().map(OsString::from).collect());
            let is_done = code == ExitCode::SUCCESS;
            tracing::info!("the drain has ended: {code:?}");
            if is_done {
                hooks::sometimes("slot-drained");
            }
            *lock(&state) = if is_done { State::Done } else { State::Failed };
        });
        set_host(process, host(PLACE));
    }

    /// Waits for the end of the drain, and starts the command again as long as it fails.
    pub(super) fn finish(&self) -> Result<(), String> {
        let limit = time::now() + LAST;
        while time::now() < limit {
            let state = *lock(&self.state);
            match state {
                State::Done => return Ok(()),
                State::Failed => self.begin(Duration::from_secs(1)),
                State::Running => sleep(Duration::from_millis(100)),
            }
        }
        Err(format!("the drain has not ended: {:?}", *lock(&self.state)))
    }
}
