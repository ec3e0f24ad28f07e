//! Steps of continuous integration: each runs commands, or says in one line why it cannot.

pub(crate) mod arm64;
mod clients;
mod debian;
pub(crate) mod dist;
mod fuzz;
mod mysql;
mod output;
mod pool;
pub(crate) mod python;
pub(crate) mod sanitize;
pub(crate) mod simulation;
pub(crate) mod soak;
pub(crate) mod steps;
pub(crate) mod suites;
pub(crate) mod tools;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use crate::tidy;
use pool::Job;

pub(crate) enum Work {
    /// Runs these programs in order, as long as they succeed.
    Commands(Vec<Command>),
    /// Runs these jobs beside each other, and beside those of other steps.
    Jobs(Vec<Job>),
    Call(Box<dyn FnOnce() -> Result<(), String> + Send>),
    /// Checks the rules of the house in this process.
    Tidy,
    /// Cannot be done here, for this reason.
    Skip(String),
}

#[derive(Debug)]
pub(crate) struct Step {
    /// Its name, for the command line and the summary.
    pub(crate) name: &'static str,
    /// What it does, decided when its turn comes: an earlier step may provide what it needs.
    pub(crate) work: fn(&Path) -> Work,
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Run one after the other, those of one stage at once: each stage provides what the later ones need.
    pub(crate) stages: Vec<Vec<Step>>,
    /// Run after those, side by side: they wait more than they compute.
    pub(crate) side_by_side: Vec<Step>,
}

impl From<Vec<Step>> for Plan {
    fn from(in_order: Vec<Step>) -> Self {
        let stages = in_order.into_iter().map(|step| vec![step]).collect();
        Plan { stages, side_by_side: Vec::new() }
    }
}

impl Plan {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.stages.iter().flatten().chain(&self.side_by_side).map(|step| step.name)
    }

    fn keep(&mut self, chosen: &[String]) {
        let is_chosen = |step: &Step| chosen.is_empty() || chosen.iter().any(|name| name == step.name);
        self.stages.iter_mut().for_each(|stage| stage.retain(is_chosen));
        self.side_by_side.retain(is_chosen);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// With the last lines that it printed.
    Failed(Vec<String>),
    Skipped,
}

/// What becomes of steps that cannot be done here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unable {
    /// The others count without them.
    Skips,
    /// Somebody has asked for what they make.
    Fails,
}

/// Runs the steps, all or those `chosen` by name, and prints how many passed, failed and were skipped.
pub(crate) fn run(root: &Path, plan: impl Into<Plan>, chosen: &[String], unable: Unable) -> ExitCode {
    let mut plan = plan.into();
    if let Some(unknown) = chosen.iter().find(|chosen| plan.names().all(|name| name != chosen.as_str())) {
        let known = plan.names().collect::<Vec<_>>().join(" ");
        eprintln!("there is no step {unknown}; the steps are: {known}");
        return ExitCode::FAILURE;
    }
    plan.keep(chosen);
    let mut outcomes = Vec::new();
    let run = |step: &Step| {
        let begin = now();
        let outcome = execute(root, step.name, (step.work)(root), unable);
        show(step.name, &outcome, begin.elapsed());
        (step.name, outcome)
    };
    for stage in &plan.stages {
        thread::scope(|scope| {
            let threads: Vec<_> = stage.iter().map(|step| scope.spawn(|| run(step))).collect();
            let ended = threads.into_iter().map(|thread| thread.join().expect("a step does not panic"));
            outcomes.extend(ended);
        });
    }
    outcomes.extend(pool::run(root, &plan.side_by_side, unable));
    summarise(&outcomes)
}

fn show(name: &str, outcome: &Outcome, took: Duration) {
    let word = match outcome {
        Outcome::Passed => "Passed",
        Outcome::Failed(_) => "Failed",
        Outcome::Skipped => return,
    };
    println!("== {name}: {word} after {:.0?}", took.max(Duration::from_millis(1)));
}

