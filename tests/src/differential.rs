//! Two servers, the same requests: what differs?
//!
//! A seeded generator ([`generator`]) makes requests over few keys, so that they meet; both servers get them,
//! many in one write, and their replies are compared word by word ([`replies`]). Cas uniques differ between
//! servers and are compared by identity: the same, or another, as seen before for that key. Times left may
//! differ by a tick of the clock. When a reply differs, the requests that lead there are made fewer as long as
//! something still differs, so that the report is short.

pub mod generator;
pub mod replies;
pub mod request;

use crate::client::Client;
use crate::escape;
use crate::random::Random;
use crate::server::Server;
use generator::{Dialect, Generator};
use replies::Reply;
use request::{Request, Uniques};

/// Most requests that are sent in one write.
const BATCH: u64 = 24;

/// Most requests that a report shows.
const SHOWN: usize = 30;

/// A connection to one of the servers and what it has sent so far.
struct Side {
    client: Client,
    uniques: Uniques,
}

impl Side {
    fn new(server: &Server) -> Self {
        let mut side = Self { client: server.connect(), uniques: Uniques::default() };
        side.exchange(&[Generator::clear()]);
        side
    }

    /// Sends the requests in one write, each followed by `mn`, and reads the replies.
    fn exchange(&mut self, requests: &[Request]) -> Vec<Reply> {
        let mut bytes = Vec::new();
        for request in requests {
            bytes.extend_from_slice(&request.render(&self.uniques));
            bytes.extend_from_slice(b"mn\r\n");
        }
        self.client.send(bytes);
        let replies =
            requests.iter().map(|request| replies::read(&mut self.client, &request.key, &mut self.uniques));
        replies.collect()
    }
}

/// The first difference of a run.
#[derive(Debug)]
pub struct Difference {
    /// Number of the request that was answered differently, from 0.
    pub index: usize,
    /// What the server under test answered.
    pub ours: String,
    pub theirs: String,
}

/// How many requests go into one write.
#[derive(Clone, Debug)]
enum Cuts {
    /// One, and its reply is awaited.
    Single,
    /// As many as a generator says.
    Random(Random),
}

impl Cuts {
    fn next(&mut self) -> usize {
        match self {
            Self::Single => 1,
            Self::Random(random) => 1 + random.below(BATCH) as usize,
        }
    }
}

/// Sends `requests` to both servers and gives the first difference.
fn first_difference(
    ours: &Server,
    theirs: &Server,
    requests: &[Request],
    mut cuts: Cuts,
) -> Option<Difference> {
    let (mut one, mut other) = (Side::new(ours), Side::new(theirs));
    let mut begin = 0;
    while begin < requests.len() {
        let end = requests.len().min(begin + cuts.next());
        let replies = (one.exchange(&requests[begin..end]), other.exchange(&requests[begin..end]));
        for (offset, (mine, yours)) in replies.0.iter().zip(&replies.1).enumerate() {
            if !mine.agrees(yours) {
                return Some(Difference {
                    index: begin + offset,
                    ours: mine.to_string(),
                    theirs: yours.to_string(),
                });
            }
        }
        begin = end;
    }
    None
}

/// Fewer requests that still give a difference, and that difference; `None` if it does not come again.
fn shorten(ours: &Server, theirs: &Server, requests: &[Request]) -> Option<(Vec<Request>, Difference)> {
    // Few keys forget soon, so the last requests are mostly enough, and mostly it does not matter how they are cut.
    let lengths = [30, 100, 300, 1000, requests.len()].map(|length| length.min(requests.len()));
    let ends = lengths.iter().map(|length| &requests[requests.len() - length..]);
    let trials = ends.flat_map(|end| [(end, Cuts::Single), (end, Cuts::Random(Random::new(0)))]);
    let (mut shortest, cuts, mut difference) = trials.into_iter().find_map(|(end, cuts)| {
        let found = first_difference(ours, theirs, end, cuts.clone())?;
        Some((end[..=found.index].to_vec(), cuts, found))
    })?;
    let mut step = (shortest.len() / 2).max(1);
    loop {
        let mut at = 0;
        while at < shortest.len() {
            let mut fewer = shortest.clone();
            fewer.drain(at..shortest.len().min(at + step));
            match first_difference(ours, theirs, &fewer, cuts.clone()) {
                Some(found) => {
                    fewer.truncate(found.index + 1);
                    shortest = fewer;
                    difference = found;
                }
                None => at += step,
            }
        }
        if step == 1 {
            return Some((shortest, difference));
        }
        step /= 2;
    }
}

/// Compares the servers over `count` requests made from `seed`.
///
/// # Errors
/// A report with the seed and a short sequence of requests, when a reply differs.
pub fn compare(ours: &Server, theirs: &Server, seed: u64, count: usize) -> Result<(), String> {
    compare_but(ours, theirs, seed, count, |_| false)
}

/// The same without some requests: those that `is_left_out` says, by their text.
///
/// # Errors
/// As for [`compare`].
pub fn compare_but(
    ours: &Server,
    theirs: &Server,
    seed: u64,
    count: usize,
    is_left_out: impl Fn(&[u8]) -> bool,
) -> Result<(), String> {
    let dialect = if theirs.older_than_the_law().is_some() || ours.older_than_the_law().is_some() {
        Dialect::CommonToOldAndNew
    } else {
        Dialect::Law
    };
    let mut generator = Generator::new(seed, dialect);
    let generated = (0..count).map(|_| generator.request());
    let requests = generated.filter(|request| !is_left_out(&request.describe())).collect::<Vec<_>>();
    let cuts = Cuts::Random(Random::new(seed));
    let Some(first) = first_difference(ours, theirs, &requests, cuts) else { return Ok(()) };
    let mut report = format!("seed {seed}: request {} of {count} is answered differently\n", first.index);
    let prefix = &requests[..=first.index];
    let (shown, difference) = shorten(ours, theirs, prefix).unwrap_or_else(|| {
        report.push_str(
            "(not when the last ones are sent again: a race? All that was asked about the same key:)\n",
        );
        let key = &requests[first.index].key;
        (prefix.iter().filter(|request| request.key == *key).cloned().collect(), first)
    });
    for request in &shown[shown.len().saturating_sub(SHOWN)..] {
        report.push_str(&format!("    {}\n", escape::bytes(&request.describe())));
    }
    let (our_name, their_name) = (ours.subject(), theirs.subject());
    report.push_str(&format!(
        "{our_name:?} answers {}\n{their_name:?} answers {}",
        difference.ours, difference.theirs
    ));
    Err(report)
}
