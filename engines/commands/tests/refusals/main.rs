//! Every command with memory refused at every step: no item is lost, no reply is false, and every command ends.
//!
//! A request is tried on an item as long as calls of the session can be refused: the first, the second, and so on,
//! and from each of them on all others. The outcome is compared with the item before and with the same request with
//! enough memory:
//!
//! - A reply that reports exhausted memory means that the item is unchanged, except that it may have got a cas unique
//!   that no client has seen. In a cache a `set` may have removed it, since its value is older than the one to be
//!   stored, and so may an `ms` that does not append or prepend.
//! - Any other reply is that of the request with memory, and so is the item. Two replies may report less, and then
//!   the item is unchanged: an mg whose client would have won the right to recache the item, and an me that would have
//!   had a cas unique to show.
//! - Without memory a lease-get gives a token that nothing can be stored with, and a delete keeps no stale value.

mod asking;
mod between;
mod items;
mod judging;
mod numbers;
mod readback;
mod requests;

use asking::{Client, Delivery};
use guira_contract::suite::{Moment, Refused};
use guira_contract::{Engine, Session};
use guira_slab::EngineOptions;
use guira_slab::{CuckooEngine, Eviction, SlabOptions};
use items::{Before, ITEMS, KEY, Seen};
use judging::{Outcome, judge};
use requests::Request;
use std::collections::BTreeMap;

/// The most failures that are reported.
const REPORTED_MAX: usize = 12;

struct Trial<'t> {
    before: &'t Before,
    request: &'t Request,
    delivery: Delivery,
}

/// The item before, the outcome, and the number of calls that could have been refused.
struct Run {
    before: Option<Seen>,
    outcome: Outcome,
    asked: usize,
}

impl Trial<'_> {
    fn run<S: Session>(&self, client: &mut Client<S>, refused: Refused, moment: Moment) -> Run {
        self.before.prepare(client);
        let before = client.look(KEY);
        client.refuse(refused, moment, &format!("{} on {}", self.request.name, self.before.name));
        let reply = client.ask(&self.request.bytes, self.delivery);
        let asked = client.asked();
        client.refuse(Refused::None, Moment::Late, "a look");
        Run { before, outcome: Outcome { reply, after: client.look(KEY) }, asked }
    }

    /// Refuses one call after the other. Returns the first failure.
    fn refuse_all<S: Session>(&self, client: &mut Client<S>) -> Option<String> {
        let wanted = self.run(client, Refused::None, Moment::Late);
        let moments: &[Moment] =
            if self.request.value_len.is_some() { &[Moment::Early, Moment::Late] } else { &[Moment::Late] };
        for moment in moments {
            let (mut number, mut most) = (0, wanted.asked);
            while number < most {
                let run = self.run(client, Refused::Only(number), *moment);
                let wrong = self.wrong(client, &run, &wanted.outcome, (Refused::Only(number), *moment));
                if wrong.is_some() {
                    return wrong;
                }
                // The command goes on after this call, and further ones may be refused.
                if run.asked > number + 1 {
                    let run = self.run(client, Refused::From(number), *moment);
                    let wrong = self.wrong(client, &run, &wanted.outcome, (Refused::From(number), *moment));
                    if wrong.is_some() {
                        return wrong;
                    }
                }
                most = most.max(run.asked);
                number += 1;
            }
        }
        None
    }

    /// Describes what is wrong with a run.
    fn wrong<S: Session>(
        &self,
        client: &mut Client<S>,
        run: &Run,
        wanted: &Outcome,
        (refused, moment): (Refused, Moment),
    ) -> Option<String> {
        let before = run.before.as_ref();
        let what = judge(self.request, client.lossiness(), before, &run.outcome, wanted).err()?;
        let shortened = |reply: &[u8]| reply[..reply.len().min(60)].escape_ascii().to_string();
        Some(format!(
            "on {}, {:?}, refused {refused:?} {moment:?}: {what}: \"{}\" instead of \"{}\"; there was {}, there is {}",
            self.before.name,
            self.delivery,
            shortened(&run.outcome.reply),
            shortened(&wanted.reply),
            Seen::describe(before),
            Seen::describe(run.outcome.after.as_ref()),
        ))
    }
}

