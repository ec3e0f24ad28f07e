//! Jobs that run side by side: most of them wait more than they compute, so a few at once take less time than one after
//! the other.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::tools::{describe, target_folder};
use super::{Outcome, Step, Unable, Work, now};

/// The jobs that take longest begin first, so that none of them runs alone at the end.
const LONGEST: &[&str] = &[
    "tests-fleet",
    "tests-router",
    "guira_slab",
    "simulation",
    "loom",
    "tests-invalidator",
    "tests-client",
    "soak-memc3",
    "python",
    "tests-checker",
    "guira_mica",
    "tests-pools",
    "tests-server",
    "soak",
    "refusals",
    "guira_fleec",
    "install",
];

/// Jobs at once for each processor.
const AT_ONCE: usize = 2;

/// How long a program may run: several times what the longest needs. A test that hangs fails with its name in the
/// log, and the other jobs still report.
const LIMIT: Duration = Duration::from_secs(1800);

/// Jobs whose times are printed at the end.
const SHOWN: usize = 10;

/// Runs a program for at most the seconds `$1`, and writes its processor time to the file `$0`. The program is in the
/// foreground, so that an interrupt from the terminal reaches it and its servers.
const TIMED: &str = "timeout --foreground --kill-after=10 \"$@\"; status=$?; times >\"$0\"; exit $status";

/// A part of a step: programs that run in order, as long as they succeed.
#[derive(Debug)]
pub(crate) struct Job {
    /// No other job's: the log has it too.
    name: String,
    commands: Vec<Command>,
}

struct Ended {
    step: &'static str,
    name: String,
    begin: Instant,
    end: Instant,
    /// Processor time of the programs and of the processes that they started.
    computed: Duration,
    is_right: bool,
    log: PathBuf,
}

/// Prepares the steps, runs what they consist of, and returns how each ended.
pub(super) fn run(root: &Path, steps: &[Step], unable: Unable) -> Vec<(&'static str, Outcome)> {
    // Some steps install packages or call cargo before they know their commands.
    let works: Vec<Work> = thread::scope(|scope| {
        let threads: Vec<_> = steps.iter().map(|step| scope.spawn(|| (step.work)(root))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a step does not panic")).collect()
    });
    let mut outcomes = Vec::new();
    let mut jobs = Vec::new();
    for (step, work) in steps.iter().zip(works) {
        match work {
            Work::Jobs(parts) => jobs.extend(parts.into_iter().map(|job| (step.name, job))),
            Work::Commands(commands) => jobs.push((step.name, Job::new(step.name, commands))),
            other => outcomes.push((step.name, super::execute(root, step.name, other, unable))),
        }
    }
    outcomes.extend(run_and_report(root, jobs));
    outcomes
}

/// Runs the jobs of one step.
pub(super) fn run_step(root: &Path, step: &'static str, jobs: Vec<Job>) -> Outcome {
    let outcomes = run_and_report(root, jobs.into_iter().map(|job| (step, job)).collect());
    outcomes.into_iter().next().map_or(Outcome::Passed, |(_, outcome)| outcome)
}

fn run_and_report(root: &Path, jobs: Vec<(&'static str, Job)>) -> Vec<(&'static str, Outcome)> {
    if jobs.is_empty() {
        return Vec::new();
    }
    match run_jobs(root, jobs) {
        Ok(ended) => report(ended),
        Err(error) => vec![("logs", Outcome::Failed(vec![error.to_string()]))],
    }
}

fn run_jobs(root: &Path, mut jobs: Vec<(&'static str, Job)>) -> io::Result<Vec<Ended>> {
    let logs = root.join(target_folder(root)).join("test-logs");
    fs::create_dir_all(&logs)?;
    jobs.sort_by_key(|(_, job)| {
        LONGEST.iter().position(|name| job.name.contains(name)).unwrap_or(LONGEST.len())
    });
    let at_once = AT_ONCE * thread::available_parallelism().map_or(1, usize::from);
    let (waiting, ended) = (Mutex::new(VecDeque::from(jobs)), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || -> io::Result<()> {
        while let Some((step, job)) = next() {
            let one = job.run(step, root, &logs)?;
            println!("{one}");
            ended.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a job does not panic"))
    })?;
    Ok(ended.into_inner().unwrap_or_else(PoisonError::into_inner))
}

impl Job {
    pub(crate) fn new(name: impl Into<String>, commands: Vec<Command>) -> Self {
        Job { name: name.into(), commands }
    }

    fn run(self, step: &'static str, root: &Path, logs: &Path) -> io::Result<Ended> {
        let log = logs.join(format!("{}.log", self.name));
        let times = logs.join(format!("{}.times", self.name));
        let mut out = File::create(&log)?;
        let begin = now();
        let (mut computed, mut is_right) = (Duration::ZERO, true);
        for command in &self.commands {
            let (mut program, started) = (timed(command, root, &times), now());
            program.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out.try_clone()?);
            let status = program.status()?;
            computed += fs::read_to_string(&times).map(|text| sum_of_times(&text)).unwrap_or_default();
            if !status.success() {
                writeln!(out, "{}", ending(command, status, started.elapsed()))?;
                is_right = false;
                break;
            }
        }
        // Only a program that was killed leaves none.
        let _ = fs::remove_file(&times);
        Ok(Ended { step, name: self.name, begin, end: now(), computed, is_right, log })
    }
}

fn ending(command: &Command, status: ExitStatus, took: Duration) -> String {
    if took >= LIMIT {
        format!("{} did not end within {LIMIT:?}", describe(command))
    } else {
        format!("{} ended with {status}", describe(command))
    }
}

/// The same program with its limit, and with its processor time in a file.
fn timed(command: &Command, root: &Path, times: &Path) -> Command {
    let mut timed = Command::new("sh");
    timed.args(["-c", TIMED]).arg(times).arg(LIMIT.as_secs().to_string());
    timed.arg(command.get_program()).args(command.get_args());
    timed.current_dir(command.get_current_dir().unwrap_or(root));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => timed.env(name, value),
            None => timed.env_remove(name),
        };
    }
    timed
}

/// User and system time in the last line of `times`, such as `1m2.5s 0m0.25s`: that of the shell's children.
fn sum_of_times(text: &str) -> Duration {
    let time = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    Duration::from_secs_f64(text.lines().last().unwrap_or_default().split_whitespace().filter_map(time).sum())
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_right { "ok" } else { "FAILED" };
        let (took, computed) = ((self.end - self.begin).as_secs_f32(), self.computed.as_secs_f32());
        write!(formatter, "{took:5.0} s, {computed:4.0} s of processors, {how:6} {}", self.name)
    }
}

