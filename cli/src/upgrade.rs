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
            tracing::error!("no successor is started: it is not known what this process was started as");
            return;
        };
        let mut command = Command::new(file);
        command.arg0(name).args(words).stdin(Stdio::null());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                tracing::error!(%error, file = %file.display(), "no successor is started");
                return;
            }
        };
        tracing::info!(pid = child.id(), file = %file.display(), "a successor is started");
        // It outlives this process if it takes over. If not, somebody has to hear of its end.
        let waiting = std::thread::Builder::new().name("successor".to_owned()).spawn(move || {
            if let Ok(status) = child.wait() {
                tracing::warn!(%status, "the successor has ended");
            }
        });
        if let Err(error) = waiting {
            tracing::warn!(%error, "the end of the successor will not be noticed");
        }
    }
}
