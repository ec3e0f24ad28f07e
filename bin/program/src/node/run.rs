//! Running a server until a signal or a client stops it.

use guira_sync::channel::channel;
use std::io::Write as _;
use std::sync::Mutex;

use guira_server::{Ending, Inherited, Options, Predecessor, Running, Secrets, Successor};
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGSYS, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::node::notify::{Notifier, STATUS_EVERY};
use crate::node::process;
use crate::node::upgrade::Program;
use guira_cli::failure::Failure;
use guira_cli::log;

/// After which signals a server with a region keeps its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// After all that end it in order.
    Always,
    /// After SIGUSR1 only, as memcached.
    OnlyForUsr1,
}

/// Runs a server until a signal ends it; a client's `shutdown` is a signal too. Once it serves, it is announced; what comes of that is kept
/// as long as it does.
pub(crate) fn serve<T>(
    options: &Options,
    secrets: Secrets,
    origin: Origin,
    announce: impl FnOnce(&Running) -> Result<T, Failure>,
    keeps: Keeps,
) -> Result<(), Failure> {
    let result = serve_until_signal(options, secrets, origin, announce, keeps);
    log::flush();
    result
}

/// What others have for a server.
#[derive(Debug)]
pub(crate) struct Origin {
    /// Sockets, of a service manager.
    pub(crate) inherited: Vec<Inherited>,
    pub(crate) predecessor: Option<Predecessor>,
}

impl Origin {
    /// What there is, for a server with these options. `inherited` is what a service manager has given to this process.
    ///
    /// # Errors
    /// If there is somebody to take over from, who refuses.
    pub(crate) fn find(options: &Options, mut inherited: Vec<Inherited>) -> Result<Self, Failure> {
        let found = options.takeover.as_deref().map(Predecessor::find).transpose();
        let mut predecessor =
            found.map_err(|error| Failure::from(guira_server::StartError::from(error)))?.flatten();
        inherited.extend(predecessor.iter_mut().flat_map(Predecessor::take_inherited));
        Ok(Origin { inherited, predecessor })
    }
}

fn serve_until_signal<T>(
    options: &Options,
    secrets: Secrets,
    origin: Origin,
    announce: impl FnOnce(&Running) -> Result<T, Failure>,
    keeps: Keeps,
) -> Result<(), Failure> {
    // Before the workers start, so that none of them takes the signals.
    // SIGUSR2 too, also where nobody can take over: it would end the server, and empty its region.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP])
        .map_err(Failure::system("cannot wait for signals"))?;
    // As it was called: after an upgrade another file has its name.
    let program = Program::of_this_process();
    let mut running = guira_node::start_after(options, secrets, origin.inherited, origin.predecessor)?;
    let _announced = match announce(&running) {
        Ok(announced) => announced,
        Err(failure) => {
            // It has served no client: what the region holds is for the next server.
            if let Err(error) = running.stop(Ending::Kept) {
                // Operator: Check `NOTIFY_SOCKET` and the pid file's folder; the error above it has the
                // cause.
                tracing::error!(%error, "the server could not report that it is ready, and did not stop \
                    cleanly");
            }
            return Err(failure);
        }
    };
    process::watch_refusals(&signals);
    let notifier = Notifier::from_environment();
    loop {
        match follow(&mut signals, &running, &notifier, &program) {
            Until::Signal(signal) => {
                notifier.stopping();
                tracing::info!(signal, "stopping on a signal");
                let kept = signal == Some(SIGUSR1) || keeps == Keeps::Always;
                return Ok(running.stop(if kept { Ending::Kept } else { Ending::Discarded })?);
            }
            Until::Successor(successor) => {
                let pid = successor.pid();
                match running.hand_over(successor)? {
                    None => {
                        if let Some(pid) = pid {
                            notifier.handed_over(pid);
                        }
                        return Ok(());
                    }
                    Some((back, _)) => running = back,
                }
            }
        }
    }
}

enum Until {
    Signal(Option<i32>),
    /// Somebody is ready to take over.
    Successor(Successor),
}