fn execute(root: &Path, name: &'static str, work: Work, unable: Unable) -> Outcome {
    match work {
        Work::Jobs(jobs) => pool::run_step(root, name, jobs),
        Work::Skip(reason) if unable == Unable::Fails => Outcome::Failed(vec![reason]),
        Work::Skip(reason) => {
            println!("== {name}: skipped: {reason}");
            Outcome::Skipped
        }
        Work::Call(call) => {
            println!("== {name}");
            call().map_or_else(
                |error| {
                    println!("{error}");
                    Outcome::Failed(error.lines().map(str::to_owned).collect())
                },
                |()| Outcome::Passed,
            )
        }
        Work::Tidy => {
            println!("== {name}");
            let findings =
                tidy::run(root).unwrap_or_else(|error| vec![tidy::Finding::new(".", 1, error, "repair it")]);
            if tidy::report(&findings) == ExitCode::SUCCESS {
                Outcome::Passed
            } else {
                Outcome::Failed(Vec::new())
            }
        }
        Work::Commands(commands) => {
            for mut command in commands {
                println!("== {name}: {}", tools::describe(&command));
                match output::run(command.current_dir(root)) {
                    Ok((status, _)) if status.success() => {}
                    Ok((status, lines)) => {
                        println!("== {name}: ended with {status}");
                        return Outcome::Failed(lines);
                    }
                    Err(error) => {
                        println!("== {name}: cannot run: {error}");
                        return Outcome::Failed(Vec::new());
                    }
                }
            }
            Outcome::Passed
        }
    }
}

fn summarise(outcomes: &[(&str, Outcome)]) -> ExitCode {
    let mut passed = 0;
    let mut skipped = 0;
    let mut failed = Vec::new();
    for (name, outcome) in outcomes {
        match outcome {
            Outcome::Passed => passed += 1,
            Outcome::Skipped => skipped += 1,
            Outcome::Failed(lines) => failed.push((name, lines)),
        }
    }
    for (name, lines) in &failed {
        println!("failed: {name}; its last lines:");
        lines.iter().for_each(|line| println!("  {line}"));
    }
    println!("{passed} passed, {} failed, {skipped} skipped", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(clippy::disallowed_methods, reason = "a person wants to know how long a step took")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &'static str, work: fn(&Path) -> Work) -> Step {
        Step { name, work }
    }

    fn program(name: &str) -> Work {
        Work::Commands(vec![Command::new(name)])
    }

    #[test]
    fn a_failing_command_fails_its_step_only() {
        let root = Path::new("/");
        assert_eq!(execute(root, "good", program("true"), Unable::Fails), Outcome::Passed);
        let failed = Outcome::Failed(Vec::new());
        assert_eq!(execute(root, "bad", program("false"), Unable::Skips), failed);
        assert_eq!(execute(root, "none", program("no-such-program-anywhere"), Unable::Skips), failed);
    }

    #[test]
    fn what_cannot_be_done_is_skipped_unless_somebody_has_asked_for_it() {
        let root = Path::new("/");
        let skip = || Work::Skip("no reason".into());
        assert_eq!(execute(root, "left out", skip(), Unable::Skips), Outcome::Skipped);
        assert_eq!(
            execute(root, "left out", skip(), Unable::Fails),
            Outcome::Failed(vec!["no reason".into()])
        );
        let step = || step("left out", |_| Work::Skip("no reason".into()));
        assert_eq!(run(root, vec![step()], &[], Unable::Skips), ExitCode::SUCCESS);
        assert_eq!(run(root, vec![step()], &[], Unable::Fails), ExitCode::FAILURE);
    }

    #[test]
    fn unknown_steps_are_refused() {
        let steps = || vec![step("good", |_| program("true"))];
        assert_eq!(run(Path::new("/"), steps(), &["other".into()], Unable::Skips), ExitCode::FAILURE);
        assert_eq!(run(Path::new("/"), steps(), &["good".into()], Unable::Skips), ExitCode::SUCCESS);
    }
}
