//! Deletes in a packet: sent by web servers that change rows, and by the invalidator that reads the log of these changes.

use super::database::Database;
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, answer, table, verdict};
use guira_harness::deadline::Deadline;
use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Spec};
use guira_sync::clock::Stopwatch;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-batches",
    claims: &["S11"],
    about: "Deletes in a packet when the invalidator batches those of many transactions, and when each web server sends its own",
    run,
};

/// Web servers, each of which commits one transaction after the other.
const CLIENTS: usize = 4;
const KEYS: usize = 3;
/// Servers of a cluster, among which web servers find that of each key.
const SERVERS: usize = 8;
/// What a packet of an Ethernet carries of a connection, in bytes.
const SEGMENT: usize = 1448;
/// How long keys wait for others in the invalidator, in milliseconds; the one in the middle is its default.
const LINGERS: [u32; 3] = [0, 10, 100];
const DEFAULT: u32 = 10;
/// How long deletes may take to arrive.
const ARRIVAL_MAX: Duration = Duration::from_secs(120);

/// How many deletes begin in each packet that a piece of such lines takes, which is sent at once; packets without one are left out.
fn packets(lines: &[usize]) -> Vec<u32> {
    let (mut counts, mut at) = (Vec::new(), 0);
    for line in lines {
        let packet = at / SEGMENT;
        counts.resize(counts.len().max(packet + 1), 0);
        counts[packet] += 1;
        at += line;
    }
    counts.retain(|count| *count > 0);
    counts
}

/// Takes deletes, and counts those of each packet.
#[derive(Clone)]
struct Counter {
    address: SocketAddr,
    packets: Arc<Mutex<Vec<u32>>>,
}

impl Counter {
    /// It is there until the program ends.
    fn start() -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let counter = Counter { address, packets: Arc::default() };
        let served = counter.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counter = served.clone();
                // A connection that fails has been counted so far.
                thread::spawn(move || counter.serve(&stream));
            }
        });
        Ok(counter)
    }

    /// Everything up to `mn` was sent at once: whoever sends waits for the answers then.
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let (mut line, mut lines) = (String::new(), Vec::new());
        while reader.read_line(&mut line)? > 0 {
            if line.starts_with("md ") {
                lines.push(line.len());
            } else {
                self.packets.lock().unwrap_or_else(PoisonError::into_inner).extend(packets(&lines));
                let mut answers = "NF\r\n".repeat(lines.len());
                answers.push_str("MN\r\n");
                (&*stream).write_all(answers.as_bytes())?;
                lines.clear();
            }
            line.clear();
        }
        Ok(())
    }

    fn packets(&self) -> Vec<u32> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn deletes(&self) -> u64 {
        self.packets().iter().map(|count| u64::from(*count)).sum()
    }
}

struct Found {
    how: String,
    transactions_s: f64,
    packets: Vec<u32>,
}

impl Found {
    fn deletes(&self) -> u64 {
        self.packets.iter().map(|count| u64::from(*count)).sum()
    }

    fn median(&self) -> f64 {
        let counts: Vec<f64> = self.packets.iter().map(|count| f64::from(*count)).collect();
        guira_harness::rounds::median(&counts)
    }
}

/// The keys of a transaction, none of which another has.
fn keys(client: usize, transaction: usize) -> Vec<String> {
    (0..KEYS).map(|key| format!("user:{client}:{transaction:06}:{key}")).collect()
}

/// Has all clients commit transactions, and do something after each; returns how many there were in a second.
fn commit(
    database: &Database,
    transactions: usize,
    after: impl Fn(usize, &[String]) -> Result<(), Failure> + Sync,
) -> Result<f64, Failure> {
    let mut connections: Vec<_> = (0..CLIENTS).map(|_| database.connect()).collect::<Result<_, _>>()?;
    let since = Stopwatch::start();
    thread::scope(|scope| {
        let clients: Vec<_> = connections
            .iter_mut()
            .enumerate()
            .map(|(client, connection)| {
                let after = &after;
                scope.spawn(move || {
                    (0..transactions).try_for_each(|transaction| {
                        let keys = keys(client, transaction);
                        let message = keys.join(" ");
                        connection
                            .row(&format!("SELECT pg_logical_emit_message(true, 'mc', '{message}')"))?;
                        after(client, &keys)
                    })
                })
            })
            .collect();
        let panicked = |_| failed("a client has panicked");
        clients.into_iter().try_for_each(|client| client.join().map_err(panicked)?)
    })?;
    Ok((CLIENTS * transactions) as f64 / since.elapsed().as_secs_f64())
}

