//! Starting the successor of a server, when SIGUSR2 asks for it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a process was started as.
#[derive(Debug)]
pub(crate) struct Program {
    /// Its file, as it was called at the start; an upgrade puts another there.
    file: Option<PathBuf>,
    words: Vec<OsString>,
}

impl Program {
    /// That of this process. To be called at its start.
    pub(crate) fn of_this_process() -> Self {
        Program { file: std::env::current_exe().ok(), words: std::env::args_os().collect() }
    }

    /// Starts it once more, with the same arguments. If that fails, the log says so, and nothing else happens.
    pub(crate) fn start(&self) {
        let (Some(file), Some((name, words))) = (&self.file, self.words.split_first()) else {
            // Operator: Start the new server by hand with the same `--takeover` path.
            tracing::error!("cannot start the new server process: the path of this program is unknown");
            return;
        };
        let mut command = Command::new(file);
        command.arg0(name).args(words).stdin(Stdio::null());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                // Operator: Check that the program's file exists and may be executed; then send SIGUSR2
                // again.
                tracing::error!(%error, file = %file.display(), "cannot start the new server process");
                return;
            }
        };
        tracing::info!(pid = child.id(), file = %file.display(), "started the new server process; waiting \
            for it to take over");
        // It outlives this process if it takes over. If not, somebody has to hear of its end.
        let waiting = std::thread::Builder::new().name("successor".to_owned()).spawn(move || {
            if let Ok(status) = child.wait() {
                // Operator: Read the log lines of the new process above; the old server keeps serving.
                tracing::warn!(%status, "the new server process exited");
            }
        });
        if let Err(error) = waiting {
            // Operator: Check by `takeovers` in `stats` whether the takeover succeeded.
            tracing::warn!(%error, "cannot watch the new server process; its exit will not be logged");
        }
    }
}
