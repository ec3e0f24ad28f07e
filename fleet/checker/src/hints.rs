//! Receives hints: connections on which an invalidator or a router sends deletes as to a cache.
//!
//! No key exists here, so every delete is answered as a miss. Senders are not delayed: a hint is
//! only counted, and its key is compared with the sampled ones.

use crate::counters::Count;
use crate::shared::Shared;
use guira_client::text::{Listener, Socket};
use guira_protocol::KEY_MAX;
use guira_sync::atomic::{AtomicUsize, Ordering};
use guira_sync::stop::Stopped;
use guira_sync::thread;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

/// Connections at the same time. Others are closed at once.
const CONNECTIONS_MAX: usize = 64;
/// The longest line, in bytes: a key and its flags.
const LINE_MAX: usize = 2048;
const BUFFER: usize = 64 << 10;
/// A read that finds nothing comes back after this time.
const READ_WAIT: Duration = Duration::from_secs(1);

/// Counts a connection as long as it is there.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        // Relaxed: it bounds a number, and orders nothing.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Accepts connections until the checker stops.
pub(crate) fn listen(listener: &Listener, shared: &Arc<Shared>) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        match listener.accept(&shared.stop, READ_WAIT) {
            Ok(Ok(socket)) => {
                // Relaxed: as in drop.
                let others = open.fetch_add(1, Ordering::Relaxed);
                let place = Place(open.clone());
                if others >= CONNECTIONS_MAX {
                    shared.counts.add(Count::Crowded);
                    continue;
                }
                let shared = shared.clone();
                let serve = move || {
                    let _place = place;
                    let _ended = serve(&socket, &shared);
                };
                if let Err(error) = thread::Builder::new().name("hints".to_owned()).spawn(serve) {
                    // Operator: Raise the limit of processes and threads (`TasksMax=`).
                    tracing::error!("closed a client's connection: cannot start a thread for it: {error}");
                }
            }
            Err(Stopped) => return,
            Ok(Err(error)) => {
                // Operator: Raise the limit of open files.
                tracing::warn!("cannot accept connections; retrying: {error}");
                if shared.stop.wait(Duration::from_millis(100)).is_err() {
                    return;
                }
            }
        }
    }
}

/// Answers lines until the other side ends, or we do.
fn serve(socket: &Socket, shared: &Shared) -> io::Result<()> {
    let (mut buffer, mut length) = (vec![0; BUFFER], 0);
    while shared.stop.check().is_ok() {
        match (&mut &*socket).read(&mut buffer[length..]) {
            Ok(0) => return Ok(()),
            Ok(count) => length += count,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                ) =>
            {
                continue;
            }
            Err(error) => return Err(error),
        }
        let (mut start, mut answers) = (0, Vec::new());
        while let Some(end) = buffer[start..length].iter().position(|byte| *byte == b'\n') {
            let line = &buffer[start..start + end];
            take(line.strip_suffix(b"\r").unwrap_or(line), shared, &mut answers);
            start += end + 1;
        }
        buffer.copy_within(start..length, 0);
        length -= start;
        if length > LINE_MAX {
            shared.counts.add(Count::Refused);
            answers.extend_from_slice(b"CLIENT_ERROR line too long\r\n");
        }
        (&mut &*socket).write_all(&answers)?;
        if length > LINE_MAX {
            return Ok(());
        }
    }
    Ok(())
}

/// Takes a line, and puts the answer to it, if it has one, behind the others.
fn take(line: &[u8], shared: &Shared, answers: &mut Vec<u8>) {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (verb, key) = (words.next().unwrap_or_default(), words.next());
    let is_key = |key: &[u8]| key.len() <= KEY_MAX && key.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    let mut refuse = |text: &[u8]| {
        shared.counts.add(Count::Refused);
        answers.extend_from_slice(text);
    };
    match (verb, key) {
        (b"md", Some(key)) if is_key(key) => {
            let flags: Vec<&[u8]> = words.collect();
            if flags.contains(&&b"b"[..]) {
                return refuse(b"CLIENT_ERROR keys in base64 are not known here\r\n");
            }
            shared.hint(key);
            // The quiet form does not answer what found nothing.
            if !flags.contains(&&b"q"[..]) {
                answers.extend_from_slice(b"NF");
                for flag in flags.iter().filter(|flag| flag.starts_with(b"O")) {
                    answers.extend([b" ", *flag].concat());
                }
                if flags.contains(&&b"k"[..]) {
                    answers.extend([b" k", key].concat());
                }
                answers.extend_from_slice(b"\r\n");
            }
        }
        (b"delete", Some(key)) if is_key(key) => {
            shared.hint(key);
            if words.next_back() != Some(b"noreply") {
                answers.extend_from_slice(b"NOT_FOUND\r\n");
            }
        }
        (b"mn", None) => answers.extend_from_slice(b"MN\r\n"),
        (b"flush_all", _) => {
            shared.counts.add(Count::Flushes);
            answers.extend_from_slice(b"OK\r\n");
        }
        (b"version", None) => {
            answers
                .extend_from_slice(concat!("VERSION guira ", env!("CARGO_PKG_VERSION"), "\r\n").as_bytes());
        }
        (b"md" | b"delete", _) => refuse(b"CLIENT_ERROR bad command line format\r\n"),
        _ => refuse(b"ERROR\r\n"),
    }
}