/// Prints the longest jobs and the logs of those that failed. Returns how each step ended.
fn report(mut ended: Vec<Ended>) -> Vec<(&'static str, Outcome)> {
    ended.sort_by_key(|one| std::cmp::Reverse(one.computed));
    println!("== the jobs with the most processor time:");
    ended.iter().take(SHOWN).for_each(|one| println!("{one}"));
    let mut outcomes = Vec::new();
    ended.sort_by_key(|one| one.step);
    for step in ended.chunk_by(|one, other| one.step == other.step) {
        let mut lines = Vec::new();
        for one in step.iter().filter(|one| !one.is_right) {
            let text = fs::read_to_string(&one.log).unwrap_or_default();
            println!("==== {}\n{text}", one.name);
            lines.push(format!("{}:", one.name));
            lines.extend(failures(&text).lines().map(str::to_owned));
        }
        let outcome = if lines.is_empty() { Outcome::Passed } else { Outcome::Failed(lines) };
        let begin = step.iter().map(|one| one.begin).min();
        let end = step.iter().map(|one| one.end).max();
        let took = begin.zip(end).map_or(Duration::ZERO, |(begin, end)| end - begin);
        super::show(step[0].step, &outcome, took);
        outcomes.push((step[0].step, outcome));
    }
    outcomes
}

/// The part of a program's output that is about what failed.
fn failures(text: &str) -> &str {
    let last = (text.len().saturating_sub(4_000)..).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[text.find("\nfailures:\n").unwrap_or(last)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Vec<Command> {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).env("WORD", "red");
        vec![shell]
    }

    #[test]
    fn jobs_of_several_steps_run_and_what_failed_is_shown_with_its_output() {
        let root = std::env::temp_dir().join(format!("guira-pool-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let mut elsewhere = shell("pwd");
        elsewhere[0].current_dir("/");
        let jobs = vec![
            (
                "good",
                Job::new(
                    "good",
                    [shell("echo $WORD"), shell("pwd"), elsewhere].into_iter().flatten().collect(),
                ),
            ),
            ("mixed", Job::new("mixed-bad", shell("echo long; echo; echo failures:; echo why; exit 3"))),
            ("mixed", Job::new("mixed-good", shell("exit 0"))),
        ];
        let ended = run_jobs(&root, jobs).unwrap();
        let log = ended.iter().find(|one| one.name == "good").unwrap().log.clone();
        let text = fs::read_to_string(log).unwrap();
        assert_eq!(text, format!("red\n{}\n/\n", root.display()));
        let outcomes = report(ended);
        let [("good", Outcome::Passed), ("mixed", Outcome::Failed(lines))] = &outcomes[..] else {
            panic!("{outcomes:?}")
        };
        assert_eq!(lines[0], "mixed-bad:");
        assert!(lines.contains(&"why".to_owned()) && !lines.contains(&"long".to_owned()), "{lines:?}");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn processor_time_is_read_from_what_a_shell_prints() {
        assert_eq!(sum_of_times("0m1.0s 0m1.0s\n1m2.500000s 0m0.25s\n"), Duration::from_millis(62_750));
        assert_eq!(sum_of_times("nothing"), Duration::ZERO);
    }
}
