//! Many requests under way.

use super::error::ClientError;
use super::ledger::{Ledger, Outcome};
use guira_protocol::mica::{DATAGRAM_HEADER, Directory, Header, Operation, REQUEST_HEADER, Record};
use guira_protocol::{Exptime, KEY_MAX};
use guira_sync::clock::Stopwatch;
use guira_transport::{BURST_MAX, ClientPath, PAYLOAD_MAX};
use std::io;
use std::time::Duration;

/// Names a request to whoever has made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// As much is under way as may be: take answers first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// Bytes that key and value may have together to fit into a datagram.
pub const ITEM_MAX: usize = PAYLOAD_MAX - DATAGRAM_HEADER - REQUEST_HEADER;

/// How a courier works.
#[derive(Clone, Copy, Debug)]
pub struct CourierOptions {
    /// Requests in a datagram, at most.
    pub per_datagram: u16,
    /// Datagrams under way, at most; rounded up to a power of two.
    pub window: usize,
    /// How long an answer is waited for at first; each time after that, twice as long as before.
    pub patience: Duration,
    /// How often it is waited for again, at most [`REPEATS_MAX`] times. What may be sent again is sent again each time.
    pub repeats: u32,
}

/// How often an answer can be waited for again.
pub const REPEATS_MAX: u32 = 16;

impl CourierOptions {
    /// How long an answer is waited for, the time after it was waited for so often already.
    pub(super) fn patience_after(&self, waits: u32) -> Duration {
        self.patience.saturating_mul(1 << waits.min(REPEATS_MAX))
    }

    /// How long a request is under way before it is given up.
    pub fn patience_in_all(&self) -> Duration {
        self.patience.saturating_mul((2 << self.repeats.min(REPEATS_MAX)) - 1)
    }
}

/// 1.26 s until a request is given up.
impl Default for CourierOptions {
    fn default() -> Self {
        CourierOptions { per_datagram: 64, window: 64, patience: Duration::from_millis(20), repeats: 5 }
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'r> {
    /// What is to be done.
    pub operation: Operation,
    /// The key.
    pub key: &'r [u8],
    /// The value to store, or the number to add as 8 bytes.
    pub value: &'r [u8],
    /// Flags to store.
    pub flags: u32,
    /// When it is to expire, as in memcached: 0 for never, seconds from now up to 30 days, or seconds since 1970.
    pub exptime: i32,
}

impl<'r> Request<'r> {
    /// Asks for something about a key, without a value.
    pub fn of(operation: Operation, key: &'r [u8]) -> Self {
        Request { operation, key, value: &[], flags: 0, exptime: 0 }
    }

    #[inline(always)]
    pub(super) fn record(&self, hash: u64) -> Record<'r> {
        Record {
            operation: Some(self.operation),
            key: self.key,
            value: self.value,
            flags: self.flags,
            exptime: Exptime(self.exptime),
            hash,
        }
    }

    fn check(&self) -> Result<(), ClientError> {
        let least = usize::from(self.operation != Operation::Noop);
        if !(least..=KEY_MAX).contains(&self.key.len()) {
            return Err(ClientError::Key(self.key.len()));
        }
        let bytes = self.key.len() + self.value.len();
        if bytes > ITEM_MAX {
            return Err(ClientError::TooLong { bytes });
        }
        Ok(())
    }
}

/// Has many requests under way. Time is told by whoever uses it, from any beginning.
#[derive(Debug)]
pub struct Courier<P> {
    path: P,
    ledger: Ledger,
    /// When the directory was last asked for.
    asked: Option<Duration>,
}

/// How often the directory is asked for before there is nobody who knows it.
const QUESTIONS: u32 = 50;

/// Whose question for the directory it is, before there is a courier.
const LEARNER: u64 = u64::from_le_bytes(*b"learning");

/// Asks the server at the other end of `path` how it divides keys.
///
/// # Errors
/// If no answer comes, although it was asked for some times, `patience` each.
pub fn learn(path: &mut impl ClientPath, patience: Duration) -> Result<Directory, ClientError> {
    let mut found = None;
    for sequence in 0..QUESTIONS {
        if let Some(room) = path.room(0) {
            let length = Directory::ask(sequence, LEARNER, room);
            path.post(length);
        }
        path.flush()?;
        let is_ours = |bytes: &[u8]| Header::read(bytes).is_ok_and(|header| header.opaque == LEARNER);
        // A wait may end early without an answer: a port that is not open yet is told of at once.
        let watch = Stopwatch::start();
        while let Some(left) = patience.checked_sub(watch.elapsed()) {
            path.wait(left)?;
            let mut take = |bytes: &[u8]| found = found.or(Directory::read(bytes).filter(|_| is_ours(bytes)));
            while path.receive(&mut take)? > 0 {}
            if let Some(directory) = found {
                return Ok(directory);
            }
        }
    }
    Err(ClientError::Silent)
}

