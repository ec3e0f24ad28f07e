//! The changes between two readings.

use crate::reading::{ClassFigure, Latencies, Reading, ServerFigures, Stats};

/// The counters of gets: a node's, then a router's.
pub(crate) const GETS: &[&str] = &["cmd_get", "cmd_get_count", "cmd_gets_count"];

pub(crate) const SETS: &[&str] = &["cmd_set", "cmd_set_count"];

/// Two readings of the same run of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    before: &'a Reading,
    after: &'a Reading,
}

impl<'a> Change<'a> {
    /// The change from `before` to `after`; `None` without time in between, or after a restart of
    /// the node.
    pub(crate) fn between(before: &'a Reading, after: &'a Reading) -> Option<Self> {
        (after.at > before.at && !is_restart(before, after)).then_some(Self { before, after })
    }

    fn seconds(self) -> f64 {
        (self.after.at - self.before.at).as_secs_f64()
    }

    /// How much a counter of `stats` has grown. Not known when it has become smaller, as after `stats reset`.
    pub(crate) fn growth(self, name: &str) -> Option<u64> {
        self.after.number(name)?.checked_sub(self.before.number(name)?)
    }

    pub(crate) fn rate(self, name: &str) -> Option<f64> {
        Some(self.growth(name)? as f64 / self.seconds())
    }

    /// The sum of several counters by second: of those that the server has.
    pub(crate) fn rates(self, names: &[&str]) -> Option<f64> {
        names.iter().filter_map(|name| self.rate(name)).reduce(|sum, rate| sum + rate)
    }

    /// Processors that the process has used.
    pub(crate) fn processors(self) -> Option<f64> {
        let busy = |stats: &Stats| Some(stats.float("rusage_user")? + stats.float("rusage_system")?);
        let used = busy(self.after.general.received()?)? - busy(self.before.general.received()?)?;
        (used >= 0.0).then(|| used / self.seconds())
    }

    /// The latencies between the readings, if the server reports them.
    pub(crate) fn latencies(self) -> Option<Latencies> {
        self.after.latency.received()?.since(self.before.latency.received()?)
    }

    /// The share of requested keys that were found; `None` if none were requested.
    pub(crate) fn hit_ratio(self) -> Option<f64> {
        ratio(self.growth("get_hits")?, self.growth("get_misses")?)
    }

    /// How much a counter of a class has grown, by second.
    pub(crate) fn of_class(self, class: u32, what: ClassFigure) -> Option<f64> {
        let of = |reading: &Reading| reading.classes.received()?.of(class, what);
        let growth = of(self.after)?.checked_sub(of(self.before)?)?;
        Some(growth as f64 / self.seconds())
    }
}

impl Change<'_> {
    /// How much a counter of a server behind a router has grown, by second.
    pub(crate) fn of_server(self, name: &str, counter: fn(&ServerFigures) -> u64) -> Option<f64> {
        let of = |reading: &Reading| reading.servers.received()?.of(name).map(counter);
        let growth = of(self.after)?.checked_sub(of(self.before)?)?;
        Some(growth as f64 / self.seconds())
    }
}

/// The share of hits, unless there is nothing to share.
pub(crate) fn ratio(hits: u64, misses: u64) -> Option<f64> {
    let all = hits.checked_add(misses)?;
    (all > 0).then(|| hits as f64 / all as f64)
}

/// Whether the node was restarted between two readings.
pub(crate) fn is_restart(before: &Reading, after: &Reading) -> bool {
    let pid = |reading: &Reading| reading.number("pid");
    let uptime = |reading: &Reading| reading.number("uptime");
    let is_other = matches!((pid(before), pid(after)), (Some(old), Some(new)) if old != new);
    is_other || matches!((uptime(before), uptime(after)), (Some(old), Some(new)) if new < old)
}
