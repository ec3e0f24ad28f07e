//! Gets by UDP over a way that loses datagrams and changes their order: what the client discards, and what it never believes.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use guira_client::pools::{Builder, Client, Counters, Store};
use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_workload::Rng;

use super::fleet::Node;
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, answer, build, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-discards",
    claims: &["S3"],
    about: "Gets by UDP over a way that loses and disorders datagrams: what is discarded, and why",
    run,
};

const MEMORY: &str = "64MiB";
const KEYS: u64 = 1000;
const TIMEOUT: Duration = Duration::from_millis(100);
/// Every so many-th value takes several datagrams.
const LONG_EVERY: u64 = 4;
const LONG: usize = 4000;
const SHORT: usize = 135;
/// Of a million datagrams of answers, those that are lost; and of those that are followed by another one, those that are sent after it.
const LOST: u64 = 1333;
const DISORDERED: u64 = 1000;

#[derive(Debug, Default)]
struct Done {
    lost: AtomicU64,
    disordered: AtomicU64,
    ends: AtomicBool,
}

/// Forwards datagrams between one client and a server, as a network would.
struct Way {
    address: SocketAddr,
    done: Arc<Done>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Drop for Way {
    fn drop(&mut self) {
        self.done.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Way {
    fn to(server: SocketAddr, seed: u64) -> std::io::Result<Self> {
        let (clients, servers) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        servers.connect(server)?;
        let (address, done) = (clients.local_addr()?, Arc::<Done>::default());
        let of_thread = Arc::clone(&done);
        let thread = std::thread::spawn(move || forward(&clients, &servers, &of_thread, seed));
        Ok(Way { address, done, thread: Some(thread) })
    }
}

fn forward(clients: &UdpSocket, servers: &UdpSocket, done: &Done, seed: u64) -> std::io::Result<()> {
    let (mut rng, mut buffer) = (Rng::new(seed), vec![0; 64 << 10]);
    let answers = servers.try_clone()?;
    let wait = Some(Duration::from_millis(1));
    clients.set_read_timeout(wait)?;
    answers.set_read_timeout(wait)?;
    let mut held: Option<Vec<u8>> = None;
    while !done.ends.load(Ordering::Relaxed) {
        let Ok((length, client)) = clients.recv_from(&mut buffer) else { continue };
        servers.send(&buffer[..length])?;
        let asked = [buffer[0], buffer[1]];
        // One get is under way at a time: all that comes now is its answer.
        let mut left = 1;
        while left > 0 {
            let Ok(length) = answers.recv(&mut buffer) else { break };
            if buffer[..2] != asked {
                // It is the answer to a get that took longer than is waited for here.
                continue;
            }
            let [place, total] = [2, 4].map(|at| u16::from_be_bytes([buffer[at], buffer[at + 1]]));
            left = total - place - 1;
            let fate = rng.below(1_000_000);
            if fate < LOST {
                done.lost.fetch_add(1, Ordering::Relaxed);
            } else if fate < LOST + DISORDERED && left > 0 && held.is_none() {
                done.disordered.fetch_add(1, Ordering::Relaxed);
                held = Some(buffer[..length].to_vec());
            } else {
                clients.send_to(&buffer[..length], client)?;
                if let Some(held) = held.take() {
                    clients.send_to(&held, client)?;
                }
            }
        }
        // What was held back before the last datagram was lost is lost as well.
        held = None;
    }
    Ok(())
}

fn key(number: u64) -> String {
    format!("key:{number}")
}

fn value(number: u64) -> Vec<u8> {
    let length = if number.is_multiple_of(LONG_EVERY) { LONG } else { SHORT };
    format!("{number}:").into_bytes().into_iter().cycle().take(length).collect()
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let node = Node::with_datagrams(context, MEMORY)?;
    let way = Way::to(node.address(), context.seed).map_err(failed)?;
    // Values are stored before, at the node itself: the way is one of datagrams.
    let direct = Client::new(&Builder::servers(&[node.address().to_string()])).map_err(failed)?;
    for number in 0..KEYS {
        direct.set(&Store::new(key(number).as_bytes(), &value(number))).map_err(failed)?;
    }
    let builder = Builder::servers(&[way.address.to_string()]).timeout(TIMEOUT).udp_gets();
    let client = Client::new(&builder).map_err(failed)?;
    let (mut rng, gets) = (Rng::part(context.seed, 1), context.scale.pick(400_000u64, 4000));
    let (mut discarded, mut wrong, mut missing) = (0u64, 0u64, 0u64);
    for _ in 0..gets {
        let number = rng.below(KEYS);
        match client.get(key(number).as_bytes()) {
            Ok(Some(item)) => wrong += u64::from(*item.value != value(number)[..]),
            Ok(None) => missing += 1,
            Err(_) => discarded += 1,
        }
    }
    let Counters { udp_lost: lost, udp_disordered: disordered, .. } = client.counters();
    let done = [&way.done.lost, &way.done.disordered].map(|count| count.load(Ordering::Relaxed));
    let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    Ok(Outcome {
        how: format!(
            "A node, and one client that gets one key at a time by UDP through a relay, {gets} times: {KEYS} keys, of whose values one in {LONG_EVERY} has {LONG} B and takes several datagrams, the \
             others {SHORT} B. The relay loses and disorders datagrams of answers at random, in shares of which what the paper found at its peak comes out. A discarded get is an error of the \
             client, which its user takes for a miss that is not to be filled.{}",
            build()
        ),
        answers: vec![answer(
            "S3",
            format!(
                "{:.2} % of the gets are discarded: {:.0} % lost or late, {:.0} % out of order; {wrong} wrong values, {missing} misses",
                share(discarded, gets),
                share(lost, lost + disordered),
                share(disordered, lost + disordered)
            ),
            verdict(&[
                (
                    "all that is lost or disordered is noticed, and nothing else",
                    lost + disordered == discarded,
                ),
                ("no get that was discarded counts as a miss, and no value is wrong", wrong + missing == 0),
            ]) + "How much is lost is what was injected.",
        )],
        tables: vec![table(
            "Datagrams of the relay, and gets of the client:",
            &["", "lost or late", "out of order"],
            vec![
                vec!["relay: datagrams".to_owned(), done[0].to_string(), done[1].to_string()],
                vec!["client: gets".to_owned(), lost.to_string(), disordered.to_string()],
            ],
        )],
        charts: Vec::new(),
    })
}
