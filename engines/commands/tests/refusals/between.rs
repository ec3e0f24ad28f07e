//! Every command while another client changes the item between two of its calls of the session: the outcome is that
//! of one after the other.

use super::asking::{Client, Delivery};
use super::items::{Before, ITEMS, KEY};
use super::judging::{Outcome, alike_but_for_uniques, without_uniques};
use super::requests::{self, Request};
use guira_contract::suite::{Moment, Refused};
use guira_contract::{Engine, Session};
use guira_fleec::{Buckets, FleecEngine, FleecOptions};
use guira_mica::{Fits, Log, MicaEngine, MicaOptions};
use guira_slab::EngineOptions;
use guira_slab::{ChainedEngine, CuckooEngine, SlabOptions};
use std::cell::RefCell;
use std::rc::Rc;

const INTRUSIONS: [&str; 7] = [
    "set k 3 0 5\r\nother\r\n",
    "set k 3 900 2\r\n45\r\n",
    "delete k\r\n",
    "incr k 2\r\n",
    "touch k 900\r\n",
    "md k x\r\n",
    "md k I\r\n",
];

/// The most failures that are reported.
const REPORTED_MAX: usize = 12;

/// When the other client acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Before,
    Call(usize),
    After,
}

/// Both replies, and the item afterwards.
struct Both {
    outcome: Outcome,
    other: Vec<u8>,
    calls: usize,
}

impl Both {
    fn is_as(&self, order: &Self) -> bool {
        let (reply, other) = (&self.outcome.reply, &order.outcome.reply);
        (reply == other || without_uniques(reply).0 == without_uniques(other).0)
            && self.other == order.other
            && alike_but_for_uniques(self.outcome.after.as_ref(), order.outcome.after.as_ref())
    }

    fn describe(&self) -> String {
        let shortened = |reply: &[u8]| reply[..reply.len().min(60)].escape_ascii().to_string();
        let after = super::Seen::describe(self.outcome.after.as_ref());
        format!("\"{}\" and \"{}\", there is {after}", shortened(&self.outcome.reply), shortened(&self.other))
    }
}

struct Pair<S: Session> {
    one: Client<S>,
    other: Rc<RefCell<Client<S>>>,
}

impl<S: Session + 'static> Pair<S> {
    fn run(&mut self, before: &Before, request: &Request, intrusion: &'static str, when: When) -> Both {
        before.prepare(&mut self.one);
        let replies = Rc::new(RefCell::new(Vec::new()));
        self.other.borrow_mut().refuse(Refused::None, Moment::Late, intrusion);
        let (other, reply) = (Rc::clone(&self.other), Rc::clone(&replies));
        let act = move || *reply.borrow_mut() = other.borrow_mut().ask(intrusion.as_bytes(), Delivery::Whole);
        if when == When::Before {
            act();
        }
        self.one.refuse(Refused::None, Moment::Late, &request.name);
        if let When::Call(call) = when {
            self.one.intrude(call, Box::new(act.clone()));
        }
        let reply = self.one.ask(&request.bytes, Delivery::Whole);
        let calls = self.one.calls();
        if when == When::After {
            act();
        }
        let outcome = Outcome { reply, after: self.one.look(KEY) };
        Both { outcome, other: replies.take(), calls }
    }

    fn try_calls(&mut self, before: &Before, request: &Request, intrusion: &'static str) -> Option<String> {
        let orders = [When::Before, When::After].map(|when| self.run(before, request, intrusion, when));
        let mut call = 1;
        loop {
            let both = self.run(before, request, intrusion, When::Call(call));
            if both.calls <= call {
                return None;
            }
            if !orders.iter().any(|order| both.is_as(order)) {
                let [first, last] = orders.map(|order| order.describe());
                let (name, both_described) = (before.name, both.describe());
                return Some(format!(
                    "{} on {name}, {intrusion:?} before call {call}: {both_described}; first: {first}; last: {last}",
                    request.name
                ));
            }
            call += 1;
        }
    }
}

fn try_all<E>(engine: &E, requests: &[Request])
where
    E: Engine,
    E::Session: 'static,
{
    let one = Client::new(engine.session());
    let other = Rc::new(RefCell::new(one.other(engine.session())));
    let mut pair = Pair { one, other };
    let mut wrong = Vec::new();
    for (before, request) in
        ITEMS.iter().flat_map(|before| requests.iter().map(move |request| (before, request)))
    {
        let tried = INTRUSIONS.iter().filter_map(|intrusion| pair.try_calls(before, request, intrusion));
        wrong.extend(tried);
    }
    let count = wrong.len();
    wrong.truncate(REPORTED_MAX);
    assert!(wrong.is_empty(), "{count} are wrong:\n{}", wrong.join("\n"));
}

/// All requests with one engine, and some with the others, which differ in what they report of an item.
fn some() -> Vec<Request> {
    const ONE_OF: usize = 9;
    requests::text()
        .into_iter()
        .chain(requests::meta().into_iter().step_by(ONE_OF))
        .chain(requests::packets())
        .collect()
}

fn memc3() -> CuckooEngine {
    let options = SlabOptions { engine: EngineOptions::of(16 << 20), ..SlabOptions::default() };
    CuckooEngine::open(options).expect("there is memory for an engine")
}

#[test]
fn others_come_between_the_calls_of_text() {
    try_all(&memc3(), &requests::text());
}

#[test]
fn others_come_between_the_calls_of_meta() {
    try_all(&memc3(), &requests::meta());
}

#[test]
fn others_come_between_the_calls_of_packets() {
    try_all(&memc3(), &requests::packets());
}

#[test]
fn others_come_between_calls_of_classic() {
    let options = SlabOptions { engine: EngineOptions::of(16 << 20), ..SlabOptions::default() };
    try_all(&ChainedEngine::open(options).expect("there is memory for an engine"), &some());
}

#[test]
fn others_come_between_calls_of_fleec_and_memclock() {
    for buckets in [Buckets::Open, Buckets::Locked] {
        let options =
            FleecOptions { engine: EngineOptions::of(16 << 20), buckets, ..FleecOptions::default() };
        try_all(&FleecEngine::open(options).expect("there is memory for an engine"), &some());
    }
}

#[test]
fn others_come_between_calls_of_mica() {
    let options = MicaOptions { engine: EngineOptions::of(32 << 20), ..MicaOptions::default() };
    try_all(&MicaEngine::<Log>::open(options).expect("there is memory for an engine"), &some());
    let options = MicaOptions { engine: EngineOptions::of(32 << 20), ..MicaOptions::default() };
    try_all(&MicaEngine::<Fits>::open(options).expect("there is memory for an engine"), &some());
}
