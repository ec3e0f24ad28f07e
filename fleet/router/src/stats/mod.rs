//! The `stats` command, in mcrouter's words.

mod rows;
mod servers;

pub(crate) use rows::{Figures, STATS, Shown, Stat};

use crate::counters::Sums;
use crate::shared::Shared;
use crate::spool::LogCount;
use guira_control::ControlCount;
use guira_discovery::NameCount;
use guira_protocol::ReplyBuffer;
use guira_routing::{Op, Outcome};
use guira_sync::metrics::Kind;

/// The operations of clients, in the order of `stats`.
pub(crate) const OPS: [Op; 18] = [
    Op::Get,
    Op::Gets,
    Op::Gat,
    Op::Gats,
    Op::LeaseGet,
    Op::MetaGet,
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

/// Outcomes by mcrouter's names, in its order.
pub(crate) const OUTCOMES: [(&str, Outcome); 22] = [
    ("deleted", Outcome::Deleted),
    ("touched", Outcome::Touched),
    ("found", Outcome::Found),
    ("foundstale", Outcome::FoundStale),
    ("notfound", Outcome::NotFound),
    ("notfoundhot", Outcome::NotFoundHot),
    ("notstored", Outcome::NotStored),
    ("stalestored", Outcome::StaleStored),
    ("ok", Outcome::Ok),
    ("stored", Outcome::Stored),
    ("exists", Outcome::Exists),
    ("timeout", Outcome::Timeout),
    ("connect_timeout", Outcome::ConnectTimeout),
    ("connect_error", Outcome::ConnectError),
    ("busy", Outcome::Busy),
    ("try_again", Outcome::TryAgain),
    ("shutdown", Outcome::Shutdown),
    ("tko", Outcome::Tko),
    ("client_error", Outcome::ClientError),
    ("local_error", Outcome::LocalError),
    ("remote_error", Outcome::RemoteError),
    ("deadline_exceeded", Outcome::DeadlineExceeded),
];

/// The names of the failure counts.
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
    ("deadline_exceeded_error", Outcome::DeadlineExceeded),
];

/// The number of failed client requests.
pub(crate) fn errors(sums: Sums<'_>) -> u64 {
    ERRORS.iter().map(|(_, outcome)| sums.of_outcome(*outcome)).sum()
}

/// The number of successful requests: a sum of counters that never fall. A difference of sums could
/// fall between two requests.
fn successes(sums: Sums<'_>) -> u64 {
    let good = OUTCOMES.iter().filter(|(_, outcome)| !outcome.is_error());
    good.map(|(_, outcome)| sums.of_outcome(*outcome)).sum()
}

/// Replies to `stats` with these arguments.
pub(crate) fn answer(what: &[u8], shared: &Shared, out: &mut ReplyBuffer) {
    // A configuration on the command line may have several lines.
    let mut put = |name: &str, value: &str| {
        out.line(&format!("STAT {name} {}", value.replace(|letter: char| letter.is_control(), " ")));
    };
    match what.trim_ascii() {
        b"" | b"all" | b"detailed" | b"ods" => {
            Figures::of(shared).each(&mut put);
        }
        b"count" => {
            let figures = Figures::of(shared);
            let counts =
                STATS.iter().filter(|stat| stat.metric.kind == Kind::Counter && is_count(stat.metric.name));
            counts.for_each(|stat| put(stat.metric.name, &(stat.value)(&figures)));
            commands(&figures, &mut put);
            failures(&figures, &mut put);
        }
        b"cmd-error" => failures(&Figures::of(shared), &mut put),
        b"version" => put("mcrouter-version", &shared.about.version),
        b"servers" => servers::all(&shared.config.plan(), &mut put),
        b"suspect_servers" => servers::suspects(&shared.config.plan(), &mut put),
        _ => return out.line("CLIENT_ERROR bad stats command"),
    }
    out.line("END");
}

/// Whether `stats count` has a counter with this name.
fn is_count(name: &str) -> bool {
    name.ends_with("_count") || name.starts_with("failover_")
}

impl Figures<'_> {
    /// All lines of `stats`.
    pub(crate) fn each(&self, put: &mut impl FnMut(&str, &str)) {
        let shared = self.shared;
        STATS.iter().for_each(|stat| put(stat.metric.name, &(stat.value)(self)));
        for counter in LogCount::ALL {
            put(counter.name(), &shared.counts.log.get(counter).to_string());
        }
        for counter in NameCount::ALL {
            put(counter.name(), &shared.counts.names.get(counter).to_string());
        }
        for counter in ControlCount::ALL {
            put(counter.name(), &shared.counts.pools.get(counter).to_string());
        }
        commands(self, put);
        failures(self, put);
    }
}

fn commands(figures: &Figures<'_>, put: &mut impl FnMut(&str, &str)) {
    for op in OPS {
        let name = format!("cmd_{}_count", op.name().replace('-', "_"));
        put(&name, &figures.sums.of_op(op).to_string());
    }
}

/// The failures that clients received, and those of all requests to servers.
fn failures(figures: &Figures<'_>, put: &mut impl FnMut(&str, &str)) {
    let all: u64 = ERRORS.iter().map(|(_, outcome)| figures.of_servers(*outcome)).sum();
    put("result_error_count", &errors(figures.sums).to_string());
    put("result_error_all_count", &all.to_string());
    for (name, outcome) in ERRORS {
        put(&format!("result_{name}_count"), &figures.sums.of_outcome(outcome).to_string());
        put(&format!("result_{name}_all_count"), &figures.of_servers(outcome).to_string());
    }
}
