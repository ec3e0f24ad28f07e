//! The limit of clients: the process's file descriptors without those for servers.

use guira_serving::{CONNECTION_BYTES, ConnLimits, TLS_BYTES};
use guira_sync::host::{self, Limit};

/// Descriptors for listeners, pollers and logs.
const RESERVED_FILES: u64 = 64;

/// The inputs of the limit, except for the number of servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientLimit {
    workers: u64,
    most: u64,
    files: u64,
    /// The bytes that replies to all clients may take.
    traffic: usize,
}

impl ClientLimit {
    /// The limit for this process with this many workers. There are never more than `most` clients,
    /// whose replies take `traffic` bytes together.
    pub(crate) fn of_process(workers: usize, most: u64, traffic: usize) -> Self {
        let files = host::limit(Limit::OpenFiles).unwrap_or(u64::MAX);
        ClientLimit { workers: workers as u64, most, files, traffic }
    }

    /// The number of clients with this number of servers, each of which every worker connects to.
    pub(crate) fn for_servers(self, servers: usize) -> u64 {
        let kept = RESERVED_FILES.saturating_add(self.workers.saturating_mul(servers as u64));
        self.files.saturating_sub(kept).clamp(1, self.most.max(1))
    }

    /// The memory of this many clients: their number is the limit, whether they use TLS or not.
    pub(crate) fn memory(self, clients: u64) -> ConnLimits {
        let clients = usize::try_from(clients).unwrap_or(usize::MAX);
        let idle = clients.saturating_mul(CONNECTION_BYTES + TLS_BYTES);
        ConnLimits { idle, traffic: self.traffic, pinned: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_serving::ConnBudget;

    const LIMIT: ClientLimit = ClientLimit { workers: 8, most: 5000, files: 1024, traffic: 1 << 20 };

    #[test]
    fn as_many_clients_as_are_allowed_may_speak_tls() {
        let budget = ConnBudget::new(LIMIT.memory(65536), 1);
        assert!((0..65536).all(|_| budget.enter(CONNECTION_BYTES + TLS_BYTES)));
    }

    #[test]
    fn more_servers_leave_fewer_clients() {
        let clients = [0, 40, 80, 200].map(|servers| LIMIT.for_servers(servers));
        assert_eq!(clients, [960, 640, 320, 1]);
        assert_eq!(ClientLimit { files: u64::MAX, ..LIMIT }.for_servers(40), 5000);
    }
}
