//! What `stats settings` tells.

use std::fmt::Display;

/// The settings of a running server.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) memory: usize,
    pub(crate) max_connections: u64,
    pub(crate) tcp_port: u16,
    pub(crate) listen: String,
    pub(crate) workers: usize,
    pub(crate) item_size_max: usize,
    pub(crate) backlog: u32,
    /// The engine's own: its name, index and policy, and their options.
    pub(crate) engine: Vec<(String, String)>,
}

impl Settings {
    pub(crate) fn tell(&self, mut stat: impl FnMut(&str, &dyn Display)) {
        stat("maxbytes", &self.memory);
        stat("maxconns", &self.max_connections);
        stat("tcpport", &self.tcp_port);
        stat("udpport", &0);
        stat("inter", &self.listen);
        stat("verbosity", &0);
        stat("evictions", &"on");
        stat("num_threads", &self.workers);
        stat("cas_enabled", &"yes");
        stat("tcp_backlog", &self.backlog);
        stat("binding_protocol", &"ascii");
        stat("auth_enabled_sasl", &"no");
        stat("item_size_max", &self.item_size_max);
        stat("flush_enabled", &"yes");
        for (name, value) in &self.engine {
            stat(name, value);
        }
    }
}
