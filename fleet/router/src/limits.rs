//! Limits of requests and of clients, from the options.

use crate::client_limit::ClientLimit;
use crate::options::RouterOptions;
use crate::throttle::Throttle;
use guira_serving::Host;
use guira_sync::atomic::Ordering;

#[derive(Debug)]
pub(crate) struct Limits {
    clients: ClientLimit,
    throttle: Throttle,
    client_requests: usize,
    server_requests: usize,
    held_replies: usize,
}

/// The limit of an option, where 0 means none.
fn limit(most: u32) -> usize {
    if most == 0 { usize::MAX } else { most as usize }
}

impl Limits {
    pub(crate) fn of(options: &RouterOptions) -> Self {
        let limits = &options.limits;
        Limits {
            clients: options.client_limit(),
            throttle: Throttle::new(limit(limits.worker_inflight), limit(limits.worker_throttled)),
            client_requests: limit(limits.client_requests),
            held_replies: limits.connection_memory / options.workers,
            server_requests: match limits.server_inflight {
                0 => usize::MAX,
                inflight => inflight as usize + limits.server_pending as usize,
            },
        }
    }

    /// The limit of requests of a worker in flight; none is yet.
    pub(crate) fn throttle(&self) -> Throttle {
        self.throttle.clone()
    }

    /// Requests of one client in flight.
    pub(crate) fn client_requests(&self) -> usize {
        self.client_requests
    }

    /// Requests of a worker to one server in flight.
    pub(crate) fn server_requests(&self) -> usize {
        self.server_requests
    }

    /// Bytes of replies of a worker that wait for others of the same request, in addition to the memory of connections.
    pub(crate) fn held_replies(&self) -> usize {
        self.held_replies
    }

    /// Each worker connects to every server: clients receive only the descriptors that are left.
    pub(crate) fn limit_clients(&self, host: &Host, servers: usize) {
        let connections = &host.connections;
        let (most, before) = (self.clients.for_servers(servers), connections.max());
        if most == before {
            return;
        }
        connections.set_max(most);
        host.budget.resize(self.clients.memory(most));
        tracing::info!(servers, limit = most, "adjusted the limit of clients to the number of servers");
        let present = connections.current.load(Ordering::Relaxed);
        if present > most {
            // Operator: Raise `LimitNOFILE=`; further clients are not accepted.
            tracing::warn!(
                servers,
                clients = present,
                limit = most,
                "the configured servers leave too few file descriptors for the connected clients: raise \
                     the limit of open files"
            );
        }
    }
}
