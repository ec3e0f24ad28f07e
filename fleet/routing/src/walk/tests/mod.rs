//! Requests through trees, with servers that answer when and what a test says.

mod big_values;
mod broadcasts;
mod caches;
mod choices;
mod counted;
mod delays;
mod ejections;
mod explained;
mod failover_counts;
mod failovers;
mod fan_outs;
mod handover_model;
mod handovers;
mod keys;
mod limits;
mod logs;
mod named;
mod pairings;
mod random_trees;
mod size_splits;
mod walks;
mod warm_ups;

use super::{Origin, Sink, Walks};
use crate::config::{Globals, Sources, load};
use crate::outcome::{Answer, Item, Outcome};
use crate::request::{Dialect, Op, Request};
use crate::step::{DestinationId, Facts, LogName};
use crate::{Arrival, Built, Destinations, Settings, build};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

struct NoFiles;

impl Sources for NoFiles {
    fn read(&self, _name: &str) -> Result<String, String> {
        Err("no such file".into())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Received {
    outcome: Outcome,
    value: Option<String>,
    number: u64,
    line: String,
}

#[derive(Default)]
struct Script {
    servers: Vec<String>,
    /// What servers were sent and have not answered.
    open: Vec<(String, Origin<u32>)>,
    log: Vec<String>,
    /// Names of logs by place, and what each request would be logged under.
    log_names: Vec<Arc<str>>,
    logs: Vec<Option<String>>,
    refusals: HashMap<String, Outcome>,
    answers: HashMap<u32, Received>,
    /// The requests that came to counted pools, and the clients that were answered then.
    arrivals: Vec<(u32, String, Arrival)>,
    counted: Vec<u32>,
    /// Clients receive values with their flags in front.
    shows_flags: bool,
    now_ms: u64,
}

impl Sink for Script {
    type Ticket = u32;

    fn send(
        &mut self,
        to: DestinationId,
        request: &Request<'_>,
        log: Option<LogName>,
        origin: Origin<u32>,
    ) -> Result<(), Outcome> {
        self.logs.push(log.map(|log| self.log_names[log.index()].to_string()));
        let name = self.servers[to.0 as usize].clone();
        self.log.push(format!("{name} {}", text(request)));
        if let Some(refusal) = self.refusals.get(&name) {
            return Err(*refusal);
        }
        self.open.push((name, origin));
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn wait(&mut self, ms: u32, origin: Origin<u32>) -> Result<(), Outcome> {
        let name = format!("{ms} ms");
        match self.refusals.get(&name) {
            Some(refusal) => Err(*refusal),
            None => {
                self.open.push((name, origin));
                Ok(())
            }
        }
    }

    fn answer(&mut self, ticket: u32, answer: &Answer<'_>) {
        let flags =
            |item: Item<'_>| if self.shows_flags { format!("{} ", item.flags) } else { String::new() };
        let value = answer.item.map(|item| flags(item) + &String::from_utf8_lossy(item.value));
        let line = String::from_utf8_lossy(answer.line).into_owned();
        let received = Received { outcome: answer.outcome, value, number: answer.number, line };
        assert!(self.answers.insert(ticket, received).is_none(), "request {ticket} is answered twice");
    }

    fn arrive(&mut self, ticket: u32, at: DestinationId, arrival: Arrival) {
        assert!(!self.answers.contains_key(&ticket), "request {ticket} was answered");
        self.arrivals.push((ticket, self.servers[at.0 as usize].clone(), arrival));
    }

    fn answer_counted(&mut self, ticket: u32, answer: &Answer<'_>) {
        self.counted.push(ticket);
        self.answer(ticket, answer);
    }
}

/// A request on one line: `set k t60 f7 #9 =value`.
fn text(request: &Request<'_>) -> String {
    let meta = if request.dialect == Dialect::Meta { "meta " } else { "" };
    let mut text = format!("{meta}{} {}", request.op.name(), String::from_utf8_lossy(request.key));
    if !request.meta.is_empty() {
        write!(text, " [{}]", String::from_utf8_lossy(request.meta)).unwrap();
    }
    if request.exptime != 0 {
        write!(text, " t{}", request.exptime).unwrap();
    }
    if request.flags != 0 {
        write!(text, " f{}", request.flags).unwrap();
    }
    if request.number != 0 {
        write!(text, " #{}", request.number).unwrap();
    }
    if !request.value.is_empty() {
        write!(text, " ={}", String::from_utf8_lossy(request.value)).unwrap();
    }
    text
}

/// A router with the servers `a` to `f`, each alone in a pool `A` to `F`, and `p0` to `p7` in the pool `P`.
struct Router {
    walks: Walks<u32>,
    script: Script,
    facts: Facts,
    requests: u32,
}

fn settings() -> Settings {
    Settings::plain("/here/own/", Duration::from_secs(1))
}

/// The built tree, the names of its servers, and those of its logs.
type Made = (Built, Vec<String>, Vec<Arc<str>>);

fn built(config: &str) -> Result<Made, String> {
    built_with(config, &settings())
}

fn built_with(config: &str, settings: &Settings) -> Result<Made, String> {
    let loaded = load("test", config, &NoFiles, &Globals::new()).map_err(|error| error.to_string())?;
    let mut destinations = Destinations::default();
    let built =
        build(&loaded.json, &NoFiles, settings, &mut destinations).map_err(|error| error.to_string())?;
    let names = destinations.specs().iter().map(|spec| spec.address.to_string());
    let names = names.map(|name| name.split(':').next().unwrap_or_default().to_owned()).collect();
    Ok((built, names, destinations.logs().to_vec()))
}

fn pools() -> String {
    let mut pools = String::new();
    for name in 'a'..='f' {
        write!(pools, r#""{}": {{"servers": ["{name}:1"]}}, "#, name.to_ascii_uppercase()).unwrap();
    }
    let servers: Vec<_> = (0..8).map(|number| format!("\"p{number}:1\"")).collect();
    write!(pools, r#""P": {{"servers": [{}]}}"#, servers.join(", ")).unwrap();
    pools
}

/// A configuration whose requests go through `route`.
fn config(route: &str) -> String {
    format!(r#"{{"pools": {{{}}}, "route": {route}}}"#, pools())
}

/// The fault of a route.
fn refusal(route: &str) -> String {
    built(&config(route)).map(|_| ()).expect_err(route)
}

fn warnings(route: &str) -> Vec<String> {
    let (built, ..) = built(&config(route)).unwrap();
    built.warnings.iter().map(ToString::to_string).collect()
}

impl Router {
    fn new(route: &str) -> Self {
        Self::of(&config(route))
    }

    fn of(config: &str) -> Self {
        Self::with(config, &settings())
    }

    fn with(config: &str, settings: &Settings) -> Self {
        let made = built_with(config, settings);
        let (built, servers, log_names) = made.unwrap_or_else(|error| panic!("{error}\n{config}"));
        let facts = Facts { now_s: 1_800_000_000, ..Facts::default() };
        let script = Script { servers, log_names, ..Script::default() };
        Router { walks: Walks::new(built.tree, 1), script, facts, requests: 0 }
    }

    fn start(&mut self, request: &Request<'_>) -> u32 {
        self.requests += 1;
        self.walks.start(request, &self.facts, self.requests, &mut self.script);
        self.requests
    }

    fn request(&mut self, op: Op, key: &str) -> u32 {
        let value = if op == Op::Set || op == Op::LeaseSet || op == Op::Cas { b"v".as_slice() } else { b"" };
        self.start(&Request { value, ..Request::classic(op, key.as_bytes()) })
    }

    fn get(&mut self, key: &str) -> u32 {
        self.request(Op::Get, key)
    }

    /// What servers were sent since this was last asked.
    fn sent(&mut self) -> Vec<String> {
        std::mem::take(&mut self.script.log)
    }

    fn refuse(&mut self, server: &str, outcome: Outcome) {
        self.script.refusals.insert(server.to_owned(), outcome);
    }

    fn answer(&mut self, server: &str, answer: &Answer<'_>) {
        let at = self.script.open.iter().position(|(name, _)| name == server);
        let at = at.unwrap_or_else(|| panic!("{server} was not asked; {:?}", self.script.open));
        let (_, origin) = self.script.open.remove(at);
        let number = self.script.servers.iter().position(|name| name == server);
        let server = number.map(|number| DestinationId(number as u32));
        self.walks.answer(origin, &Answer { server, ..*answer }, &mut self.script);
    }

    /// A server answers the oldest request that it was sent.
    fn reply(&mut self, server: &str, outcome: Outcome) {
        self.answer(server, &Answer::of(outcome));
    }

    fn hit(&mut self, server: &str, value: &str) {
        let item = Some(Item { flags: 7, value: value.as_bytes() });
        self.answer(server, &Answer { item, ..Answer::of(Outcome::Found) });
    }

    /// An outcome with the server's name as text, so that it can be told which answer a client was given.
    fn signed(&mut self, server: &str, outcome: Outcome) {
        let item = Some(Item { flags: 0, value: server.as_bytes() });
        self.answer(server, &Answer { item, ..Answer::of(outcome) });
    }

    fn outcome(&self, ticket: u32) -> Option<Outcome> {
        self.script.answers.get(&ticket).map(|received| received.outcome)
    }

    /// The outcome, and whose answer it was.
    fn by(&self, ticket: u32) -> Option<(Outcome, String)> {
        let received = self.script.answers.get(&ticket)?;
        Some((received.outcome, received.value.clone().unwrap_or_default()))
    }

    fn value(&self, ticket: u32) -> Option<String> {
        self.script.answers.get(&ticket)?.value.clone()
    }

    /// Nothing is under way, and every request was answered.
    fn end(self) {
        assert!(self.script.open.is_empty(), "{:?}", self.script.open);
        assert_eq!(self.walks.frames(), 0);
        assert_eq!(self.script.answers.len() as u32, self.requests);
    }
}

fn orders<T: Copy>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for at in 0..items.len() {
        let mut others = items.to_vec();
        let first = others.remove(at);
        all.extend(orders(&others).into_iter().map(|mut order| {
            order.insert(0, first);
            order
        }));
    }
    all
}

/// All rows of `length` outcomes out of these.
fn rows(outcomes: &[Outcome], length: usize) -> Vec<Vec<Outcome>> {
    let mut all = vec![Vec::new()];
    for _ in 0..length {
        all = all
            .iter()
            .flat_map(|row| outcomes.iter().map(move |outcome| [row.as_slice(), &[*outcome]].concat()))
            .collect();
    }
    all
}
