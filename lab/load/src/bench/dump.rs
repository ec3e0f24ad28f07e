//! Dumps of all keys under load: the cost of repeated `lru_crawler metadump all` for other clients.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use guira_harness::affinity::pin_thread;
use guira_harness::rounds::median_of;
use guira_workload::Popularity;
use memchr::memchr_iter;
use serde::Serialize;

use super::columns::{rows, significant};
use super::driver::Bench;
use super::loads::{self, DataSet, LoadSpec};
use super::parameters::Scale;
use super::{load_for, server_spec};
use crate::clock::{Clock, MonotonicClock};
use crate::engine::Quiet;
use crate::error::LoadError;
use crate::run::{Load, Outcome};
use crate::server::{Kind, Server, Wire};

const NAME: &str = "metadump";
/// The text above the table.
pub(super) const CAPTION: &str = "get32 without and with `lru_crawler metadump all` in a loop on another connection, in millions of \
    operations a second of time and of server processor time.";

const COMMAND: &[u8] = b"lru_crawler metadump all\r\n";
/// How long a server may be silent within a dump.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Time until a server that was busy is queried again.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
const READ_LEN: usize = 1 << 20;
/// The end of a dump: the line after the last item's.
const END: &[u8] = b"END\r\n";

/// A load, and how long it is measured without and with dumps.
#[derive(Debug, Clone)]
pub struct Case {
    pub load: LoadSpec,
    pub duration: Duration,
}

/// The throughput of a server with and without dumps.
#[derive(Debug, Clone, Serialize)]
pub struct Dumped {
    pub server: String,
    pub items: u64,
    /// Lines of items in the last dump.
    pub listed: u64,
    /// Dumps that were complete, over all rounds.
    pub dumps: usize,
    /// The median time of a dump; one that outlasts the load ends without it.
    pub seconds_per_dump: f64,
    /// Operations per second of the load alone, the median of the rounds.
    pub alone_per_s: f64,
    #[serde(rename = "beside_per_s")]
    pub during_per_s: f64,
    /// Operations per second of the server's processor time of the load alone.
    pub alone_per_cpu_s: f64,
    /// The same during dumps, whose cost is included.
    #[serde(rename = "beside_per_cpu_s")]
    pub during_per_cpu_s: f64,
}

impl Case {
    pub(super) fn new(scale: Scale) -> Result<Self, LoadError> {
        let (load, keys) = (loads::named("get32")?, scale.part(10_000_000));
        let data = DataSet { keys, memory: scale.part(2 << 30), ..load.data.clone() };
        let load = LoadSpec { name: NAME, data, popularity: Popularity::Uniform { count: keys }, ..load };
        Ok(Self { load, duration: scale.or(Duration::from_secs(5), Duration::from_secs(1)) })
    }
}

/// Measures one cache after the other, without and with dumps; those that cannot dump are left out, which is reported.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<Vec<Dumped>, LoadError> {
    let case = Case::new(bench.scale())?;
    let mut all = Vec::new();
    for kind in bench.caches(NAME, Wire::Tcp) {
        all.extend(measure(&case, kind, bench)?);
    }
    Ok(all)
}

fn measure(case: &Case, kind: &Kind, bench: &mut Bench<'_>) -> Result<Option<Dumped>, LoadError> {
    let options = bench.options;
    let server = Server::start(&server_spec(&case.load, kind, options))?;
    let failed = LoadError::system("a dump failed");
    if let Some(refusal) = Dump::open(server.addr()).and_then(|mut dump| dump.refusal()).map_err(&failed)? {
        bench.log(&format!("{NAME}: skipped {}: the reply is {refusal:?}", kind.name()));
        return Ok(None);
    }
    bench.log(&format!("{NAME}: setting {} keys in {}", case.load.data.keys, kind.name()));
    load_for(&case.load, &server, options, 0).preload(&mut Quiet)?.require_right()?;
    let rounds = bench.repeat(NAME, kind.name(), |round| {
        let load = Load { duration: case.duration, ..load_for(&case.load, &server, options, round) };
        let run = || -> Result<Outcome, LoadError> {
            let outcome = load.run(Some(server.process()), &mut Quiet)?;
            outcome.require_right()?;
            Ok(outcome)
        };
        let alone = run()?;
        let (during, dumps) = during_dumps(server.addr(), &options.client_cores, Pauses::None, run)?;
        let line = format!(
            "{:.3} M operations per second alone, {:.3} beside {} dumps",
            alone.per_second() / 1e6,
            during.per_second() / 1e6,
            dumps.len(),
        );
        Ok(((alone, during, dumps), line))
    })?;
    let per_cpu = |outcome: &Outcome| outcome.per_cpu_second().unwrap_or(0.0);
    let dumps: Vec<&Listed> = rounds.iter().flat_map(|(_, _, dumps)| dumps).collect();
    Ok(Some(Dumped {
        server: kind.name().to_owned(),
        items: server.stat("curr_items")?,
        listed: dumps.last().map_or(0, |dump| dump.items),
        dumps: dumps.len(),
        seconds_per_dump: median_of(&dumps, |dump| dump.seconds),
        alone_per_s: median_of(&rounds, |(alone, ..)| alone.per_second()),
        during_per_s: median_of(&rounds, |(_, during, _)| during.per_second()),
        alone_per_cpu_s: median_of(&rounds, |(alone, ..)| per_cpu(alone)),
        during_per_cpu_s: median_of(&rounds, |(_, during, _)| per_cpu(during)),
    }))
}

