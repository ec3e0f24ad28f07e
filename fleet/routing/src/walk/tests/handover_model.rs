//! Two routers that have heard of different steps of a change, before servers that answer in any order: a value that was read after a delete
//! was acknowledged is no older than the delete.

use super::handovers::slot;
use super::*;

const SEEDS: u64 = 60;
const STEPS: usize = 300;
/// Of values that lie in the former server when it begins.
const FIRST: u64 = 1;

/// What a server has under the one key.
#[derive(Clone, Copy, Debug, Default)]
struct Store {
    value: Option<u64>,
    is_held_off: bool,
}

impl Store {
    /// What it does with a request, in the words of [`text`].
    fn execute(&mut self, request: &str) -> (Outcome, Option<u64>) {
        let stored = request.split_once(" =").map(|(_, value)| value.parse::<u64>().unwrap());
        if request.contains("delete") {
            self.is_held_off |= request.contains("[H");
            let is_found = self.value.take().is_some();
            let found = if request.contains("meta") { Outcome::Found } else { Outcome::Deleted };
            return (if is_found { found } else { Outcome::NotFound }, None);
        }
        match (stored, request.contains(" add ")) {
            (None, _) => (if self.value.is_some() { Outcome::Found } else { Outcome::NotFound }, self.value),
            (Some(_), true) if self.value.is_some() || self.is_held_off => (Outcome::NotStored, None),
            (stored, _) => {
                // A set is not held off.
                self.value = stored;
                (Outcome::Stored, None)
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Open {
    /// With the least value that may be answered.
    Get(u64),
    /// With the value that no client may receive any more once the delete is acknowledged.
    Delete(u64),
    Set,
}

struct World {
    routers: [Router; 2],
    deletes_by: Vec<usize>,
    stores: HashMap<&'static str, Store>,
    database: u64,
    acknowledged: u64,
    open: Vec<(usize, u32, Open)>,
    random: u64,
    hits: usize,
}

impl World {
    fn new(configs: [&str; 2], deletes_by: &[usize], seed: u64) -> Self {
        let former = Store { value: Some(FIRST), is_held_off: false };
        World {
            routers: configs.map(Router::of),
            deletes_by: deletes_by.to_vec(),
            stores: HashMap::from([("a", former), ("b", Store::default())]),
            database: FIRST,
            acknowledged: FIRST,
            open: Vec::new(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            hits: 0,
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % limit as u64) as usize
    }

    fn has(&self, is_it: fn(&Open) -> bool) -> bool {
        self.open.iter().any(|(_, _, open)| is_it(open))
    }

    /// A client starts an operation. It stores a value of the database only while no delete is in
    /// flight: a late client is outside the promise.
    fn begin(&mut self) {
        let at = self.below(2);
        match self.below(4) {
            0 if !self.has(|open| matches!(open, Open::Set)) => {
                self.database += 1;
                let choice = self.below(self.deletes_by.len());
                let at = self.deletes_by[choice];
                let ticket = self.routers[at].request(Op::Delete, "k");
                self.open.push((at, ticket, Open::Delete(self.database)));
            }
            1 if !self.has(|open| matches!(open, Open::Delete(_))) => {
                let value = self.database.to_string();
                let request = Request { value: value.as_bytes(), ..Request::classic(Op::Set, b"k") };
                let ticket = self.routers[at].start(&request);
                self.open.push((at, ticket, Open::Set));
            }
            _ => {
                let ticket = self.routers[at].get("k");
                self.open.push((at, ticket, Open::Get(self.acknowledged)));
            }
        }
    }

    /// A server executes what it was sent by one of the routers, and answers: requests of one connection in their order.
    fn answer(&mut self) {
        let at = self.below(2);
        let servers: Vec<String> =
            self.routers[at].script.open.iter().map(|(name, _)| name.clone()).collect();
        if servers.is_empty() {
            return;
        }
        let name = servers[self.below(servers.len())].clone();
        let router = &mut self.routers[at];
        let line = router.script.log.iter().position(|line| line.starts_with(&name)).expect("it was sent");
        let request = router.script.log.remove(line);
        let (outcome, value) = self.stores.get_mut(&*name).expect("a server").execute(&request);
        let value = value.map(|value| value.to_string());
        let item = value.as_ref().map(|value| Item { flags: 0, value: value.as_bytes() });
        let line = if request.contains("meta get") && item.is_some() { "VA 1 f0 t-1" } else { "" };
        let block = item.map_or(&b""[..], |item| item.value);
        router.answer(&name, &Answer { item, line: line.as_bytes(), block, ..Answer::of(outcome) });
    }

    fn collect(&mut self) -> Result<(), String> {
        for (at, ticket, open) in std::mem::take(&mut self.open) {
            let Some(received) = self.routers[at].script.answers.get(&ticket) else {
                self.open.push((at, ticket, open));
                continue;
            };
            match open {
                Open::Delete(value) => self.acknowledged = self.acknowledged.max(value),
                Open::Set => {}
                Open::Get(least) => {
                    let value = received.value.as_ref().map(|value| value.parse::<u64>().unwrap());
                    self.hits += usize::from(value.is_some());
                    if let Some(value) = value.filter(|value| *value < least) {
                        return Err(format!("{value} by router {at} after {least}"));
                    }
                }
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            if self.open.len() < 6 && self.below(2) == 0 {
                self.begin();
            }
            self.answer();
            self.collect()?;
            // Hold-offs end when nothing is under way that they are there for.
            if self.open.is_empty() {
                self.stores.values_mut().for_each(|store| store.is_held_off = false);
            }
        }
        Ok(())
    }
}

fn of(server: &str) -> String {
    format!(r#"{{"pools": {{"P": {{"servers": ["{server}:1"]}}}}, "route": "PoolRoute|P"}}"#)
}

/// The steps of a change, one after the other.
fn steps() -> [String; 5] {
    [of("a"), slot("announced"), slot("warming"), slot("ending"), of("b")]
}

fn check(pair: [usize; 2], deletes_by: &[usize]) -> Result<usize, String> {
    let steps = steps();
    let mut hits = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(pair.map(|step| &*steps[step]), deletes_by, seed);
        if pair[1] == 4 {
            // It was emptied before.
            world.stores.insert("a", Store::default());
        }
        world.run().map_err(|error| format!("seed {seed}, steps {pair:?}: {error}"))?;
        hits += world.hits;
    }
    Ok(hits)
}

#[test]
fn routers_of_neighbouring_steps_show_nothing_that_either_has_deleted() {
    for pair in [[0, 1], [1, 1], [1, 2], [2, 2], [2, 3], [3, 3], [3, 4]] {
        let hits = check(pair, &[0, 1]).unwrap_or_else(|error| panic!("{error}"));
        assert!(hits > 1000, "{hits} hits at {pair:?}");
    }
}

#[test]
fn a_router_that_has_heard_of_nothing_shows_nothing_that_another_one_has_deleted() {
    for step in [1, 2, 3] {
        check([0, step], &[1]).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// What the announcement is for: without it the model finds an outdated value.
#[test]
fn a_step_that_is_left_out_shows_what_was_deleted() {
    check([0, 2], &[0, 1]).expect_err("deletes of the one do not reach the server of the other");
}
