//! The admin listener of a router: readiness, status and metrics.

use crate::shared::Shared;
use crate::{metrics, status};
use guira_serving::{Crew, Port};
use guira_sync::clock::CoarseClock;
use guira_web::{Form, Page, Readiness, Reading, Site, Token};
use std::io;
use std::sync::Arc;

/// Starts the admin listener at `port`.
///
/// # Errors
/// If the system refuses to start the listener.
pub(crate) fn start(port: Port, shared: Arc<Shared>, token: Option<Arc<Token>>) -> io::Result<Crew> {
    guira_web::start(port, token, " and the addresses of servers", move || {
        let readiness = Readiness::new(shared.sums().0.len());
        RouterSite { shared, readiness, clock: CoarseClock::system() }
    })
}

#[derive(Debug)]
struct RouterSite {
    shared: Arc<Shared>,
    readiness: Readiness,
    clock: CoarseClock,
}

impl Site for RouterSite {
    const PAGE: Page = Page {
        title: "Guira router",
        grid: include_str!("web/grid.html"),
        script: include_str!("web/page.js"),
    };
    const JSON: &'static [&'static str] = &["/status.json"];
    const SERIES: &'static [&'static str] = &status::SERIES;
    /// The figures of 500 servers with long names are 4 MB.
    const TRAFFIC_BYTES: usize = 32 << 20;

    fn clock(&self) -> &CoarseClock {
        &self.clock
    }

    fn sample(&mut self) -> Vec<Reading> {
        status::readings(&self.shared)
    }

    fn look(&mut self) {
        self.readiness.note(self.shared.sums().rounds());
        self.shared.host.ring();
    }

    fn fault(&mut self) -> Option<String> {
        if self.shared.host.is_stopping() {
            return Some("the router stops".to_owned());
        }
        self.readiness.fault(self.shared.sums().rounds())
    }

    fn metrics(&mut self, form: Form) -> String {
        let is_ready = self.fault().is_none();
        metrics::text(&self.shared, form, is_ready)
    }

    fn json(&mut self, path: &str) -> Option<String> {
        (path == "/status.json").then(|| {
            let fault = self.fault();
            status::json(&self.shared, fault).to_string()
        })
    }
}
