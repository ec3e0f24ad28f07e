//! The names of counters and gauges in `/metrics`.

use guira_sync::metrics::Metric;
use guira_web::{Exposition, Labels, metric_name};

/// The subject of a row, which is the prefix of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Server,
    /// A slab class; rows that are named of a class.
    Class,
    /// A slab class; rows that are named of the whole server.
    CommandsOfClass,
}

/// The meaning of families that several rows belong to.
const FAMILIES: [(&str, &str); 3] = [
    ("memcached_commands_total", "Commands by outcome."),
    ("memcached_slab_commands_total", "Commands by slab class and outcome: estimates."),
    ("memcached_slab_lru_hits_total", "Always 0."),
];

/// The name of a row in `/metrics`: the exporter's name if the row has one, otherwise the row's
/// own. `None` if its value is no number.
pub(super) fn name(metric: &Metric, scope: Scope) -> Option<String> {
    let prefix = if scope == Scope::Server { "guira_" } else { "guira_slab_" };
    let name = metric_name(metric, prefix)?;
    let is_moved = scope == Scope::CommandsOfClass && metric.exported.is_some();
    Some(if is_moved { name.replacen("memcached_", "memcached_slab_", 1) } else { name })
}

/// Adds the value of a row, with these labels before those of the row.
pub(super) fn add(out: &mut Exposition, metric: &Metric, scope: Scope, labels: Labels<'_>, value: &str) {
    let Some(name) = name(metric, scope) else {
        return;
    };
    let family = name.split('{').next();
    let help = FAMILIES.iter().find(|(known, _)| Some(*known) == family);
    out.row(metric, &name, help.map_or(metric.meaning, |(_, help)| help), labels, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_sync::metrics::{Kind, Unit};

    #[test]
    fn a_row_of_the_server_has_another_name_for_a_class() {
        let exported = Some("memcached_commands_total{command=get}");
        let hits =
            Metric { name: "get_hits", unit: Unit::Count, kind: Kind::Counter, meaning: "Hits.", exported };
        let named = |scope| name(&hits, scope).unwrap();
        assert_eq!(named(Scope::Server), "memcached_commands_total{command=get}");
        assert_eq!(named(Scope::CommandsOfClass), "memcached_slab_commands_total{command=get}");
        let pages = Metric { name: "pages", kind: Kind::Gauge, exported: None, ..hits };
        assert_eq!(name(&pages, Scope::Class).unwrap(), "guira_slab_pages");
    }
}
