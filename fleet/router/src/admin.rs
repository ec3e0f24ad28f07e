//! What a router says of itself: `stats`, and `get __mcrouter__.…`, in mcrouter's words.

use crate::config::{Source, host_id};
use crate::counters::Sums;
use crate::shared::Shared;
use crate::spool::LogCount;
use guira_protocol::ReplyBuffer;
use guira_routing::{Answer, Dialect, Facts, Item, Line, Op, Outcome, Request, Tree};
use guira_sync::atomic::Ordering;
use guira_sync::clock::wall_clock;

/// Clients look for `mcrouter` at its beginning.
macro_rules! version {
    () => {
        concat!("mcrouter 1.0.0 guira ", env!("CARGO_PKG_VERSION"))
    };
}
pub(crate) use version;

const PREFIX: &[u8] = b"__mcrouter__.";

/// What is asked about the router, if a request is not for a server.
#[inline]
pub(crate) fn asked<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    let is_get = request.dialect == Dialect::Classic && matches!(request.op, Op::Get | Op::Gets);
    if is_get { request.key.strip_prefix(PREFIX) } else { None }
}

/// A text as a hit.
pub(crate) fn found(text: &str) -> Answer<'_> {
    let item = Item { flags: 0, value: text.as_bytes() };
    Answer { item: Some(item), ..Answer::of(Outcome::Found) }
}

/// A question, and what is answered to its arguments.
struct Question {
    name: &'static str,
    answer: fn(&[&str], &Shared, &Tree) -> Result<String, String>,
}

const QUESTIONS: &[Question] = &[
    Question { name: "version", answer: |_, _, _| Ok(version!().to_owned()) },
    Question { name: "config_age", answer: |_, shared, _| Ok(shared.config_report().age.to_string()) },
    Question {
        name: "config_file",
        answer: |_, shared, _| match &shared.source {
            Source::File(path) => Ok(path.display().to_string()),
            Source::Text(_) => Err("no config file found!".to_owned()),
        },
    },
    Question { name: "config_md5_digest", answer: |_, shared, _| Ok(shared.plan().digest.clone()) },
    Question { name: "preprocessed_config", answer: |_, shared, _| Ok(shared.plan().json.to_string()) },
    Question { name: "hostid", answer: |_, _, _| Ok(host_id().to_string()) },
    Question { name: "options", answer: |names, shared, _| options(names, shared) },
    Question {
        name: "config_error",
        answer: |_, shared, _| Ok(shared.config_report().error.unwrap_or_default()),
    },
    Question { name: "route", answer: servers_of },
    Question {
        name: "route_handles",
        answer: |arguments, shared, tree| {
            let names: Vec<String> = shared.plan().names().map(|(address, _)| address).collect();
            let lines = path(arguments, tree)?.into_iter();
            let name = |line: &Line| line.destination.map_or("", |number| &names[number.0 as usize]);
            Ok(lines.map(|line| format!("{line} {}", name(&line)).trim_end().to_owned() + "\n").collect())
        },
    },
];

/// The handles that a request would come to: an operation and a key are given.
fn path(arguments: &[&str], tree: &Tree) -> Result<Vec<Line>, String> {
    let [op, key] = arguments else {
        return Err("route: 2 args expected".to_owned());
    };
    let op = Op::from_name(op).ok_or_else(|| format!("route: unknown op {op}"))?;
    let facts = Facts { host: host_id().into(), now_s: wall_clock(), ..Facts::default() };
    Ok(tree.explain(op, key.as_bytes(), facts))
}

/// The servers that a request may come to, in the order in which they are asked.
fn servers_of(arguments: &[&str], shared: &Shared, tree: &Tree) -> Result<String, String> {
    let names: Vec<String> = shared.plan().names().map(|(address, _)| address).collect();
    let numbers = path(arguments, tree)?.into_iter().filter_map(|line| line.destination);
    Ok(numbers.map(|number| names[number.0 as usize].clone()).collect::<Vec<_>>().join("\r\n"))
}

/// The answer to `name` or `name(argument,…)`.
pub(crate) fn answer(asked: &[u8], shared: &Shared, tree: &Tree) -> String {
    let text = String::from_utf8_lossy(asked);
    let (name, arguments) = match text.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')')),
        None => (&*text, Some("")),
    };
    let arguments: Option<Vec<&str>> =
        arguments.map(|list| list.split(',').map(str::trim).filter(|text| !text.is_empty()).collect());
    let question = QUESTIONS.iter().find(|question| question.name == name);
    let answer = match (question, arguments) {
        (None, _) => Err(format!("unknown command: {name}")),
        (_, None) => Err("a closing parenthesis is missing".to_owned()),
        (Some(question), Some(arguments)) => (question.answer)(&arguments, shared, tree),
    };
    answer.unwrap_or_else(|error| format!("ERROR: {error}"))
}

fn options(names: &[&str], shared: &Shared) -> Result<String, String> {
    match names {
        [] => Ok(shared.options.iter().map(|(name, value)| format!("{name} {value}\n")).collect()),
        [name] => {
            let wanted = name.replace('_', "-");
            let found = shared.options.iter().find(|(known, _)| *known == wanted);
            found.map(|(_, value)| value.clone()).ok_or_else(|| format!("options: option {name} not found"))
        }
        _ => Err("options: 0 or 1 args expected".to_owned()),
    }
}

/// A line of `stats`.
struct Stat {
    name: &'static str,
    value: fn(&Shared) -> String,
}

