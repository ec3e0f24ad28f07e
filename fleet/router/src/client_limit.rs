//! How many clients there may be: what the system lets the process have, without what its servers need.

use crate::running::RouterOptions;
use rustix::process::{Resource, getrlimit};

/// Files that neither clients nor servers take: listeners, pollers and logs.
const RESERVED_FILES: u64 = 64;

/// What the number of clients depends on beside the servers of the configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientLimit {
    workers: u64,
    most: u64,
    files: u64,
}

impl ClientLimit {
    pub(crate) fn of(options: &RouterOptions) -> Self {
        ClientLimit {
            workers: options.workers as u64,
            most: options.limits.connections,
            files: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
        }
    }

    /// How many clients there may be beside this number of servers, each of which every worker connects to.
    pub(crate) fn beside(self, servers: usize) -> u64 {
        let kept = RESERVED_FILES.saturating_add(self.workers.saturating_mul(servers as u64));
        self.files.saturating_sub(kept).clamp(1, self.most.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_servers_leave_fewer_clients() {
        let limit = ClientLimit { workers: 8, most: 5000, files: 1024 };
        let clients = [0, 40, 80, 200].map(|servers| limit.beside(servers));
        assert_eq!(clients, [960, 640, 320, 1]);
        assert_eq!(ClientLimit { files: u64::MAX, ..limit }.beside(40), 5000);
    }
}
