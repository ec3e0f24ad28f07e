//! Real and invented traces through a cache that forgets nothing.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::fixture::{Fault, serve};
use guira_harness::scratch::Scratch;
use guira_load::LoadError;
use guira_load::engine::{Observer, Quiet};
use guira_load::pace::Pace;
use guira_load::replay::Replay;
use guira_workload::OnMiss;
use guira_workload::trace::{Broken, Key, Trace, TraceError};

fn replay(path: &Path) -> Replay {
    Replay {
        path: path.to_owned(),
        broken: Broken::Refuse,
        format: None,
        value_len: 1000,
        value_len_max: 1_000_000,
        limit: Some(20_000),
        on_miss: OnMiss::Fill,
        connections: 1,
        pace: Pace::Closed,
        sample: 1,
    }
}

fn orm_busy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../workload/traces/cache2k-orm-busy.trace.zst")
}

#[test]
fn a_cache_that_forgets_nothing_misses_each_key_once() {
    let distinct: HashSet<u64> = Trace::new(File::open(orm_busy()).unwrap(), None)
        .unwrap()
        .take(20_000)
        .map(|request| match request.unwrap().key {
            Key::Number(number) => number,
            Key::Text(text) => panic!("{text:?} in a binary trace"),
        })
        .collect();
    let outcome = replay(&orm_busy()).run_on(serve(Fault::None), None, &[], &mut Quiet).unwrap();
    outcome.require_right().unwrap();
    let counts = &outcome.counters.counts;
    assert_eq!((counts.gets, counts.fills), (20_000, distinct.len() as u64));
    assert_eq!(counts.gets - counts.hits, distinct.len() as u64);
}

#[test]
fn twitters_operations_are_sent_as_they_are() {
    let scratch = Scratch::new();
    let path = scratch.write(
        "operations.csv",
        "0,k,5,100,1,get,0\n1,k,5,200,1,set,60\n2,k,5,300,1,get,0\n3,k,5,0,1,delete,0\n4,k,5,0,1,get,0\n",
    );
    let outcome = replay(&path).run_on(serve(Fault::None), None, &[], &mut Quiet).unwrap();
    outcome.require_right().unwrap();
    let counts = &outcome.counters.counts;
    assert_eq!((counts.gets, counts.hits, counts.sets, counts.deletes), (3, 1, 1, 1));
    assert_eq!(counts.fills, 2, "the first get and the one after the delete");
}

#[test]
fn a_wrong_value_is_found_whatever_its_length_was() {
    let scratch = Scratch::new();
    let path = scratch.write("wrong.csv", "0,k,5,100,1,set,0\n1,k,5,300,1,get,0\n");
    let outcome = replay(&path).run_on(serve(Fault::Contents), None, &[], &mut Quiet).unwrap();
    assert_eq!(outcome.counters.counts.wrong, 1);
}

#[test]
fn a_broken_line_ends_the_replay_with_its_number() {
    let scratch = Scratch::new();
    let path = scratch.write("broken.csv", "0,k,5,100,1,get,0\n1,k,5,oops,1,get,0\n");
    let error = replay(&path).run_on(serve(Fault::None), None, &[], &mut Quiet).unwrap_err();
    let LoadError::Trace(cause) = error else { panic!("{error}") };
    assert!(cause.to_string().starts_with("line 2: the value size \"oops\""), "{cause}");
}

#[test]
fn a_missing_file_is_named() {
    let error =
        replay(Path::new("/nowhere/x")).run_on(serve(Fault::None), None, &[], &mut Quiet).unwrap_err();
    assert!(error.to_string().contains("/nowhere/x"), "{error}");
}

#[derive(Default)]
struct Skipped(Vec<String>);

impl Observer for Skipped {
    fn skipped(&mut self, count: u64, first: &TraceError) {
        self.0.push(format!("{count}, {first}"));
    }
}

#[test]
fn what_was_skipped_of_a_trace_is_told() {
    let scratch = Scratch::new();
    let path = scratch.write("skipped", "0,a,1,5,1,get,0\nbroken\n1,b,1,5,1,get,0\n2,b\n");
    let mut told = Skipped::default();
    let skipping = Replay { broken: Broken::Skip, ..replay(&path) };
    let outcome = skipping.run_on(serve(Fault::None), None, &[], &mut told).unwrap();
    assert_eq!(outcome.counters.counts.gets, 2);
    assert!(told.0.len() == 1 && told.0[0].starts_with("2, line 2: "), "{:?}", told.0);
}
