//! `stats servers` and `stats suspect_servers`, in the form that mcrouter has for them.

use super::OUTCOMES;
use crate::config::Plan;
use crate::upstream::{STATES, Server};
use guira_upstream::Tko;
use std::fmt::Write as _;

/// Each server with its connections, one for each worker, and what has become of requests to it.
pub(super) fn all(plan: &Plan, put: &mut impl FnMut(&str, &str)) {
    for (address, server) in plan.in_use() {
        put(&name(&address, server), &line(server));
    }
}

/// Two pools may reach a server with different timeouts, and are distinguished by them.
fn name(address: &str, server: &Server) -> String {
    format!("{}-{}", server.access_point(address), server.timeout_ms)
}

fn line(server: &Server) -> String {
    let meters = server.meters();
    let mut line = format!(
        "avg_latency_us:{:.3} pending_reqs:{} inflight_reqs:{}",
        meters.latency().unwrap_or(0.0),
        meters.pending(),
        meters.inflight()
    );
    line.push_str(match server.health.tko() {
        Some(Tko::Hard) => " hard_tko; ",
        Some(Tko::Soft) => " soft_tko; ",
        None => "",
    });
    for (state, connections) in STATES.iter().zip(meters.states()).filter(|(_, count)| *count > 0) {
        let _ = write!(line, " {state}:{connections}");
    }
    let mut before = ";";
    for (outcome, requests) in OUTCOMES.map(|(name, outcome)| (name, meters.outcome(outcome))) {
        if requests > 0 {
            let _ = write!(line, "{before} {outcome}:{requests}");
            before = "";
        }
    }
    line
}

/// Servers that have failed since they have last answered.
pub(super) fn suspects(plan: &Plan, put: &mut impl FnMut(&str, &str)) {
    for (address, server) in plan.in_use() {
        let failures = server.health.failures_in_a_row();
        if failures > 0 {
            let status = if server.health.is_up() { "down" } else { "tko" };
            put(&address, &format!("status:{status} num_failures:{failures}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Meter;
    use guira_routing::Outcome;
    use guira_transport::Address;
    use guira_upstream::Addresses;
    use std::sync::Arc;
    use std::time::Duration;

    fn server() -> Server {
        Server::new(
            Addresses::new([Address::Unix("/none".into())]),
            None,
            [Duration::from_secs(1); 2],
            2,
            &Arc::default(),
        )
    }

    #[test]
    fn a_line_is_that_of_mcrouter() {
        let it = server();
        assert_eq!(line(&it), "avg_latency_us:0.000 pending_reqs:0 inflight_reqs:0 new:2");
        let meter: &Meter = it.meters().0[0].as_ref();
        meter.took(302.9912);
        meter.set_outstanding(1, 2);
        meter.ended(Outcome::NotFound, 7);
        meter.ended(Outcome::RemoteError, 1);
        meter.ended(Outcome::Deleted, 3);
        meter.set_state(crate::upstream::State::Up);
        assert_eq!(
            line(&it),
            "avg_latency_us:302.991 pending_reqs:1 inflight_reqs:2 new:1 up:1; deleted:3 notfound:7 remote_error:1"
        );
        assert_eq!(name("10.1.1.1:11211", &it), "10.1.1.1:11211:ascii:plain:notcompressed-1000");
    }
}