/// Without those of operations, outcomes and logged deletes, which have a line for each counter.
const STATS: &[Stat] = &[
    Stat { name: "version", value: |_| version!().to_owned() },
    Stat { name: "commandargs", value: |shared| shared.command_line.clone() },
    Stat { name: "pid", value: |_| std::process::id().to_string() },
    Stat { name: "parent_pid", value: |_| std::os::unix::process::parent_id().to_string() },
    Stat { name: "time", value: |_| wall_clock().to_string() },
    Stat { name: "uptime", value: |shared| shared.since.elapsed().as_secs().to_string() },
    Stat {
        name: "num_client_connections",
        value: |shared| shared.host.connections.current.load(Ordering::Relaxed).to_string(),
    },
    Stat { name: "num_servers", value: |shared| shared.plan().servers.len().to_string() },
    Stat { name: "config_age", value: |shared| shared.config_report().age.to_string() },
    Stat { name: "config_last_success", value: |shared| ago(shared.config_report().right) },
    Stat { name: "config_last_attempt", value: |shared| ago(shared.config_report().tried) },
    Stat { name: "config_attempts", value: |shared| shared.config_report().attempts.to_string() },
    Stat { name: "config_failures", value: |shared| shared.config_report().failures.to_string() },
    Stat { name: "request_sent_count", value: |shared| shared.sums().sent().to_string() },
    Stat { name: "request_replied_count", value: |shared| shared.sums().answered().to_string() },
    Stat {
        name: "request_success_count",
        value: |shared| (shared.sums().answered() - errors(shared)).to_string(),
    },
    Stat { name: "request_error_count", value: |shared| errors(shared).to_string() },
    Stat {
        name: "proxy_reqs_processing",
        value: |shared| shared.sums().asked().saturating_sub(shared.sums().answered()).to_string(),
    },
    Stat { name: "asynclog_requests_rate", value: |shared| shared.log.rates(wall_clock()).0.to_string() },
    Stat {
        name: "asynclog_spool_success_rate",
        value: |shared| shared.log.rates(wall_clock()).1.to_string(),
    },
    Stat { name: "asynclog_duration_us", value: |shared| format!("{:.3}", shared.log.average_us()) },
    Stat { name: "asynclog_waiting", value: |shared| shared.log.waiting().to_string() },
    Stat { name: "asynclog_replay_homeless", value: |shared| shared.log.homeless().to_string() },
];

const OPS: [Op; 17] = [
    Op::Get,
    Op::Gets,
    Op::Gat,
    Op::Gats,
    Op::LeaseGet,
    Op::Set,
    Op::Add,
    Op::Replace,
    Op::Append,
    Op::Prepend,
    Op::Cas,
    Op::LeaseSet,
    Op::Delete,
    Op::Touch,
    Op::Incr,
    Op::Decr,
    Op::FlushAll,
];

/// Failures that clients are told, by mcrouter's names.
const ERRORS: [(&str, Outcome); 11] = [
    ("connect_error", Outcome::ConnectError),
    ("connect_timeout", Outcome::ConnectTimeout),
    ("data_timeout", Outcome::Timeout),
    ("busy", Outcome::Busy),
    ("tko", Outcome::Tko),
    ("client_error", Outcome::ClientError),
    ("local_error", Outcome::LocalError),
    ("remote_error", Outcome::RemoteError),
    ("try_again", Outcome::TryAgain),
    ("shutdown", Outcome::Shutdown),
    ("deadline_exceeded", Outcome::DeadlineExceeded),
];

/// So many seconds ago, since 1970.
fn ago(seconds: u64) -> String {
    wall_clock().saturating_sub(seconds).to_string()
}

fn errors(shared: &Shared) -> u64 {
    let sums = shared.sums();
    ERRORS.iter().map(|(_, outcome)| sums.of_outcome(*outcome)).sum::<u64>().min(sums.answered())
}

/// Answers `stats`, with what is asked for behind it.
pub(crate) fn stats(what: &[u8], shared: &Shared, out: &mut ReplyBuffer) {
    let what = what.trim_ascii();
    let sums = shared.sums();
    // A configuration on the command line may have several lines.
    let mut put = |name: &str, value: &str| {
        out.line(&format!("STAT {name} {}", value.replace(|letter: char| letter.is_control(), " ")));
    };
    match what {
        b"" | b"all" | b"detailed" => {
            STATS.iter().for_each(|stat| put(stat.name, &(stat.value)(shared)));
            for counter in LogCount::ALL {
                put(counter.name(), &shared.log.get(counter).to_string());
            }
            count(sums, &mut put);
            failures(sums, &mut put);
        }
        b"count" => count(sums, &mut put),
        b"cmd-error" => failures(sums, &mut put),
        b"version" => put("version", version!()),
        b"servers" => {
            for (address, timeout_ms) in shared.plan().names() {
                put(
                    &format!("{address}:ascii:plain:notcompressed-{timeout_ms}"),
                    &format!("timeout_ms:{timeout_ms}"),
                );
            }
        }
        _ => return out.line("CLIENT_ERROR bad stats command"),
    }
    out.line("END");
}

fn count(sums: Sums<'_>, put: &mut impl FnMut(&str, &str)) {
    for op in OPS {
        put(&format!("cmd_{}_count", op.name().replace('-', "_")), &sums.of_op(op).to_string());
    }
}

fn failures(sums: Sums<'_>, put: &mut impl FnMut(&str, &str)) {
    let all: u64 = ERRORS.iter().map(|(_, outcome)| sums.of_outcome(*outcome)).sum();
    put("result_error_count", &all.to_string());
    for (name, outcome) in ERRORS {
        put(&format!("result_{name}_count"), &sums.of_outcome(outcome).to_string());
    }
}
