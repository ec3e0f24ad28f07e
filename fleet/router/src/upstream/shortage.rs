//! Reports connections to servers that fail for a reason of this host.

use std::fmt::Display;
use std::io;

/// The least time between two reports.
const EVERY_MS: u64 = 10_000;

#[derive(Debug, Default)]
pub(crate) struct ShortageLog {
    reported_ms: Option<u64>,
}

impl ShortageLog {
    pub(crate) fn report(&mut self, server: Option<impl Display>, error: &io::Error, now_ms: u64) {
        let is_due = self.reported_ms.is_none_or(|then| now_ms >= then + EVERY_MS);
        // The full backlog of a UNIX socket is no shortage of this host.
        if is_due && error.kind() != io::ErrorKind::WouldBlock {
            self.reported_ms = Some(now_ms);
            let server = server.map(tracing::field::display);
            // Operator: Raise the limit of open files, or `net.ipv4.ip_local_port_range`. The
            // server is not marked as failed for it.
            tracing::warn!(
                server,
                %error,
                "cannot connect to a server because this host is out of descriptors, ports or memory: \
                     raise the limit of open files or the range of local ports"
            );
        }
    }
}
