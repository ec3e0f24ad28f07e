//! Answers that something is wrong.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::{Outcome, failure};
use crate::request::Request;
use crate::step::{Cx, Step};

/// mcrouter's prefix of the names of results.
const RESULT: &str = "mc_res_";

#[derive(Debug)]
pub(crate) struct Error {
    outcome: Outcome,
    /// The line that clients receive, if the configuration has a text for it.
    line: Option<Box<str>>,
    /// The handle as mcrouter prints it, without its type: whether it logs, the outcome, the text.
    name: Box<str>,
}

impl Error {
    /// The handle used for a hash route without children, in mcrouter's words.
    pub(crate) fn no_children() -> Self {
        Self::new(Outcome::LocalError, "local_error", "HashRoute with empty children, name: ", Logging::On)
    }

    fn new(outcome: Outcome, result: &str, text: &str, logging: Logging) -> Self {
        let kind = if outcome == Outcome::ClientError { "CLIENT_ERROR" } else { "SERVER_ERROR" };
        let logging = if logging == Logging::On { "log" } else { "no-log" };
        let mut name = format!("{logging}|{RESULT}{result}");
        if !text.is_empty() {
            name.push('|');
            name.push_str(text);
        }
        let line = (!text.is_empty()).then(|| format!("{kind} {text}").into());
        Error { outcome, line, name: name.into() }
    }
}

/// Whether mcrouter logs each request that reaches the handle. Here the setting only appears in the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logging {
    On,
    Off,
}

impl Handle for Error {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let text = members.main("response").map(|json| json.text("response")).transpose()?.unwrap_or_default();
        let logging = if members.flag("enable_logging")? == Some(false) { Logging::Off } else { Logging::On };
        let name = members.text("result")?;
        let result = name.as_deref().map_or("local_error", |name| name.strip_prefix(RESULT).unwrap_or(name));
        let outcome = failure(result).ok_or_else(|| json.error(format!("unknown error {result}")))?;
        members.end();
        if text.contains(char::is_control) {
            return Err(json.error("'response' has a control character: clients receive it as one line"));
        }
        Ok(Error::new(outcome, result, text, logging))
    }

    fn reason(&self, _request: &Request<'_>) -> Option<String> {
        Some(self.name.to_string())
    }

    fn enter(&self, cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        match &self.line {
            Some(line) => Step::Fail(self.outcome, cx.text(&[line.as_bytes()])),
            None => Step::Answer(self.outcome),
        }
    }
}
