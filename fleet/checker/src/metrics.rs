//! The metrics of a checker, as `/metrics` shows them.

use crate::counters::{ClusterCount, Count};
use crate::report::Tally;
use crate::shared::Shared;
use guira_web::{Exposition, Family, Form};

guira_web::families! {
    FAMILIES;
    UP = "guira_checker_up" [], "gauge", "1: the checker replies.";
    READY = "guira_checker_ready" [], "gauge", "Whether /ready returns 200.";
    LOOKS = "guira_checker_looks_total" ["delay", "cluster", "outcome"], "counter", "Sampled hints by delay in seconds, cluster and outcome; for all clusters together without a cluster. `consistent`: the cluster has the database's value; `missing`: it has none, or one marked as stale; `inconsistent`: it has another value; `unknown`: the cluster or the database did not reply; `superseded`: the key was changed again.";
    REGION_LOOKS = "guira_checker_region_looks_total" ["delay", "region", "outcome"], "counter", "Sampled hints by delay in seconds and outcome, for all clusters of a region together; with several regions only.";
    HINTS = "guira_checker_hints_total" [], "counter", "Received hints.";
    UNMATCHED = "guira_checker_unmatched_hints_total" [], "counter", "Hints whose key matches no check: a check is missing, or the sender builds wrong keys.";
    SAMPLED = "guira_checker_sampled_total" [], "counter", "Sampled hints.";
    DROPPED = "guira_checker_dropped_total" [], "counter", "Hints that were not sampled because too many samples are in progress.";
    UNTOLD = "guira_checker_untold_changes_total" [], "counter", "Changes of sampled keys found in the database before their hint, or without one.";
    UNDER_WAY = "guira_checker_under_way" [], "gauge", "Samples in progress.";
    CONNECTED = "guira_checker_database_connected" [], "gauge", "Whether the database answered the last query.";
    CLUSTER_UP = "guira_checker_cluster_up" ["cluster"], "gauge", "Whether the cluster replied to the last read.";
}

/// All metrics, for docs/reference/metrics.md.
pub fn families() -> Vec<Family> {
    let rows = Count::ROWS.iter().map(|row| Family::counter(row, &[]));
    let of_clusters = ClusterCount::ROWS.iter().map(|row| Family::counter(row, &["cluster"]));
    FAMILIES.iter().copied().chain(rows).chain(of_clusters).collect()
}

pub(crate) fn text(shared: &Shared, form: Form, is_ready: bool) -> String {
    let report = shared.report();
    let mut out = Exposition::default();
    out.sample(UP, &[], 1);
    out.sample(READY, &[], u32::from(is_ready));
    let mut looks = |family: Family, delay: &str, name: &str, tally: Tally| {
        for (outcome, count) in tally.rows() {
            out.sample(family, &[delay, name, outcome], count);
        }
    };
    for at in &report.delays {
        let delay = at.delay.as_secs_f64().to_string();
        looks(LOOKS, &delay, "", at.all);
        for (cluster, tally) in shared.clusters.iter().zip(&at.clusters) {
            looks(LOOKS, &delay, &cluster.name, *tally);
        }
        for (region, tally) in shared.regions.iter().zip(&at.regions) {
            looks(REGION_LOOKS, &delay, region, *tally);
        }
    }
    let counts = report.counts;
    for (family, count) in [
        (HINTS, counts.hints),
        (UNMATCHED, counts.unmatched),
        (SAMPLED, counts.sampled),
        (DROPPED, counts.dropped),
        (UNTOLD, counts.untold),
    ] {
        out.sample(family, &[], count);
    }
    out.sample(UNDER_WAY, &[], report.under_way);
    if shared.has_database {
        out.sample(CONNECTED, &[], u32::from(shared.counts.is_up()));
    }
    for (counter, row) in Count::ALL.into_iter().zip(Count::ROWS) {
        out.sample(Family::counter(row, &[]), &[], shared.counts.get(counter));
    }
    for cluster in &shared.clusters {
        out.sample(CLUSTER_UP, &[&cluster.name], u32::from(cluster.counts.is_up()));
        for (counter, row) in ClusterCount::ALL.into_iter().zip(ClusterCount::ROWS) {
            out.sample(Family::counter(row, &["cluster"]), &[&cluster.name], cluster.counts.get(counter));
        }
    }
    out.text(form)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::shared::Reads;
    use std::collections::HashSet;

    const CONFIG: &str = r#"
sample = 1
delays-ms = [1500]
[database.mariadb]
address = "db:3306"
database = "shop"
user = "me"
[[check]]
key = "user:{id}"
query = "SELECT {id}"
[[cluster]]
name = "east"
address = "a:1"
[[cluster]]
name = "west"
region = "far"
address = "b:1"
"#;

    #[test]
    fn every_family_is_shown_once_and_begins_with_the_name_of_the_process() {
        let shared = Shared::new(&Config::from_toml(CONFIG).unwrap(), Reads::Nothing).unwrap();
        shared.hint(b"user:7");
        shared.hint(b"page:7");
        let text = text(&shared, Form::Classic, true);
        for family in families() {
            assert!(family.name.starts_with("guira_checker_"), "{}", family.name);
            let types = format!("# TYPE {} {}\n", family.name, family.kind);
            assert_eq!(text.matches(&types).count(), 1, "{}", family.name);
        }
        assert_eq!(text.matches("# TYPE ").count(), families().len());
        for line in [
            "guira_checker_hints_total 2",
            "guira_checker_unmatched_hints_total 1",
            "guira_checker_under_way 1",
            "guira_checker_looks_total{delay=\"1.5\",cluster=\"west\",outcome=\"missing\"} 0",
            "guira_checker_looks_total{delay=\"1.5\",cluster=\"\",outcome=\"superseded\"} 0",
            "guira_checker_region_looks_total{delay=\"1.5\",region=\"far\",outcome=\"unknown\"} 0",
            "guira_checker_reads_total{cluster=\"east\"} 0",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
        }
        let names: HashSet<&str> = families().iter().map(|family| family.name).collect();
        assert_eq!(names.len(), families().len());
    }
}