/// Waits for a signal that ends the server, and reloads files when SIGHUP asks for it. The service manager is notified of all that.
/// Returns what has ended its time.
fn follow(signals: &mut Signals, running: &Running, notifier: &Notifier, program: &Program) -> Until {
    let (addresses, server) = (addresses(running), running.status());
    let status = || {
        let (items, connections) = (server.items(), server.connections());
        format!("listening on {addresses}; {items} items, {connections} connections")
    };
    notifier.ready(&status());
    guira_server::release_start();
    let successor = Mutex::new(None);
    let taken = || successor.lock().ok().and_then(|mut successor| successor.take());
    std::thread::scope(|scope| {
        // Dropped at the end of this block, or when something panics: the thread ends.
        let (_alive, end) = channel();
        if notifier.is_wanted() {
            scope.spawn(|| notifier.keep_notifying(STATUS_EVERY, end, status));
        }
        let _closed = Closed(running);
        if let Some(door) = running.door() {
            scope.spawn(|| {
                if let (Some(found), Ok(mut successor)) = (door.wait(), successor.lock()) {
                    *successor = Some(found);
                    // The thread that waits for signals hears of it by one.
                    let _ = kill_process(getpid(), Signal::USR2);
                }
            });
        }
        for signal in signals.forever() {
            match signal {
                SIGHUP => {
                    notifier.reloading();
                    running.reload();
                    notifier.ready(&status());
                }
                SIGUSR2 => match taken() {
                    Some(successor) => return Until::Successor(successor),
                    None if running.door().is_some() && guira_sandbox::is_restricted() => {
                        // Operator: Start the new server by hand with the same `--takeover` path.
                        tracing::error!(
                            "cannot start the new server process: with `system-calls` listed the \
                            server starts no programs"
                        );
                    }
                    None if running.door().is_some() => program.start(),
                    // Operator: Set the option `takeover` to a socket path, and restart once.
                    None => tracing::warn!("ignoring SIGUSR2: a takeover needs the option takeover"),
                },
                SIGSYS => guira_sandbox::report(),
                signal => return Until::Signal(Some(signal)),
            }
        }
        Until::Signal(None)
    })
}

/// Closes the door of a server when it is dropped, so that the thread that waits there ends.
struct Closed<'a>(&'a Running);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        if let Some(door) = self.0.door() {
            door.close();
        }
    }
}

/// Where a server listens, in a line.
fn addresses(running: &Running) -> String {
    let streams = running.addresses().iter().map(ToString::to_string);
    let datagrams = running.udp_addresses().iter().map(|address| format!("udp {address}"));
    let mica = running.mica_addresses().iter().map(|address| format!("mica {address}"));
    let local = running.local().map(|path| format!("local {}", path.display()));
    let admin = running.admin_address().map(|address| format!("admin {address}"));
    streams.chain(datagrams).chain(mica).chain(local).chain(admin).collect::<Vec<_>>().join(", ")
}

/// Prints where a server listens and how memory is divided.
pub(crate) fn print_start(options: &Options, running: &Running) {
    // The parent process may be waiting for these lines, or may have closed the pipe.
    let mut out = std::io::stdout();
    for address in running.addresses() {
        let _ = writeln!(out, "listening on {address}");
    }
    for address in running.udp_addresses() {
        let _ = writeln!(out, "listening on udp {address}");
    }
    for address in running.mica_addresses() {
        let _ = writeln!(out, "listening on mica {address}");
    }
    if let Some(path) = running.local() {
        let _ = writeln!(out, "listening on local {}", path.display());
    }
    if let Some(address) = running.admin_address() {
        let _ = writeln!(out, "listening on admin {address}");
    }
    if let Some((place, opening)) = running.region() {
        let _ = writeln!(out, "region {place}: {opening}");
    }
    let mebibytes = |bytes: usize| format!("{:.1}MiB", bytes as f64 / (1u64 << 20) as f64);
    let parts: Vec<String> =
        running.memory().iter().map(|(what, bytes)| format!("{what} {}", mebibytes(*bytes))).collect();
    let _ = writeln!(out, "memory {}: {}; {} workers", options.memory, parts.join(", "), options.workers);
    let _ = out.flush();
}
