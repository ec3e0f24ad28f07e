//! Processes that end when this one does, however it ends.
//!
//! The kernel kills a process when its parent ends, if the process has requested that
//! (`PR_SET_PDEATHSIG`). So each program is started by a hidden subcommand of `guira-lab`, which
//! sends the request and then becomes the program. The kernel watches the *thread* that started the
//! process: one thread that never ends starts all of them.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

/// Becomes the program of `words`, which is killed when the process `parent` ends. Returns only on
/// an error.
pub fn become_bound(parent: u32, words: &[OsString]) -> io::Error {
    let Some((program, arguments)) = words.split_first() else {
        return io::Error::other("no program is given");
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // The parent may have ended before the request.
    let is_there = getppid().is_some_and(|pid| pid.as_raw_nonzero().get().unsigned_abs() == parent);
    if !is_there {
        return io::Error::other("the parent process has exited");
    }
    Command::new(program).args(arguments).exec()
}

/// A program to start, and the channel for the result.
struct Order {
    command: Command,
    spawned: Sender<io::Result<Child>>,
}

/// The binaries of a region.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `guira`: nodes, members, routers, the invalidator.
    pub guira: PathBuf,
    /// `guira-lab`, which starts each program so that it ends with the region.
    pub lab: PathBuf,
}

#[derive(Debug)]
pub(crate) struct Spawner {
    programs: Programs,
    orders: Sender<Order>,
}

impl Spawner {
    /// A spawner that starts programs through `guira-lab`.
    ///
    /// # Errors
    /// When there is no thread left.
    pub(crate) fn open(programs: Programs) -> io::Result<Self> {
        let (orders, taken) = channel::<Order>();
        std::thread::Builder::new().name("spawner".to_owned()).spawn(move || {
            for Order { mut command, spawned } in taken {
                // The sender of an order waits for its result.
                let _ = spawned.send(command.spawn());
            }
            // Ending this thread would kill its children: it ends with the process.
            loop {
                std::thread::park();
            }
        })?;
        Ok(Spawner { programs, orders })
    }

    /// The binary of most parts.
    pub(crate) fn guira(&self) -> &Path {
        &self.programs.guira
    }

    /// Starts the program of `words`, whose output goes to the file `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(&self, words: &[OsString], log: &Path) -> io::Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        let mut command = Command::new(&self.programs.lab);
        command.args(["child", "--parent", &number(getpid()).to_string(), "--"]).args(words);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // Signals of the terminal should reach this process only.
        command.process_group(0);
        let (spawned, answer) = channel();
        let gone = || io::Error::other("the region is stopping");
        self.orders.send(Order { command, spawned }).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}
