//! Certificate files that are replaced, and SIGHUP.

use std::time::Duration;

use guira_harness::certificate::Authority;
use guira_workload::Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::field::Field;

const PAUSE: Duration = Duration::from_millis(1500);

/// Replaces files and sends signals until the run ends.
pub(crate) fn run(field: &Field, authority: &Authority, mut random: Rng) {
    let mut counters = field.counters();
    let Some(server) = i32::try_from(field.pid).ok().and_then(Pid::from_raw) else { return };
    while field.goes_on() {
        field.pause(PAUSE);
        let spoils = random.below(4) == 0;
        let changed = if spoils { authority.spoil() } else { authority.renew() };
        if let Err(error) = changed {
            field.fail(error.to_string());
            return;
        }
        counters.one(if spoils { "certificates spoilt" } else { "certificates replaced" });
        if random.below(3) > 0 {
            field.remember("SIGHUP");
            // If the server has ended, the thread that watches it reports that.
            let _ = kill_process(server, Signal::HUP);
            counters.one("SIGHUP");
        }
    }
    // Later connections find a valid certificate.
    if let Err(error) = authority.renew() {
        field.fail(error.to_string());
    }
}
