//! `refresh_certs`: reads certificates and keys again.

use super::answer::{Answer, OK};
use guira_serving::Host;
use guira_sync::clock::Seconds;

pub(super) fn run(host: &Host, now: Seconds) -> Answer {
    if host.tls.is_none() {
        // The reply of a memcached that supports TLS.
        return "Error TLS not enabled".into();
    }
    match host.refresh_tls(now) {
        Ok(()) => OK.into(),
        Err(error) => Answer::Line(format!("SERVER_ERROR {error}")),
    }
}
