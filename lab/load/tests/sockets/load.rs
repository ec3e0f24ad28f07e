//! Whole loads over sockets, against a cache that misbehaves on request.

use std::net::SocketAddr;
use std::time::Duration;

use crate::fixture::{Fault, serve, serve_with_datagrams};
use guira_load::LoadError;
use guira_load::counters::Percentiles;
use guira_load::engine::Quiet;
use guira_load::pace::{Gaps, Pace};
use guira_load::process::Process;
use guira_load::reply::Check;
use guira_load::request::{ItemStyle, Protocol};
use guira_load::run::Load;
use guira_load::sustained::highest;
use guira_load::target::{Carrier, DatagramWay, Direct, Target};
use guira_workload::mix::Weights;
use guira_workload::{Expiry, KeyShape, Mix, Model, OnMiss, Operation, Popularity, SizeModel};

pub(crate) fn load(addr: SocketAddr, weights: Weights) -> Load {
    Load {
        target: Target::text(addr),
        threads: 1,
        connections: 3,
        pipeline: 4,
        pace: Pace::Closed,
        model: Model {
            popularity: Popularity::zipf(500, 0.99).unwrap(),
            keys: KeyShape::new(16, 40, 1000).unwrap(),
            sizes: SizeModel::range(1, 3000).unwrap(),
            mix: Mix::new(&weights).unwrap(),
            expiry: Expiry::NEVER,
            on_miss: OnMiss::Leave,
        },
        style: ItemStyle { flags: 0, multiget_keys: 7 },
        check: Check::Contents { sample: 1 },
        warmup: Duration::ZERO,
        duration: Duration::from_millis(200),
        seed: 1,
        cores: Vec::new(),
    }
}

const GETS: Weights =
    Weights { get: 1.0, lone_get: 0.0, multiget: 0.0, set: 0.0, delete: 0.0, lone_delete: 0.0 };
pub(crate) const EVERYTHING: Weights =
    Weights { get: 5.0, lone_get: 0.5, multiget: 3.0, set: 1.0, delete: 0.5, lone_delete: 0.0 };

#[test]
fn a_right_cache_is_found_right_under_every_operation() {
    right_under_every_operation(Protocol::Text);
}

#[test]
fn a_right_cache_is_found_right_in_the_binary_protocol() {
    right_under_every_operation(Protocol::Binary);
}

fn right_under_every_operation(protocol: Protocol) {
    let mut load = load(serve(Fault::None), EVERYTHING);
    load.target.protocol = protocol;
    load.model.on_miss = OnMiss::Fill;
    load.threads = 2;
    let preloaded = load.preload(&mut Quiet).unwrap();
    assert_eq!((preloaded.counters.counts.sets, preloaded.counters.counts.refused), (500, 0));
    let outcome = load.run(None, &mut Quiet).unwrap();
    outcome.require_right().unwrap();
    let counts = &outcome.counters.counts;
    assert!(counts.hits > 100 && counts.deletes > 0 && counts.sets > 0, "{counts:?}");
    assert!(counts.fills > 0, "deleted keys were missed and set again: {counts:?}");
    assert!(counts.hits < counts.gets, "lone gets are never found: {counts:?}");
    assert_eq!(counts.contents_checked, counts.hits);
}

#[test]
fn preloaded_keys_are_all_found() {
    for protocol in [Protocol::Text, Protocol::Binary] {
        let mut load = load(serve(Fault::None), Weights { multiget: 1.0, get: 1.0, ..Weights::default() });
        load.target.protocol = protocol;
        load.preload(&mut Quiet).unwrap();
        let outcome = load.run(None, &mut Quiet).unwrap();
        let counts = &outcome.counters.counts;
        assert!(counts.gets > 100);
        assert_eq!(counts.gets, counts.hits);
        assert!((counts.hit_ratio() - 1.0).abs() < 1e-12);
    }
}

#[test]
fn a_right_cache_is_found_right_over_udp() {
    let target = serve_with_datagrams(Fault::None);
    let mut load = load(target.addr, EVERYTHING);
    load.target = target;
    load.model.on_miss = OnMiss::Fill;
    load.threads = 2;
    let preloaded = load.preload(&mut Quiet).unwrap();
    assert_eq!((preloaded.counters.counts.sets, preloaded.counters.counts.lost), (500, 0));
    let outcome = load.run(None, &mut Quiet).unwrap();
    outcome.require_right().unwrap();
    outcome.require_answered(0.0).unwrap();
    let counts = &outcome.counters.counts;
    assert!(counts.hits > 100 && counts.deletes > 0 && counts.sets > 0 && counts.fills > 0, "{counts:?}");
    assert!(counts.hits < counts.gets, "lone gets are never found: {counts:?}");
}

