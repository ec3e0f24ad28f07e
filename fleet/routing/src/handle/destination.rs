//! A server.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::request::Request;
use crate::step::{Cx, DestinationId, Hop, LogName, Step};

#[derive(Debug)]
pub(crate) struct Destination {
    number: DestinationId,
    /// The log for failed deletes.
    log: Option<LogName>,
}

impl Destination {
    pub(crate) fn new(number: DestinationId) -> Self {
        Destination { number, log: None }
    }

    /// The same server with failed deletes logged.
    pub(crate) fn logged(&self, log: LogName) -> Self {
        Destination { number: self.number, log: Some(log) }
    }

    pub(crate) fn number(&self) -> DestinationId {
        self.number
    }

    pub(crate) fn log(&self) -> Option<LogName> {
        self.log
    }

    /// The hop of every request: it is sent to the server.
    pub(crate) fn send(&self) -> Hop {
        Hop::Send(self.number, self.log)
    }
}

impl Handle for Destination {
    fn parse(_build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        Err(json.error("a server is part of a pool"))
    }

    #[inline]
    fn hop(&self, _request: &Request<'_>) -> Option<Hop> {
        Some(self.send())
    }

    fn enter(&self, _cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        Step::Send(self.number, self.log)
    }
}