impl<P: ClientPath> Courier<P> {
    /// Sends along `path` to the server that has told the directory. `id` is any number that no other courier of the server has: answers to
    /// somebody else, or to an earlier courier with the same address, are told by it.
    ///
    /// # Errors
    /// If the path cannot reach all threads of the server.
    pub fn new(mut path: P, directory: Directory, id: u64, options: CourierOptions) -> io::Result<Self> {
        path.reach(usize::from(directory.cores))?;
        Ok(Courier { path, ledger: Ledger::new(directory, id, options), asked: None })
    }

    #[cfg(test)]
    pub(super) fn path(&mut self) -> &mut P {
        &mut self.path
    }

    /// How the server divides keys.
    pub fn directory(&self) -> Directory {
        self.ledger.directory
    }

    /// Adds a request, which is sent with the next [`Courier::flush`] if not before. `Ok(Err(Busy))` if too much is under way.
    ///
    /// Requests that are under way at the same time may be executed in any order, but for those in one datagram. Whoever needs an order waits for the
    /// answer.
    ///
    /// # Errors
    /// If the request can never be sent.
    #[inline(always)]
    pub fn ask(&mut self, request: &Request<'_>, ticket: Ticket) -> Result<Result<(), Busy>, ClientError> {
        request.check()?;
        Ok(self.ledger.ask(request, ticket, 0))
    }

    /// Sends what was asked so far.
    ///
    /// # Errors
    /// If the path is of no more use.
    pub fn flush(&mut self, now: Duration) -> io::Result<()> {
        let Courier { path, ledger, .. } = self;
        ledger.ask_again();
        ledger.seal_all();
        send(path, ledger, now);
        path.flush()
    }

    /// Tells what became of requests, and how many it told of. Sends again what has to be.
    ///
    /// # Errors
    /// If the path is of no more use.
    #[inline(always)]
    pub fn poll(&mut self, now: Duration, tell: &mut dyn FnMut(Ticket, Outcome<'_>)) -> io::Result<usize> {
        let Courier { path, ledger, .. } = self;
        let mut told = 0;
        let received = path.receive(&mut |datagram| told += ledger.receive(datagram, tell))?;
        // Behind a full burst there may be answers that are late only because this thread was.
        if received < BURST_MAX {
            told += ledger.look_at_time(now, tell);
        }
        let cores = usize::from(ledger.directory.cores);
        if cores != path.cores() {
            path.reach(cores)?;
        }
        if ledger.moved {
            self.ask_directory(now)?;
        } else if ledger.is_waiting() {
            if ledger.held() > 0 {
                ledger.ask_again();
                ledger.seal_all();
            }
            send(path, ledger, now);
            path.flush()?;
        }
        Ok(told)
    }

    /// Asks for the directory again, now and then.
    #[cold]
    fn ask_directory(&mut self, now: Duration) -> io::Result<()> {
        if self.asked.is_some_and(|asked| now < asked + Duration::from_millis(5)) {
            return Ok(());
        }
        self.asked = Some(now);
        if let Some(room) = self.path.room(0) {
            let length = Directory::ask(0, self.ledger.id, room);
            self.path.post(length);
        }
        self.path.flush()
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.ledger.slots.used() == 0 && self.ledger.held() == 0
    }

    /// Waits until something may have arrived, or for so long.
    ///
    /// # Errors
    /// If the path is of no more use.
    pub fn wait(&mut self, most: Duration) -> io::Result<()> {
        self.path.wait(most)
    }
}

/// Sends what is complete, as far as the path takes it.
#[inline(always)]
fn send(path: &mut impl ClientPath, ledger: &mut Ledger, now: Duration) {
    // A server that has fewer threads now tells that it goes by another directory, whichever is asked.
    let cores = path.cores().max(1);
    while ledger.send_next(now, |slot| match path.room(slot.core % cores) {
        Some(room) => {
            room[..slot.length].copy_from_slice(&slot.bytes[..slot.length]);
            path.post(slot.length);
            true
        }
        None => false,
    }) {}
}
