//! A server of a counted pool. The outcome of a client's request that reaches this pool first is
//! counted for the pool.

use super::{Destination, Handle};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::counted_pools::CountedPool;
use crate::request::Request;
use crate::step::{Cx, DestinationId, LogName, Step};

#[derive(Debug)]
pub(crate) struct Counted {
    server: Destination,
    pool: CountedPool,
}

impl Counted {
    pub(crate) fn new(server: Destination, pool: CountedPool) -> Self {
        Counted { server, pool }
    }

    /// The same server with failed deletes logged.
    pub(crate) fn logged(&self, log: LogName) -> Self {
        Counted { server: self.server.logged(log), pool: self.pool }
    }

    pub(crate) fn number(&self) -> DestinationId {
        self.server.number()
    }
}

impl Handle for Counted {
    fn parse(_build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        Err(json.error("a server is part of a pool"))
    }

    fn enter(&self, _cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        Step::Counted(self.server.number(), self.server.log(), self.pool)
    }
}
