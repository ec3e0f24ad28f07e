//! Running a server until a signal or a client stops it.

use std::io::Write;
use std::sync::mpsc::channel;

use guira_server::{Ending, Inherited, Options, Running, Secrets};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::failure::Failure;
use crate::log;
use crate::notify::{Notifier, STATUS_EVERY};

/// After which signals a server with a region keeps its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// After all that end it in order.
    Always,
    /// After SIGUSR1 only, as memcached.
    OnlyForUsr1,
}

/// Prints `text`.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::system("cannot print"))
}

/// Runs a server until a signal ends it; a client's `shutdown` is a signal too. Once it serves, it is announced; what comes of that is kept
/// as long as it does.
pub(crate) fn serve<T>(
    options: &Options,
    secrets: Secrets,
    inherited: Vec<Inherited>,
    announce: impl FnOnce(&Running) -> Result<T, Failure>,
    keeps: Keeps,
) -> Result<(), Failure> {
    let result = serve_until_signal(options, secrets, inherited, announce, keeps);
    log::flush();
    result
}

fn serve_until_signal<T>(
    options: &Options,
    secrets: Secrets,
    inherited: Vec<Inherited>,
    announce: impl FnOnce(&Running) -> Result<T, Failure>,
    keeps: Keeps,
) -> Result<(), Failure> {
    // Before the workers start, so that none of them takes the signals.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGHUP])
        .map_err(Failure::system("cannot wait for signals"))?;
    let running = guira_server::start(options, secrets, inherited)?;
    let _announced = match announce(&running) {
        Ok(announced) => announced,
        Err(failure) => {
            // It has served no client: what the region holds is for the next server.
            if let Err(error) = running.stop(Ending::Kept) {
                tracing::error!(%error, "the server that could not be announced did not end in order");
            }
            return Err(failure);
        }
    };
    let signal = follow(&mut signals, &running);
    tracing::info!(signal, "the server stops");
    let kept = signal == Some(SIGUSR1) || keeps == Keeps::Always;
    Ok(running.stop(if kept { Ending::Kept } else { Ending::Discarded })?)
}

/// Waits for a signal that ends the server, and reloads files when SIGHUP asks for it. The service manager is notified of all that.
/// Returns the signal.
fn follow(signals: &mut Signals, running: &Running) -> Option<i32> {
    let notifier = Notifier::from_environment();
    let (addresses, server) = (addresses(running), running.status());
    let status = || {
        let (items, connections) = (server.items(), server.connections());
        format!("listening on {addresses}; {items} items, {connections} connections")
    };
    notifier.ready(&status());
    let signal = std::thread::scope(|scope| {
        // Dropped at the end of this block, or when something panics: the thread ends.
        let (_alive, end) = channel();
        if notifier.is_wanted() {
            scope.spawn(|| notifier.keep_notifying(STATUS_EVERY, end, status));
        }
        for signal in signals.forever() {
            if signal != SIGHUP {
                return Some(signal);
            }
            notifier.reloading();
            running.reload();
            notifier.ready(&status());
        }
        None
    });
    notifier.stopping();
    signal
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
