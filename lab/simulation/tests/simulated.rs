//! The program, as `cargo xtask simulate` runs it, and what `guira_sync` builds from the world's parts.

use guira_sync::channel::{RecvTimeoutError, channel, sync_channel};
use guira_sync::clock::Stopwatch;
use guira_sync::thread;
use guira_world::{Options, run};
use std::process::{Command, Output};
use std::time::Duration;

fn simulate(arguments: &[&str]) -> Output {
    // The shell of the wrapper of rustc drops a variable with this name, so that it is set at run time only.
    let program = std::env::var_os("CARGO_BIN_EXE_guira-simulation").expect("cargo runs the test");
    Command::new(program).args(arguments).output().expect("the program starts")
}

#[test]
fn a_mistake_of_the_product_is_found_and_its_run_made_simpler() {
    let planted = ["--plant", "markers-not-settled", "--scenario", "regions"];
    let found = simulate(&[&planted[..], &["--seed", "1", "--seeds", "20"]].concat());
    let report = String::from_utf8_lossy(&found.stdout);
    assert!(!found.status.success(), "{report}");
    let repeat = report.lines().find_map(|line| line.strip_prefix("simplify with: cargo xtask simulate "));
    let arguments: Vec<&str> = repeat.expect(&report).split(' ').collect();
    let simplified = simulate(&arguments);
    let report = String::from_utf8_lossy(&simplified.stdout);
    assert!(simplified.status.success(), "{report}");
    let simplest =
        report.lines().find(|line| line.starts_with("the simplest run that fails")).expect(&report);
    assert!(simplest.contains(" --clients "), "{report}");
}

#[test]
fn an_unknown_scenario_is_rejected_with_the_known_ones() {
    let rejected = simulate(&["--scenario", "nowhere"]);
    let message = String::from_utf8_lossy(&rejected.stderr);
    assert!(!rejected.status.success());
    assert!(message.contains("nowhere") && message.contains("membership"), "{message}");
}

#[test]
fn channels_keep_order_wait_when_full_and_end() {
    for seed in 0..200 {
        let outcome = run(Options::of(seed), || {
            let (sender, receiver) = sync_channel(2);
            let thread = thread::spawn(move || (0..50).for_each(|number| sender.send(number).unwrap()));
            let received: Vec<i32> = receiver.iter().collect();
            assert_eq!(received, (0..50).collect::<Vec<_>>());
            thread.join().unwrap();
            let (sender, receiver) = channel();
            let begin = Stopwatch::start();
            let limit = Duration::from_secs(60);
            assert_eq!(receiver.recv_timeout(limit), Err(RecvTimeoutError::Timeout));
            assert!((60..61).contains(&begin.elapsed().as_secs()));
            drop(receiver);
            assert!(sender.send(1).is_err());
        });
        assert!(outcome.result.is_some() && outcome.panics.is_empty(), "seed {seed}: {:?}", outcome.panics);
    }
}
