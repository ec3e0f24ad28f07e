//! `shutdown`: ends the server by the signal that an operator would send.

use super::answer::Answer;
use guira_contract::Switch;
use rustix::process::Signal;

pub(super) fn run(enabled: Switch, words: &[&str]) -> Answer {
    let signal = match words {
        _ if enabled == Switch::Off => return "SERVER_ERROR: shutdown not enabled".into(),
        [] => Signal::INT,
        ["graceful"] => Signal::USR1,
        _ => return "CLIENT_ERROR invalid shutdown mode".into(),
    };
    match rustix::process::kill_process(rustix::process::getpid(), signal) {
        Ok(()) => Answer::Close,
        Err(error) => Answer::Line(format!("SERVER_ERROR cannot shut down: {error}")),
    }
}