fn try_all(eviction: Eviction, requests: &[Request]) {
    let options = SlabOptions {
        engine: EngineOptions { memory: 16 << 20, eviction, ..EngineOptions::default() },
        ..SlabOptions::default()
    };
    let engine = CuckooEngine::open(options).expect("there is memory for an engine");
    let mut client = Client::new(engine.session());
    let whole = requests.iter().map(|request| (request, Delivery::Whole));
    let in_pieces = requests
        .iter()
        .filter(|request| request.value_len.is_some())
        .map(|request| (request, Delivery::InPieces));
    let deliveries: Vec<_> = whole.chain(in_pieces).collect();
    let mut wrong: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for before in ITEMS {
        for (request, delivery) in &deliveries {
            if let Some(what) = (Trial { before, request, delivery: *delivery }).refuse_all(&mut client) {
                wrong.entry(&request.name).or_default().push(what);
            }
        }
    }
    let report =
        |(request, what): (&&str, &Vec<String>)| format!("{request} {} ({} trials)", what[0], what.len());
    let reports: Vec<String> = wrong.iter().take(REPORTED_MAX).map(report).collect();
    assert!(wrong.is_empty(), "{} requests are answered wrongly:\n{}", wrong.len(), reports.join("\n"));
}

/// What is left of an item, without its cas unique, of which each store may give another one; and whether it still has the one from before.
fn likeness(run: &Run) -> Option<(Seen, bool)> {
    let Seen { value, flags, left, cas, state } = run.outcome.after.as_ref()?;
    let has_kept_unique = run.before.as_ref().is_some_and(|before| before.cas == *cas);
    let (value, flags, left, state) = (value.clone(), *flags, *left, *state);
    Some((Seen { value, flags, left, cas: None, state }, has_kept_unique))
}

#[test]
fn what_arrives_in_pieces_is_stored_like_what_arrives_whole() {
    let options = SlabOptions { engine: EngineOptions::of(16 << 20), ..SlabOptions::default() };
    let engine = CuckooEngine::open(options).expect("there is memory for an engine");
    let mut client = Client::new(engine.session());
    let requests = [requests::text(), requests::meta(), requests::packets()].into_iter().flatten();
    for request in requests.filter(|request| request.value_len.is_some()) {
        for before in ITEMS {
            let [whole, in_pieces] = [Delivery::Whole, Delivery::InPieces].map(|delivery| {
                Trial { before, request: &request, delivery }.run(&mut client, Refused::None, Moment::Late)
            });
            assert_eq!(likeness(&whole), likeness(&in_pieces), "{} on {}", request.name, before.name);
        }
    }
}

#[test]
fn text_in_a_cache() {
    try_all(Eviction::On, &requests::text());
}

#[test]
fn text_in_a_store() {
    try_all(Eviction::Off, &requests::text());
}

#[test]
fn meta_in_a_cache() {
    try_all(Eviction::On, &requests::meta());
}

#[test]
fn meta_in_a_store() {
    try_all(Eviction::Off, &requests::meta());
}

#[test]
fn packets_in_a_cache() {
    try_all(Eviction::On, &requests::packets());
}

#[test]
fn packets_in_a_store() {
    try_all(Eviction::Off, &requests::packets());
}

#[test]
fn datagrams_in_a_cache() {
    try_all(Eviction::On, &requests::datagrams());
}

#[test]
fn datagrams_in_a_store() {
    try_all(Eviction::Off, &requests::datagrams());
}

/// Other workers answer the other keys of the same get, and END follows all of them: an error line would stand
/// between values.
#[test]
fn a_key_of_several_is_missing_when_it_is_refused() {
    let options = SlabOptions { engine: EngineOptions::of(16 << 20), ..SlabOptions::default() };
    let engine = CuckooEngine::open(options).expect("there is memory for an engine");
    let mut client = Client::new(engine.session());
    assert_eq!(client.ask(b"set k 0 0 1\r\nv\r\n", Delivery::Whole), b"STORED\r\n");
    client.refuse(Refused::From(0), Moment::Late, "gets k and others");
    assert_eq!(client.ask_for_one_of_several(KEY), b"");
    assert!(client.asked() > 0, "it has no cas unique yet, and gets one");
    client.refuse(Refused::None, Moment::Late, "gets k and others");
    let reply = client.ask_for_one_of_several(KEY);
    assert!(reply.starts_with(b"VALUE k 0 1 ") && reply.ends_with(b"\r\nv\r\n"), "{}", reply.escape_ascii());
}
