//! Processes that end when this one does, however it ends.
//!
//! The system kills a process whose parent has ended, if the process has asked for it (`PR_SET_PDEATHSIG`). So each program is started by a hidden
//! subcommand of `guira-lab`, which asks, and becomes the program. What counts is the *thread* that has started it: all are started by one that never ends.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

/// Becomes the program of `words`, which is killed when the process `parent` ends. Returns only if that cannot be.
pub fn become_bound(parent: u32, words: &[OsString]) -> io::Error {
    let Some((program, arguments)) = words.split_first() else {
        return io::Error::other("no program is given");
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // It may have ended before it was requested.
    let is_there = getppid().is_some_and(|pid| pid.as_raw_nonzero().get().unsigned_abs() == parent);
    if !is_there {
        return io::Error::other("the parent process has exited");
    }
    Command::new(program).args(arguments).exec()
}

/// What is to be started, and who is told.
struct Order {
    command: Command,
    spawned: Sender<io::Result<Child>>,
}

/// The binaries that a region is made of.
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
    /// One that starts programs by way of `guira-lab`.
    ///
    /// # Errors
    /// When there is no thread left.
    pub(crate) fn open(programs: Programs) -> io::Result<Self> {
        let (orders, taken) = channel::<Order>();
        std::thread::Builder::new().name("spawner".to_owned()).spawn(move || {
            for Order { mut command, spawned } in taken {
                // Nobody who has asked is gone before it is answered.
                let _ = spawned.send(command.spawn());
            }
            // Its children would be killed: they end with the process.
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
        // A signal that the terminal sends to all that run in it is for this process alone.
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
