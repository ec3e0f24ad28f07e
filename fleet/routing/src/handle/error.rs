//! Answers that something is wrong.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::{Outcome, failure};
use crate::request::Request;
use crate::step::{Cx, Step};

#[derive(Debug)]
pub(crate) struct Error(Outcome);

impl Error {
    pub(crate) fn local() -> Self {
        Error(Outcome::LocalError)
    }
}

impl Handle for Error {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        // For mcrouter's log.
        members.main("response");
        members.json("enable_logging");
        let outcome = match members.text("result")? {
            None => Outcome::LocalError,
            // mcrouter knows the names with mc_res_ only.
            Some(name) => failure(name.strip_prefix("mc_res_").unwrap_or(&name))
                .ok_or_else(|| json.error(format!("unknown error {name}")))?,
        };
        members.end();
        Ok(Error(outcome))
    }

    fn enter(&self, _cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        Step::Answer(self.0)
    }
}