#[test]
fn wrong_values_over_udp_are_counted() {
    let target = serve_with_datagrams(Fault::Contents);
    let mut load = load(target.addr, GETS);
    load.target = target;
    load.preload(&mut Quiet).unwrap();
    assert!(load.run(None, &mut Quiet).unwrap().require_right().is_err());
}

#[test]
fn the_highest_rate_with_short_latencies_is_found() {
    let target = serve_with_datagrams(Fault::None);
    for carrier in [target.carrier.clone(), Carrier::Tcp] {
        let mut load = load(target.addr, Weights { multiget: 1.0, ..Weights::default() });
        load.target = Target { carrier, ..target.clone() };
        load.duration = Duration::from_millis(50);
        load.preload(&mut Quiet).unwrap();
        let process = Process::new(std::process::id());
        let found = highest(&load, Duration::from_secs(1), Some(process)).unwrap();
        let counts = &found.outcome.counters.counts;
        assert!(found.connections >= 8 && counts.hits > 0 && counts.hits == counts.gets, "{found:?}");
        assert!(found.items_per_s() > 0.0 && found.items_per_cpu_s() > 0.0 && found.busy() > 0.0);
        let error = highest(&load, Duration::ZERO, None).unwrap_err();
        assert!(error.to_string().contains("never below"), "{error}");
    }
}

#[test]
fn lost_datagrams_are_counted_and_an_error_above_the_limit() {
    let target = serve_with_datagrams(Fault::Forget(20));
    let mut load = load(target.addr, GETS);
    load.target = target;
    load.duration = Duration::from_millis(1500);
    let outcome = load.run(None, &mut Quiet).unwrap();
    outcome.require_right().unwrap();
    let counts = &outcome.counters.counts;
    assert!(counts.lost > 0 && counts.commands > counts.lost, "{counts:?}");
    let error = outcome.require_answered(0.001).unwrap_err();
    assert!(matches!(error, LoadError::Lost { .. }), "{error}");
    assert!(error.to_string().ends_with("had no reply; the limit is 0.1 %"), "{error}");
    outcome.require_answered(0.5).unwrap();
}

#[test]
fn a_load_goes_on_when_no_datagram_is_answered() {
    let target = serve_with_datagrams(Fault::Forget(1));
    let mut load = load(target.addr, GETS);
    load.target = target;
    load.duration = Duration::from_millis(1500);
    let counts = load.run(None, &mut Quiet).unwrap().counters.counts;
    assert_eq!(counts.commands, 0);
    assert!(counts.lost > 3 * 4, "what was lost first was followed by more: {counts:?}");
}

#[test]
fn over_udp_an_open_loop_keeps_its_rate() {
    let target = serve_with_datagrams(Fault::None);
    let mut load = load(target.addr, GETS);
    load.target = target;
    load.pace = Pace::Open { rate_per_s: 2000.0, arrivals: Gaps::Poisson };
    load.duration = Duration::from_millis(500);
    let gets = load.run(None, &mut Quiet).unwrap().counters.counts.gets;
    assert!((800..=1200).contains(&gets), "{gets}");
}

#[test]
fn misses_are_filled_until_there_are_none() {
    let addr = serve(Fault::None);
    let mut load = load(addr, GETS);
    load.model.on_miss = OnMiss::Fill;
    load.warmup = Duration::from_millis(400);
    load.model.popularity = Popularity::Uniform { count: 20 };
    let outcome = load.run(None, &mut Quiet).unwrap();
    assert_eq!(outcome.counters.counts.gets, outcome.counters.counts.hits, "the warm-up set all keys");
}

#[test]
fn wrong_values_are_counted_and_shown() {
    for (protocol, fault, told) in [
        (Protocol::Text, Fault::Contents, "wrong contents"),
        (Protocol::Text, Fault::Length, "bytes, not"),
        (Protocol::Binary, Fault::Contents, "wrong contents"),
        (Protocol::Binary, Fault::Length, "bytes, not"),
    ] {
        let mut load = load(serve(fault), GETS);
        load.target.protocol = protocol;
        load.preload(&mut Quiet).unwrap();
        let outcome = load.run(None, &mut Quiet).unwrap();
        assert!(outcome.counters.counts.wrong > 0, "{fault:?}");
        let error = outcome.require_right().unwrap_err().to_string();
        assert!(error.contains(told), "{fault:?}: {error}");
    }
}

