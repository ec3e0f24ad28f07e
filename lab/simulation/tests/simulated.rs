//! The program, as `cargo xtask simulate` runs it.

use std::process::{Command, Output};

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
