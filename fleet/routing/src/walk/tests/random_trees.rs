//! Random trees, random answers in random order: every request is answered once, and nothing is left behind.

use super::*;

const SEEDS: u64 = 400;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    fn children(&mut self, depth: usize) -> String {
        let count = 1 + self.below(4);
        (0..count).map(|_| self.route(depth)).collect::<Vec<_>>().join(", ")
    }

    fn route(&mut self, depth: usize) -> String {
        let leaf = ["A", "B", "C", "D", "E", "F", "P"].map(|pool| format!("\"PoolRoute|{pool}\""));
        if depth == 0 {
            return leaf[self.below(leaf.len())].clone();
        }
        let depth = depth - 1;
        let (one, other) = (self.route(depth), self.route(depth));
        let children = self.children(depth);
        let number = 1 + self.below(3);
        match self.below(27) {
            kind @ 24.. => self.split_or_delayed(kind, &one, &other, number),
            0 => format!(r#"{{"type": "AllSyncRoute", "children": [{children}]}}"#),
            1 => format!(r#"{{"type": "AllAsyncRoute", "children": [{children}]}}"#),
            2 => format!(r#"{{"type": "AllInitialRoute", "children": [{children}]}}"#),
            3 => format!(r#"{{"type": "AllFastestRoute", "children": [{children}]}}"#),
            4 => format!(r#"{{"type": "AllMajorityRoute", "children": [{children}]}}"#),
            5 => format!(r#"{{"type": "FailoverRoute", "children": [{children}]}}"#),
            6 => format!(
                r#"{{"type": "FailoverRoute", "children": [{one}, {children}], "failover_tag": true, "failover_policy":
                    {{"type": "DeterministicOrderPolicy", "max_tries": {number}, "max_error_tries": {number}}}}}"#
            ),
            7 => format!(
                r#"{{"type": "FailoverRoute", "children": [{one}, {children}], "failover_limit": {{"rate": 0.5, "burst": 1}},
                    "failover_policy": {{"type": "LeastFailuresPolicy", "max_tries": {number}}}}}"#
            ),
            8 => format!(
                r#"{{"type": "FailoverRoute", "children": [{one}, {children}], "failover_policy": {{"type": "RendezvousPolicy"}}}}"#
            ),
            9 => format!(
                r#"{{"type": "FailoverWithExptimeRoute", "normal": {one}, "failover": [{children}]}}"#
            ),
            10 => format!(r#"{{"type": "MissFailoverRoute", "children": [{children}]}}"#),
            11 => format!(
                r#"{{"type": "MissFailoverRoute", "children": [{children}], "return_best_on_error": true}}"#
            ),
            12 => {
                let more =
                    self.of(&[r#""exptime": 9"#, r#""hold_off": "native""#, r#""hold_off": "sentinel""#]);
                format!(r#"{{"type": "WarmUpRoute", "cold": {one}, "warm": {other}, {more}}}"#)
            }
            13 => format!(r#"{{"type": "StagingRoute", "warm": {one}, "staging": {other}}}"#),
            14 => format!(
                r#"{{"type": "L1L2CacheRoute", "l1": {one}, "l2": {other}, "ncacheExptime": 1, "ncacheUpdatePeriod": {number}}}"#
            ),
            15 => format!(
                r#"{{"type": "KeySplitRoute", "destination": {one}, "replicas": 3, "all_sync": true, "first_hit": true}}"#
            ),
            16 => format!(
                r#"{{"type": "ModifyKeyRoute", "target": {one}, "set_key_suffix": "{}"}}"#,
                "s".repeat(90)
            ),
            17 => {
                format!(r#"{{"type": "ModifyExptimeRoute", "target": {one}, "exptime": 5, "action": "min"}}"#)
            }
            18 => format!(r#"{{"type": "RandomRoute", "children": [{children}]}}"#),
            19 => format!(r#"{{"type": "HashRoute", "children": [{children}], "salt": "{number}"}}"#),
            20 => {
                format!(r#"{{"type": "LatestRoute", "children": [{children}], "failover_count": {number}}}"#)
            }
            21 => format!(
                r#"{{"type": "SlowWarmUpRoute", "target": {one}, "failoverTarget": {other}, "settings": {{"enable_threshold": 0.5, "disable_threshold": 0.9, "min_requests": 1}}}}"#
            ),
            22 => format!(
                r#"{{"type": "OutstandingLimitRoute", "target": {one}, "max_outstanding": {number}}}"#
            ),
            _ => format!(
                r#"{{"type": "MigrateRoute", "from": {one}, "to": {other}, "start_time": 1799999900, "interval": 100}}"#
            ),
        }
    }

    fn split_or_delayed(&mut self, kind: usize, one: &str, other: &str, number: usize) -> String {
        let before = number - 1;
        match kind {
            24 => format!(
                r#"{{"type": "LatencyInjectionRoute", "child": {one}, "before_latency_ms": {before}, "after_latency_ms": {}, "total_latency_ms": {number}}}"#,
                self.below(2)
            ),
            25 => format!(
                r#"{{"type": "BigValueRoute", "target": {one}, "split_threshold": 2, "batch_size": {number}}}"#
            ),
            _ => format!(
                r#"{{"type": "L1L2SizeSplitRoute", "l1": {one}, "l2": {other}, "threshold": 2, "retries": {number}}}"#
            ),
        }
    }
}

const OPS: [Op; 9] =
    [Op::Get, Op::Gets, Op::LeaseGet, Op::Set, Op::Add, Op::LeaseSet, Op::Delete, Op::Incr, Op::Touch];
const OUTCOMES: [Outcome; 8] = [
    Outcome::Found,
    Outcome::NotFound,
    Outcome::NotFoundHot,
    Outcome::Stored,
    Outcome::Timeout,
    Outcome::Tko,
    Outcome::RemoteError,
    Outcome::ClientError,
];

fn run(seed: u64) {
    let mut random = Random(seed);
    let depth = 1 + random.below(3);
    let mut router = Router::new(&random.route(depth));
    router.facts.host = seed;
    for step in 0..60 {
        if random.below(4) == 0 {
            let server = random.of(&["a", "b", "c", "p0", "p5"]);
            match random.below(3) {
                0 => router.refuse(server, random.of(&OUTCOMES)),
                _ => _ = router.script.refusals.remove(server),
            }
        }
        if random.below(2) == 0 {
            let op = random.of(&OPS);
            let value: &[u8] = if op.group() == crate::request::Group::Update { b"value" } else { b"" };
            let key = format!("key{step}|#|{op:?}");
            let is_meta = matches!(op, Op::Get | Op::Set | Op::Add | Op::Delete) && random.below(3) == 0;
            let (dialect, meta): (_, &[u8]) =
                if is_meta { (Dialect::Meta, b"v c") } else { (Dialect::Classic, b"") };
            router.start(&Request { value, dialect, meta, ..Request::classic(op, key.as_bytes()) });
        }
        if !router.script.open.is_empty() && random.below(3) > 0 {
            answer(&mut router, &mut random);
        }
    }
    let mut answers = 0;
    while !router.script.open.is_empty() {
        answer(&mut router, &mut random);
        answers += 1;
        assert!(answers < 1_000_000, "there is no end to it");
    }
    router.end();
}

fn answer(router: &mut Router, random: &mut Random) {
    let (server, origin) = router.script.open.remove(random.below(router.script.open.len()));
    let outcome = random.of(&OUTCOMES);
    let flags = random.of(&[0, 7, 0x1_0000, 0x8000, 0x20, 0x7e1c_0f1f]);
    let value = if random.below(2) == 0 { server.as_bytes() } else { b"1-3-5" };
    let item = (outcome == Outcome::Found && random.below(4) > 0).then_some(Item { flags, value });
    let number = random.below(3) as u64;
    router.walks.answer(origin, &Answer { item, number, ..Answer::of(outcome) }, &mut router.script);
}

#[test]
fn every_request_is_answered_once_and_nothing_is_left_behind() {
    for seed in 0..SEEDS {
        let result = std::panic::catch_unwind(|| run(seed));
        assert!(result.is_ok(), "seed {seed}; the tree is {}", {
            let mut random = Random(seed);
            let depth = 1 + random.below(3);
            random.route(depth)
        });
    }
}