/// The invalidator deletes what is committed.
fn batched(context: &Context, transactions: usize, linger: u32) -> Result<Found, Failure> {
    let database = Database::start_with(CLIENTS, &["wal_level=logical"])?;
    let mut control = database.connect()?;
    control.row("CREATE PUBLICATION guira; SELECT 1")?;
    let counter = Counter::start()?;
    let scratch = Scratch::new();
    let text = format!(
        "position = {:?}\n[source.postgres]\naddress = \"unix:{}\"\ndatabase = \"postgres\"\nuser = \"herd\"\nslot = \"guira\"\n\
         publication = \"guira\"\n[[target]]\nname = \"router\"\naddress = \"{}\"\nlinger-ms = {linger}\nagain-after-ms = 0\n",
        scratch.file("position"),
        database.socket().display(),
        counter.address
    );
    let mut command = Command::new(&context.guira);
    command.args(["invalidate", "--config"]).arg(scratch.write("invalidator.toml", &text));
    let _invalidator = ServerProcess::start(Spec::of_service(command)).map_err(failed)?;
    let mut reads = || control.row("SELECT count(*) FROM pg_replication_slots WHERE active");
    let is_read = || reads().is_ok_and(|count| count == "1").then_some(());
    Deadline::after(ARRIVAL_MAX).poll(is_read).ok_or_else(|| failed("the invalidator does not read"))?;
    let transactions_s = commit(&database, transactions, |_, _| Ok(()))?;
    let all = (CLIENTS * transactions * KEYS) as u64;
    let is_there = || (counter.deletes() >= all).then_some(());
    Deadline::after(ARRIVAL_MAX).poll(is_there).ok_or_else(|| failed("deletes are missing"))?;
    Ok(Found { how: format!("batched, linger-ms = {linger}"), transactions_s, packets: counter.packets() })
}

/// Each client deletes what it has committed on the servers that have it, those of a server together.
fn direct(transactions: usize) -> Result<Found, Failure> {
    let database = Database::start_with(CLIENTS, &["wal_level=logical"])?;
    let counters: Vec<Counter> = (0..SERVERS).map(|_| Counter::start()).collect::<Result<_, _>>()?;
    let open = || counters.iter().map(|counter| TcpStream::connect(counter.address).map_err(failed));
    let connections: Vec<Vec<TcpStream>> =
        (0..CLIENTS).map(|_| open().collect()).collect::<Result<_, _>>()?;
    let transactions_s = commit(&database, transactions, |client, keys| {
        let mut requests = vec![String::new(); SERVERS];
        for key in keys {
            let server = hash(key.as_bytes()) as usize % SERVERS;
            requests[server] += &format!("md {key}\r\n");
        }
        let asked = requests.iter().zip(&connections[client]).filter(|(request, _)| !request.is_empty());
        for (request, mut stream) in asked {
            stream.write_all(format!("{request}mn\r\n").as_bytes()).map_err(failed)?;
            let mut answers = vec![0; 4 * (request.matches("md ").count() + 1)];
            stream.read_exact(&mut answers).map_err(failed)?;
        }
        Ok(())
    })?;
    let packets = counters.iter().flat_map(Counter::packets).collect();
    Ok(Found { how: format!("sent directly to {SERVERS} servers"), transactions_s, packets })
}

/// Which server has a key: FNV-1a, and SplitMix64's last steps, since keys here differ in their ends.
fn hash(key: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, step);
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let transactions = context.scale.pick(5000, 200);
    let direct = direct(transactions)?;
    let batched: Vec<Found> =
        LINGERS.iter().map(|linger| batched(context, transactions, *linger)).collect::<Result<_, _>>()?;
    let default = LINGERS.iter().position(|linger| *linger == DEFAULT);
    let default = default.map(|at| &batched[at]).ok_or_else(|| failed("the default is measured"))?;
    let ratio = default.median() / direct.median();
    let row = |found: &Found| {
        vec![
            found.how.clone(),
            format!("{:.0}", found.transactions_s),
            found.deletes().to_string(),
            found.packets.len().to_string(),
            format!("{:.0}", found.median()),
            format!("{:.1}", found.deletes() as f64 / found.packets.len() as f64),
        ]
    };
    let rows = std::iter::once(&direct).chain(&batched).map(row).collect();
    Ok(Outcome {
        how: format!(
            "{CLIENTS} clients commit one transaction after the other in a PostgreSQL, each of which names {KEYS} keys of their own. Either each client \
             then deletes them itself, on those of {SERVERS} servers that its keys have by their hash, all of one server at once; or guira invalidate \
             reads the log, and sends deletes to one router. Whoever takes deletes only counts them. All that is sent before answers are \
             waited for is cut into packets as an Ethernet has them, {SEGMENT} bytes; a delete counts where it begins. Second deletes are off."
        ),
        answers: vec![answer(
            "S11",
            format!(
                "batched {:.0} (median), sent directly {:.0}: that is {ratio:.0} ×",
                default.median(),
                direct.median()
            ),
            verdict(&[
                ("batches have at least 18 times as many deletes in a packet", ratio >= 18.0),
                ("all deletes arrive", batched.iter().all(|found| found.deletes() == direct.deletes())),
            ]) + "The ratio depends on how many transactions are committed while keys wait for others.",
        )],
        tables: vec![table(
            "Deletes in a packet:",
            &["deletes are", "transactions/s", "deletes", "packets", "median", "mean"],
            rows,
        )],
        charts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::packets;

    #[test]
    fn deletes_count_in_the_packet_in_which_they_begin() {
        assert_eq!(packets(&[]), [0; 0]);
        assert_eq!(packets(&[20; 3]), [3]);
        assert_eq!(packets(&[20; 100]), [73, 27], "the 73rd ends in the second");
        assert_eq!(packets(&[1448, 1448, 20]), [1, 1, 1]);
        assert_eq!(packets(&[4000, 20]), [1, 1], "those in which none begins are left out");
    }
}
