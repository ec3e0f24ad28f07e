//! The page of a region, and the requests by which it causes faults.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use guira_harness::random::Random;
use guira_sync::clock::{CoarseClock, wall_clock_millis};
use guira_web::{Admin, AdminError, Form, Page, Reading, Site};
use serde_json::json;

use crate::counts::{Count, Seen, Sums};
use crate::world::World;
use crate::{chaos, faults, metrics, status};

/// The default length of a fault.
pub const LENGTH: Duration = Duration::from_secs(10);
pub(crate) const BREAK: &str = "/break";
pub(crate) const STATUS: &str = "/status.json";
/// The kind that stands for many random faults.
pub(crate) const RANDOM: &str = "random";

/// Serves the region at `at`.
///
/// # Errors
/// When the address cannot be used.
pub(crate) fn serve(at: &str, token_file: Option<&Path>, world: &Arc<World>) -> Result<Admin, AdminError> {
    let world = world.clone();
    Admin::serve(at, token_file, ", and can cause faults", move || DemoSite {
        before: world.sums(),
        world,
        clock: CoarseClock::system(),
        random: Random::new(wall_clock_millis()),
    })
}

struct DemoSite {
    world: Arc<World>,
    clock: CoarseClock,
    /// The figures of users at the last reading.
    before: Sums,
    random: Random,
}

impl std::fmt::Debug for DemoSite {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DemoSite").finish_non_exhaustive()
    }
}

impl Site for DemoSite {
    const PAGE: Page = Page {
        title: "Guira region",
        grid: include_str!("web/grid.html"),
        script: include_str!("web/page.js"),
    };
    const JSON: &'static [&'static str] = &[STATUS];
    const SERIES: &'static [&'static str] = &["reads", "misses", "failed", "wait"];
    const ACTIONS: &'static [&'static str] = &[BREAK];

    fn clock(&self) -> &CoarseClock {
        &self.clock
    }

    fn sample(&mut self) -> Vec<Reading> {
        let sums = self.world.sums();
        let p99 = Seen::between(&self.before, &sums).p99.map(|time| time.as_secs_f64() * 1e3);
        self.before = sums;
        let (count, client) = (|count| self.world.counts.get(count), |name| self.before.client(name));
        vec![
            Reading::Total(count(Count::Reads)),
            Reading::Total(client("misses") + client("failures") + client("unleased")),
            Reading::Total(count(Count::Failed)),
            Reading::Level(p99),
        ]
    }

    fn look(&mut self) {}

    fn fault(&mut self) -> Option<String> {
        self.world.trouble()
    }

    fn metrics(&mut self, form: Form) -> String {
        metrics::text(&self.world, form)
    }

    fn json(&mut self, path: &str) -> Option<String> {
        (path == STATUS).then(|| status::json(&self.world).to_string())
    }

    fn act(&mut self, _path: &str, query: &str) -> Result<String, String> {
        let request = FaultRequest::read(query)?;
        if request.kind == RANDOM {
            let seed = request.seed.unwrap_or_else(|| self.random.below(1 << 20));
            chaos::begin(&self.world, seed, request.length)?;
            return Ok(json!({ "seed": seed }).to_string());
        }
        let at_ms = wall_clock_millis();
        let begun = faults::begin(&self.world, request.kind, request.what, request.length, &mut self.random);
        let (part, duty) = begun?;
        let for_ms = request.length.as_millis() as u64;
        Ok(json!({ "part": part, "duty": duty, "at_ms": at_ms, "for_ms": for_ms }).to_string())
    }
}

/// A requested fault: `kind=kill&what=node-1&for_ms=5000`. All words consist of letters, digits and
/// dashes, so that nothing is escaped.
#[derive(Debug, PartialEq, Eq)]
struct FaultRequest<'q> {
    kind: &'q str,
    what: Option<&'q str>,
    length: Duration,
    seed: Option<u64>,
}

impl<'q> FaultRequest<'q> {
    fn read(query: &'q str) -> Result<Self, String> {
        let mut request = FaultRequest { kind: "", what: None, length: LENGTH, seed: None };
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let number =
                || value.parse::<u64>().map_err(|_| format!("{name} must be a number, not '{value}'"));
            match name {
                "kind" => request.kind = value,
                "what" => request.what = Some(value).filter(|value| !value.is_empty()),
                "for_ms" => request.length = Duration::from_millis(number()?),
                "seed" => request.seed = Some(number()?),
                other => return Err(format!("unknown field '{other}'; use kind, what, for_ms and seed")),
            }
        }
        if request.kind.is_empty() { Err("kind is missing".to_owned()) } else { Ok(request) }
    }
}

#[cfg(test)]
mod tests {
    use super::{FaultRequest, LENGTH};
    use std::time::Duration;

    #[test]
    fn a_wish_is_read_or_refused_in_words() {
        let request = FaultRequest::read("kind=kill&what=node-1&for_ms=5000").unwrap();
        let length = Duration::from_secs(5);
        assert_eq!(request, FaultRequest { kind: "kill", what: Some("node-1"), length, seed: None });
        let random = FaultRequest::read("kind=random&seed=7&what=").unwrap();
        assert_eq!((random.seed, random.what, random.length), (Some(7), None, LENGTH));
        for (query, why) in
            [("", "missing"), ("kind=a&for_ms=x", "a number"), ("kind=a&who=b", "field 'who'")]
        {
            let told = FaultRequest::read(query).unwrap_err();
            assert!(told.contains(why), "{query}: {told}");
        }
    }
}
