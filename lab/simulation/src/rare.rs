//! Rare branches of the product that runs must reach (`guira_sync::simulated::sometimes`).

use std::collections::BTreeMap;

/// Each is reached in a long run; one that no seed reaches is not tested.
const BRANCHES: [&str; 17] = [
    "delete-cannot-be-logged",
    "delete-log-is-written-to",
    "delete-logged",
    "deletes-spooled",
    "delivery-failed",
    "fill-without-a-lease",
    "gap-in-the-log",
    "lease-set-refused",
    "log-connection-failed",
    "logged-deletes-delivered",
    "probe-sent",
    "server-out-of-service",
    "spool-cannot-be-written",
    "spool-ends-in-a-torn-write",
    "void-lease-refused",
    "wait-for-a-fill",
    "request-of-a-user-failed",
];

/// How often each branch was reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reached(BTreeMap<String, u64>);

impl Reached {
    pub(crate) fn of(counts: &BTreeMap<&'static str, u64>) -> Self {
        Reached(counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect())
    }

    pub(crate) fn add(&mut self, other: &Reached) {
        for (name, count) in &other.0 {
            *self.0.entry(name.clone()).or_default() += count;
        }
    }

    /// A line that [`Reached::parse`] reads.
    pub(crate) fn line(&self) -> String {
        self.0.iter().map(|(name, count)| format!(" {name}={count}")).collect()
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let counts = line.split_whitespace().map(|word| {
            let (name, count) = word.split_once('=')?;
            Some((name.to_owned(), count.parse().ok()?))
        });
        counts.collect::<Option<_>>().map(Reached)
    }

    /// The counts, for a person.
    pub(crate) fn table(&self) -> String {
        let count = |name: &&str| format!("\n  {:>10} {name}", self.0.get(*name).copied().unwrap_or(0));
        format!("rare branches reached:{}", BRANCHES.iter().map(count).collect::<String>())
    }

    /// Branches that no seed has reached, or that are not listed here.
    pub(crate) fn faults(&self) -> Vec<String> {
        let missed = BRANCHES.iter().filter(|name| !self.0.contains_key(**name));
        let missed = missed.map(|name| format!("no seed has reached {name}"));
        let unknown = self.0.keys().filter(|name| !BRANCHES.contains(&name.as_str()));
        missed.chain(unknown.map(|name| format!("{name} is not listed in rare.rs"))).collect()
    }
}
