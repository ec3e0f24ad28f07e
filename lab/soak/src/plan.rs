//! How much is done.

use std::path::PathBuf;
use std::time::Duration;

/// The options of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) binary: PathBuf,
    /// The engine that it runs; `mica:erew` names an access mode too.
    pub(crate) engine: String,
    /// The seed of all random choices. The timing of threads and sockets still differs from run to
    /// run.
    pub(crate) seed: u64,
    pub(crate) length: Duration,
    /// Memory of the server, in MiB.
    pub(crate) memory: u64,
    /// How long each full server is used.
    pub(crate) filling: Duration,
    /// How often a server with a region is stopped or killed.
    pub(crate) kills: u64,
    /// How often a server takes over from another.
    pub(crate) takeovers: u64,
    /// Replies that are checked while the servers of a router hang and die.
    pub(crate) replies: u64,
    /// Configurations that a router is given under load.
    pub(crate) configurations: u64,
    /// Clients of a router that never read.
    pub(crate) crowd: usize,
}

/// How much of each kind of load there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Threads that write, and that read.
    pub(crate) writers: usize,
    pub(crate) readers: usize,
    /// Keys with short values, with values of all lengths, and with numbers (of each direction).
    pub(crate) warm: usize,
    pub(crate) bulk: usize,
    pub(crate) numbers: usize,
    pub(crate) cutters: usize,
    /// Connections at a time that never read.
    pub(crate) greedy: usize,
    /// Connections that the server may have.
    pub(crate) connections: usize,
    /// After how long it closes a silent one.
    pub(crate) idle: Duration,
    pub(crate) flushes: Duration,
}

impl Plan {
    /// The load that fits the length: less of everything in a short run.
    pub(crate) fn scale(&self) -> Scale {
        let long = self.length > Duration::from_secs(120);
        // Values of all lengths have about 18 KiB in the mean, so these are about twice what fits.
        let bulk = (self.memory as usize) << 20 >> 13;
        if long {
            Scale {
                writers: 4,
                readers: 4,
                warm: 1500,
                bulk,
                numbers: 200,
                cutters: 2,
                greedy: 32,
                connections: 600,
                idle: Duration::from_secs(15),
                flushes: Duration::from_secs(20),
            }
        } else {
            Scale {
                writers: 2,
                readers: 2,
                warm: 500,
                bulk,
                numbers: 50,
                cutters: 1,
                greedy: 8,
                connections: 250,
                idle: Duration::from_secs(15),
                flushes: Duration::from_secs(8),
            }
        }
    }
}
