//! A part of the region: a process, and the connections to it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use guira_harness::deadline::Deadline;
use guira_sync::atomic::{AtomicBool, Ordering};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use crate::child::Spawner;
use crate::relay::{Flow, Relay};

/// The longest time that a program takes to start.
const START_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Etcd,
    Node,
    Member,
    Gutter,
    Router,
    Database,
    Invalidator,
}

impl Role {
    pub(crate) const ALL: [Role; 7] =
        [Role::Etcd, Role::Node, Role::Member, Role::Gutter, Role::Router, Role::Database, Role::Invalidator];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Etcd => "etcd",
            Role::Node => "node",
            Role::Member => "member",
            Role::Gutter => "gutter",
            Role::Router => "router",
            Role::Database => "database",
            Role::Invalidator => "invalidator",
        }
    }
}

pub(crate) struct Plan {
    pub(crate) role: Role,
    /// The number among the parts of this role; `None` for a single part.
    pub(crate) number: Option<usize>,
    pub(crate) words: Vec<OsString>,
    /// The Unix socket at which the part listens. A killed process leaves it behind.
    pub(crate) socket: Option<PathBuf>,
    /// The relay through which other parts reach this one.
    pub(crate) relay: Option<Relay>,
    /// Whether the part serves requests.
    pub(crate) answers: Box<dyn Fn() -> bool + Send + Sync>,
}

/// A process that can be killed, stopped and started again.
pub(crate) struct Part {
    pub(crate) name: String,
    plan: Plan,
    log: PathBuf,
    spawner: Arc<Spawner>,
    /// LOCK: demo_part. Leaf.
    process: Mutex<Option<Child>>,
    /// Whether a fault holds the part, so that it is not restarted when it ends.
    is_held: AtomicBool,
}

impl Part {
    pub(crate) fn new(plan: Plan, folder: &std::path::Path, spawner: &Arc<Spawner>) -> Self {
        let role = plan.role.name();
        let name = plan.number.map_or_else(|| role.to_owned(), |number| format!("{role}-{number}"));
        let log = folder.join(format!("{name}.log"));
        let spawner = spawner.clone();
        Part { name, plan, log, spawner, process: Mutex::default(), is_held: AtomicBool::new(false) }
    }

    pub(crate) fn role(&self) -> Role {
        self.plan.role
    }

    pub(crate) fn relay(&self) -> Option<&Relay> {
        self.plan.relay.as_ref()
    }

    pub(crate) fn socket(&self) -> Option<&PathBuf> {
        self.plan.socket.as_ref()
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the part if it does not run, and waits until it serves.
    ///
    /// # Errors
    /// The output of the part, if it does not.
    pub(crate) fn start(&self) -> Result<(), String> {
        self.launch().map_err(|error| format!("cannot start {}: {error}", self.name))?;
        let answers = || match self.ended() {
            Some(how) => Some(Err(how)),
            None => (self.plan.answers)().then_some(Ok(())),
        };
        let why = match Deadline::after(START_MAX).poll(answers) {
            Some(Ok(())) => {
                self.flow(Flow::Open);
                return Ok(());
            }
            Some(Err(how)) => how,
            None => format!("no reply within {START_MAX:?}"),
        };
        Err(format!("cannot start {}: {why}: {}", self.name, self.last_words()))
    }

    fn launch(&self) -> io::Result<()> {
        let mut process = self.process();
        if process.is_some() {
            return Ok(());
        }
        if let Some(socket) = &self.plan.socket {
            // At the first start the socket is missing.
            let _ = fs::remove_file(socket);
        }
        *process = Some(self.spawner.start(&self.plan.words, &self.log)?);
        Ok(())
    }

    /// The exit status, if the part was started and has ended. It can be started again then.
    pub(crate) fn ended(&self) -> Option<String> {
        let mut process = self.process();
        let status = process.as_mut()?.try_wait().ok().flatten()?;
        *process = None;
        Some(format!("the process exited with {status}"))
    }

    fn last_words(&self) -> String {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    pub(crate) fn is_running(&self) -> bool {
        self.process().is_some()
    }

    pub(crate) fn kill(&self) {
        let taken = self.process().take();
        if let Some(mut process) = taken {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
        self.flow(Flow::Closed);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // It may have ended by itself.
            let _ = kill_process(pid, signal);
        }
    }

    fn pid(&self) -> Option<Pid> {
        let id = i32::try_from(self.process().as_ref()?.id()).ok()?;
        Pid::from_raw(id)
    }

    /// Forbids or allows its files to grow, as on a full disk; a write fails with EFBIG.
    pub(crate) fn limit_files(&self, limit: Option<u64>) {
        let Some(pid) = self.pid() else { return };
        // The hard limit stays, so that the soft limit can be restored.
        let maximum = getrlimit(Resource::Fsize).maximum;
        let _ = prlimit(Some(pid), Resource::Fsize, Rlimit { current: limit.or(maximum), maximum });
    }

    pub(crate) fn flow(&self, flow: Flow) {
        if let Some(relay) = &self.plan.relay {
            relay.set(flow);
        }
    }

    /// Holds the part, so that no other fault breaks it and it is not restarted. Returns false if
    /// it is held already.
    pub(crate) fn hold(&self) -> bool {
        !self.is_held.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn let_go(&self) {
        self.is_held.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }
}