pub(super) fn table(results: &[Dumped]) -> String {
    rows(
        results,
        &[
            ("server", &|dumped| dumped.server.clone()),
            ("items held", &|dumped| dumped.items.to_string()),
            ("listed", &|dumped| dumped.listed.to_string()),
            ("seconds a dump", &|dumped| significant(dumped.seconds_per_dump, 3)),
            ("alone, M/s", &|dumped| significant(dumped.alone_per_s / 1e6, 3)),
            ("beside, M/s", &|dumped| significant(dumped.during_per_s / 1e6, 3)),
            ("beside ÷ alone", &|dumped| {
                format!("{:.2}", dumped.during_per_s / dumped.alone_per_s.max(1e-9))
            }),
            ("alone, M/CPU s", &|dumped| significant(dumped.alone_per_cpu_s / 1e6, 3)),
            ("beside, M/CPU s", &|dumped| significant(dumped.during_per_cpu_s / 1e6, 3)),
        ],
    )
}

/// How long is waited between dumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pauses {
    /// Not at all.
    None,
    /// Dumps start this long after each other.
    Every(Duration),
}

/// Runs `load` while another thread dumps; the last dump is waited for, so that there is at least one.
pub(super) fn during_dumps(
    addr: SocketAddr,
    cores: &[usize],
    pauses: Pauses,
    load: impl FnOnce() -> Result<Outcome, LoadError>,
) -> Result<(Outcome, Vec<Listed>), LoadError> {
    let failed = LoadError::system("a dump failed");
    let mut dump = Dump::open(addr).map_err(&failed)?;
    let (stop, stopped) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let reader = scope.spawn(move || -> io::Result<Vec<Listed>> {
            if !cores.is_empty() {
                pin_thread(cores)?;
            }
            dump.again_and_again(pauses, &stopped)
        });
        let outcome = load();
        drop(stop);
        let listed = reader.join().unwrap_or_else(|_| Err(io::Error::other("the reader panicked")));
        Ok((outcome?, listed.map_err(failed)?))
    })
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Listed {
    items: u64,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
}

/// A connection that requests dumps.
struct Dump {
    socket: TcpStream,
    input: Vec<u8>,
}

/// The progress of reading a dump.
#[derive(Debug, Default)]
struct Progress {
    lines: u64,
    bytes: u64,
    /// The last bytes read, as many as [`END`] has and one more.
    tail: Vec<u8>,
}

impl Progress {
    /// Takes the bytes that came next.
    fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.lines += memchr_iter(b'\n', bytes).count() as u64;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(END.len() + 1)..]);
        let surplus = self.tail.len().saturating_sub(END.len() + 1);
        self.tail.drain(..surplus);
    }

    /// Whether the last line read is `END`.
    fn is_over(&self) -> bool {
        let before = self.tail.strip_suffix(END);
        before.is_some_and(|before| before.last().is_none_or(|&byte| byte == b'\n'))
    }

    /// The single line of a server that does not dump, if it is one; it may as well be the first item's, or the end.
    fn only_line(&self, bytes: &[u8]) -> Option<String> {
        let is_line = self.lines == 1 && !self.is_over() && !bytes.starts_with(b"key=");
        is_line.then(|| String::from_utf8_lossy(bytes).trim_end().to_owned())
    }
}

impl Dump {
    fn open(addr: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(addr)?;
        socket.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(Self { socket, input: vec![0; READ_LEN] })
    }

