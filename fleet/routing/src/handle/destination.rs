//! A server.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::request::Request;
use crate::step::{Cx, DestinationId, Hop, Step};

#[derive(Debug)]
pub(crate) struct Destination(pub(crate) DestinationId);

impl Handle for Destination {
    fn parse(_build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        Err(json.error("a server is part of a pool"))
    }

    #[inline]
    fn hop(&self, _request: &Request<'_>) -> Option<Hop> {
        Some(Hop::Send(self.0))
    }

    fn enter(&self, _cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        Step::Send(self.0)
    }
}
