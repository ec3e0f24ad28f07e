//! What the admin listener tells of a node.

use crate::admin::Admin;
use crate::parts::Parts;
use crate::statistics::Statistics;
use guira_commands::CommandCount;
use guira_serving::{Crew, Host, Port};
use guira_sync::clock::CoarseClock;
use guira_web::{Form, Page, Readiness, Reading, Site, Token};
use std::io;
use std::sync::Arc;

/// Starts the admin listener at `port`.
///
/// # Errors
/// What the system says.
pub(crate) fn start(
    port: Port,
    admin: Arc<Admin>,
    parts: &Parts,
    token: Option<Arc<Token>>,
) -> io::Result<Crew> {
    let secrets = if parts.observers.top_keys.is_some() { ", and the top keys" } else { "" };
    let Parts { host, clock, statistics, .. } = parts.clone();
    guira_web::start(port, token, secrets, move || {
        let readiness = Readiness::new(statistics.workers().len());
        NodeSite { admin, host, clock, statistics, readiness }
    })
}

#[derive(Debug)]
struct NodeSite {
    admin: Arc<Admin>,
    host: Arc<Host>,
    clock: CoarseClock,
    statistics: Arc<Statistics>,
    readiness: Readiness,
}

/// Commands that are neither gets nor sets, as the page counts them.
const OTHERS: [CommandCount; 8] = [
    CommandCount::CmdTouch,
    CommandCount::DeleteHits,
    CommandCount::DeleteMisses,
    CommandCount::IncrHits,
    CommandCount::IncrMisses,
    CommandCount::DecrHits,
    CommandCount::DecrMisses,
    CommandCount::CmdMeta,
];

impl Site for NodeSite {
    const PAGE: Page =
        Page { title: "Guira", grid: include_str!("web/grid.html"), script: include_str!("web/page.js") };
    const JSON: &'static [&'static str] = &["/status.json", "/topkeys"];
    const SERIES: &'static [&'static str] = &["gets", "sets", "others", "hits"];

    fn clock(&self) -> &CoarseClock {
        &self.clock
    }

    fn sample(&mut self) -> Vec<Reading> {
        let commands = self.statistics.totals().commands;
        let of = |what: CommandCount| commands[what as usize];
        let (found, missed) = (of(CommandCount::GetHits), of(CommandCount::GetMisses));
        vec![
            Reading::Total(of(CommandCount::CmdGet)),
            Reading::Total(of(CommandCount::CmdSet)),
            Reading::Total(OTHERS.into_iter().map(of).sum()),
            Reading::Share { part: found, whole: found + missed },
        ]
    }

    fn look(&mut self) {
        self.readiness.note(self.statistics.rounds());
        self.host.ring();
    }

    fn fault(&mut self) -> Option<String> {
        if self.host.is_stopping() {
            return Some("the server is stopping".to_owned());
        }
        self.readiness.fault(self.statistics.rounds())
    }

    fn metrics(&mut self, form: Form) -> String {
        let is_ready = self.fault().is_none();
        self.admin.metrics(form, is_ready)
    }

    fn json(&mut self, path: &str) -> Option<String> {
        match path {
            "/status.json" => {
                let fault = self.fault();
                Some(self.admin.status(fault).to_string())
            }
            "/topkeys" => Some(self.admin.top_keys_json().to_string()),
            _ => None,
        }
    }
}