#[test]
fn refused_sets_are_counted_and_not_wrong() {
    for protocol in [Protocol::Text, Protocol::Binary] {
        let mut load = load(serve(Fault::Refuse), GETS);
        load.target.protocol = protocol;
        let outcome = load.preload(&mut Quiet).unwrap();
        assert_eq!((outcome.counters.counts.sets, outcome.counters.counts.refused), (500, 500));
        outcome.require_right().unwrap();
    }
}

#[test]
fn a_closed_connection_is_an_error_that_tells_what_was_open() {
    let addr = serve(Fault::Close(10));
    let error = load(addr, GETS).run(None, &mut Quiet).unwrap_err();
    assert!(
        matches!(error, LoadError::Closed { unanswered: 1.., .. } | LoadError::Connection { .. }),
        "{error}"
    );
}

#[test]
fn a_stall_is_felt_by_every_request_of_an_open_loop() {
    // 200 ms of 500 ms: two in five requests waited, so the median of the slow half is far above the server's own
    // time; a closed loop would have recorded one slow batch for each connection.
    let addr = serve(Fault::Stall(20, Duration::from_millis(200)));
    let mut load = load(addr, GETS);
    load.connections = 1;
    load.pipeline = 1;
    load.duration = Duration::from_millis(500);
    load.pace = Pace::Open { rate_per_s: 1000.0, arrivals: Gaps::Even };
    let open = Percentiles::of(&load.run(None, &mut Quiet).unwrap().counters.get_ns);
    assert!(open.p90_us > 100_000.0, "{open:?}");
    load.pace = Pace::Closed;
    let closed = Percentiles::of(&load.run(None, &mut Quiet).unwrap().counters.get_ns);
    assert!(closed.p90_us < 50_000.0 && closed.max_us > 190_000.0, "{closed:?}");
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let addr = serve(Fault::None);
    let mut load = load(addr, GETS);
    load.pace = Pace::Open { rate_per_s: 2000.0, arrivals: Gaps::Poisson };
    load.duration = Duration::from_millis(500);
    let counts = load.run(None, &mut Quiet).unwrap().counters.counts;
    assert!((800..=1200).contains(&counts.gets), "{counts:?}");
    assert!(counts.behind_ns < 400_000_000, "{counts:?}");
}

#[test]
fn an_open_loop_that_nobody_could_keep_says_how_far_it_is_behind() {
    for target in [Target::text(serve(Fault::None)), serve_with_datagrams(Fault::None)] {
        let mut load = load(target.addr, GETS);
        load.target = target;
        load.pace = Pace::Open { rate_per_s: 1e9, arrivals: Gaps::Even };
        load.duration = Duration::from_secs(1);
        let counts = load.run(None, &mut Quiet).unwrap().counters.counts;
        assert!(counts.behind_ns > 800_000_000, "a rate that is far beyond anybody's: {counts:?}");
        assert!(counts.gets > 0, "{counts:?}");
    }
}

#[test]
fn nonsense_is_refused_before_anything_is_sent() {
    let addr = serve(Fault::None);
    for change in [
        (|load: &mut Load| load.pipeline = 0) as fn(&mut Load),
        |load| load.connections = 0,
        |load| load.threads = 9,
        |load| {
            load.target.carrier = Carrier::Udp(load.target.addr);
            load.target.protocol = Protocol::Binary;
        },
        |load| {
            load.target.carrier = Carrier::Udp(load.target.addr);
            load.model.mix = Mix::Only(Operation::Multiget);
            load.style.multiget_keys = 100;
        },
        |load| {
            let way = DatagramWay::Udp(load.target.addr);
            load.target.carrier = Carrier::Mica(Direct { way, per_datagram: 1 });
        },
        |load| {
            let way = DatagramWay::Udp(load.target.addr);
            load.target.carrier = Carrier::Mica(Direct { way, per_datagram: 1 });
            load.connections = load.threads;
            load.model.sizes = SizeModel::Constant(1400);
        },
        |load| load.pace = Pace::Open { rate_per_s: 0.0, arrivals: Gaps::Even },
    ] {
        let mut load = load(addr, GETS);
        change(&mut load);
        assert!(matches!(load.run(None, &mut Quiet), Err(LoadError::Options(_))));
    }
}