    /// The reply of a server that refuses to dump; `None` if it dumps.
    fn refusal(&mut self) -> io::Result<Option<String>> {
        match self.once()? {
            Answer::Listed(..) => Ok(None),
            Answer::Refused(line) => Ok(Some(line)),
        }
    }

    /// Dumps until `stopped` has no sender any more; returns the complete ones.
    fn again_and_again(&mut self, pauses: Pauses, stopped: &Receiver<()>) -> io::Result<Vec<Listed>> {
        let clock = MonotonicClock::start();
        let mut complete = Vec::new();
        while complete.is_empty() || stopped.try_recv() != Err(TryRecvError::Disconnected) {
            let from_ns = clock.now_ns();
            match self.once()? {
                Answer::Listed(items, bytes) => {
                    let seconds = (clock.now_ns() - from_ns) as f64 / 1e9;
                    complete.push(Listed { items, bytes, seconds });
                    if let Pauses::Every(every) = pauses {
                        let left = every.saturating_sub(Duration::from_secs_f64(seconds));
                        // Ends the wait early at the end of the load.
                        let _ = stopped.recv_timeout(left);
                    }
                }
                Answer::Refused(line) if line.starts_with("BUSY") => thread::sleep(BUSY_PAUSE),
                Answer::Refused(line) => return Err(io::Error::other(line)),
            }
        }
        Ok(complete)
    }

    fn once(&mut self) -> io::Result<Answer> {
        self.socket.write_all(COMMAND)?;
        let mut progress = Progress::default();
        loop {
            let count = self.socket.read(&mut self.input)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let bytes = &self.input[..count];
            let is_first = progress.lines == 0;
            progress.take(bytes);
            if progress.is_over() {
                return Ok(Answer::Listed(progress.lines - 1, progress.bytes));
            }
            if let Some(line) = progress.only_line(bytes).filter(|_| is_first) {
                return Ok(Answer::Refused(line));
            }
        }
    }
}

/// The server's reply to the command.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// A dump with its number of items and of bytes.
    Listed(u64, u64),
    Refused(String),
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::sync::mpsc;
    use std::thread;

    use super::{Answer, Dump, Pauses, Progress};

    /// A server that gives these answers, one for each command.
    fn serve(answers: &'static [&'static str]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
            for answer in answers {
                assert_eq!(lines.next().unwrap().unwrap(), "lru_crawler metadump all");
                socket.write_all(answer.as_bytes()).unwrap();
            }
        });
        addr
    }

    const TWO: &str = "key=a exp=-1\nkey=END exp=-1\nEND\r\n";

    #[test]
    fn items_are_counted_however_the_dump_is_cut() {
        for piece in 1..TWO.len() {
            let mut progress = Progress::default();
            let mut pieces = TWO.as_bytes().chunks(piece).peekable();
            while let Some(bytes) = pieces.next() {
                progress.take(bytes);
                assert_eq!(progress.is_over(), pieces.peek().is_none(), "pieces of {piece}");
            }
            assert_eq!(progress.lines - 1, 2);
        }
    }

    #[test]
    fn a_server_that_does_not_dump_is_told_from_one_that_is_empty() {
        let refusal = |answers| Dump::open(serve(answers)).unwrap().refusal().unwrap();
        assert_eq!(refusal(&["ERROR\r\n"]), Some("ERROR".to_owned()));
        assert_eq!(refusal(&["END\r\n"]), None);
        assert_eq!(refusal(&[TWO]), None);
        assert_eq!(Dump::open(serve(&[TWO])).unwrap().once().unwrap(), Answer::Listed(2, TWO.len() as u64));
    }

    #[test]
    fn dumps_go_on_until_they_are_stopped_and_one_is_complete() {
        let (stop, stopped) = mpsc::channel();
        drop(stop);
        let mut dump = Dump::open(serve(&["BUSY currently processing\r\n", TWO])).unwrap();
        let complete = dump.again_and_again(Pauses::None, &stopped).unwrap();
        assert_eq!(complete.iter().map(|listed| listed.items).collect::<Vec<_>>(), [2]);
        let (_stop, stopped) = mpsc::channel();
        let mut dump = Dump::open(serve(&[TWO, TWO, "ERROR\r\n"])).unwrap();
        assert_eq!(dump.again_and_again(Pauses::None, &stopped).unwrap_err().to_string(), "ERROR");
    }
}
