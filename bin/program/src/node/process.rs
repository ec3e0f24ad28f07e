//! What a daemon does about itself before it serves: limits, identity, background, its number in a file.

use std::fs;
use std::path::{Path, PathBuf};

use guira_server::read_file;
use nix::unistd::{Gid, Uid, User, daemon, getuid, setgid, setgroups, setuid};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::SIGSYS;
use signal_hook::iterator::Signals;

use guira_cli::failure::Failure;
use guira_cli::whole;

/// Descriptors besides those of connections: listeners, event loops, bells, files.
const OTHER_DESCRIPTORS: u64 = 256;

/// Allows as many descriptors as `connections` need, and core files if they are wanted.
///
/// # Errors
/// If core files are wanted and not allowed. Too few descriptors are a warning: connections beyond them wait.
pub(crate) fn set_limits(connections: u64, coredumps: Coredumps) -> Result<(), Failure> {
    let needed = connections.saturating_add(OTHER_DESCRIPTORS);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let maximum = limit.maximum.map(|maximum| maximum.max(needed));
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum });
        if raised.is_err() {
            // Not ours to raise above the maximum: as far as it goes.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
            let allowed = limit.maximum.unwrap_or(0);
            eprintln!(
                "warning: {connections} connections need {needed} descriptors, and {allowed} are allowed"
            );
        }
    }
    if coredumps == Coredumps::Wanted {
        let all = Rlimit { current: None, maximum: None };
        let maximum = getrlimit(Resource::Core).maximum;
        setrlimit(Resource::Core, all)
            .or_else(|_| setrlimit(Resource::Core, Rlimit { current: maximum, maximum }))
            .map_err(|error| Failure::system("cannot allow core files")(error.into()))?;
    }
    Ok(())
}

/// As many connections as the system lets this process have descriptors for, or a million if it sets no limit.
pub(crate) fn most_connections() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(1 << 20).saturating_sub(OTHER_DESCRIPTORS).max(1)
}

/// Adds the signal of refused system calls to `signals`, if this process is restricted to listed calls; after each,
/// [`guira_sandbox::report`] has to be called. To be called after the restriction: the handler of that stays in effect.
pub(crate) fn watch_refusals(signals: &Signals) {
    if !guira_sandbox::is_restricted() {
        return;
    }
    if let Err(error) = signals.add_signal(SIGSYS) {
        // Operator: Read refused calls from the metric of refused system calls; they are not logged.
        tracing::warn!(%error, "cannot watch for refused system calls");
    }
    guira_sandbox::report();
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coredumps {
    Wanted,
    AsTheyAre,
}

/// The user and group that a process runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    Unchanged,
    User(Uid, Gid),
}

impl Identity {
    /// The identity of the user called `name`, if this process is root; otherwise its own.
    ///
    /// # Errors
    /// If there is no such user, or the process is root and no user is named, as in memcached.
    pub(crate) fn of_memcached(name: Option<&str>) -> Result<Self, Failure> {
        if !getuid().is_root() {
            return Ok(Identity::Unchanged);
        }
        match name {
            None | Some("") => Err(Failure::usage("must add '-u root' to start as root")),
            Some(name) => Self::of(name),
        }
    }

    /// The identity of the user called `name`.
    ///
    /// # Errors
    /// If there is no such user.
    pub(crate) fn of(name: &str) -> Result<Self, Failure> {
        let user = User::from_name(name).ok().flatten();
        let user = user.ok_or_else(|| Failure::usage(format!("can't find the user {name} to switch to")))?;
        Ok(Identity::User(user.uid, user.gid))
    }

    /// Becomes it, for good.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn assume(&self) -> Result<(), Failure> {
        let Identity::User(uid, gid) = self else {
            return Ok(());
        };
        match setgroups(&[]) {
            // In a container the process may have no privilege to give up.
            Ok(()) | Err(nix::errno::Errno::EPERM) => {}
            Err(error) => return Err(Failure::system("cannot drop supplementary groups")(error.into())),
        }
        setgid(*gid)
            .and_then(|()| setuid(*uid))
            .map_err(|error| Failure::system("cannot assume the identity of the user")(error.into()))
    }
}

/// What a daemon does with its standard output and error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminal {
    Kept,
    /// They go to /dev/null.
    Dropped,
}

/// Which directory a daemon works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The one that it was started in.
    Kept,
    /// The root, so that no other is in use as long as it runs.
    Root,
}

/// Goes to the background. To be called before any thread is started.
///
/// # Errors
/// What the system says.
pub(crate) fn daemonize(terminal: Terminal, place: Place) -> Result<(), Failure> {
    daemon(place == Place::Kept, terminal == Terminal::Kept)
        .map_err(|error| Failure::system("cannot go to the background")(error.into()))
}

/// A file with the number of this process; it is removed when this is dropped, unless another process has written its own since.
#[derive(Debug)]
pub(crate) struct PidFile(PathBuf);

/// A file with a number is no longer.
const NUMBER_MAX: usize = 64;

impl PidFile {
    /// Writes the file.
    ///
    /// # Errors
    /// What the system says. A number in it that is another process's is a warning.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let text = read_file(path, NUMBER_MAX).ok().and_then(|text| String::from_utf8(text).ok());
        let number = text.and_then(|text| text.trim().parse::<u32>().ok());
        if let Some(number) = number.filter(|number| Path::new("/proc").join(number.to_string()).exists()) {
            eprintln!("warning: the pid file contained the number of a running process: {number}");
        }
        whole::write(path, &own_line()).map_err(Failure::system("cannot write the pid file"))?;
        Ok(PidFile(path.into()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if read_file(&self.0, NUMBER_MAX).is_ok_and(|text| text == own_line().as_bytes()) {
            // It may be gone already, which is as well.
            let _ = fs::remove_file(&self.0);
        }
    }
}

fn own_line() -> String {
    format!("{}\n", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_file_holds_the_number_of_the_process_as_long_as_it_serves() {
        let path = std::env::temp_dir().join(format!("guira-pid-{}", std::process::id()));
        let file = PidFile::create(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
        assert!(PidFile::create(Path::new("/nowhere/at/all")).is_err());
    }

    #[test]
    fn a_pid_file_that_is_another_processs_by_now_is_left_there() {
        let path = std::env::temp_dir().join(format!("guira-pid-other-{}", std::process::id()));
        let file = PidFile::create(&path).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_error_names_a_user_that_does_not_exist() {
        assert!(Identity::of("nobody-of-this-name").unwrap_err().to_string().contains("nobody-of-this-name"));
        assert!(matches!(Identity::of("root").unwrap(), Identity::User(uid, _) if uid.is_root()));
    }
}
