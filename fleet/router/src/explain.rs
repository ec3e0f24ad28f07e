//! The path of a request through a configuration's tree, for people: no request is sent, and no name is looked up.

use crate::admin;
use crate::config::{Draft, LoadError, Loader};
use crate::options::RouterOptions;
use guira_routing::config::ConfigError;
use guira_routing::{DestinationSpec, KEY_MAX, Line, Op};
use std::fmt;

/// Why the path of a request cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("unknown operation {name:?}; use one of {}", Op::names().collect::<Vec<_>>().join(", "))]
    Op { name: String },
    #[error("a key has 1 to {KEY_MAX} bytes, and neither blanks nor control characters")]
    Key,
    #[error("no route has the routing prefix of {key}; requests for the key fail")]
    NoRoute { key: String },
}

#[derive(Clone, Debug)]
pub struct Explanation {
    op: Op,
    key: String,
    lines: Vec<Line>,
    servers: Vec<DestinationSpec>,
    warnings: Vec<ConfigError>,
}

/// The path of a request with this operation and key through the configuration that `options` name.
///
/// # Errors
/// If the configuration or the request is invalid, or the key's routing prefix leads nowhere.
pub fn explain(options: &RouterOptions, op: &str, key: &str) -> Result<Explanation, ExplainError> {
    let op = Op::from_name(op).ok_or_else(|| ExplainError::Op { name: op.to_owned() })?;
    let is_key = (1..=KEY_MAX).contains(&key.len()) && key.bytes().all(|byte| byte > b' ' && byte != 0x7f);
    if !is_key {
        return Err(ExplainError::Key);
    }
    let Draft { tree, destinations, warnings, .. } = Loader::new(options).draft()?;
    let lines = tree.explain(op, key.as_bytes(), admin::facts());
    if lines.is_empty() {
        return Err(ExplainError::NoRoute { key: key.to_owned() });
    }
    let servers = destinations.specs().to_vec();
    Ok(Explanation { op, key: key.to_owned(), lines, servers, warnings })
}

impl Explanation {
    /// Warnings about the configuration.
    pub fn warnings(&self) -> &[ConfigError] {
        &self.warnings
    }
}

/// One line for each handle, below its parent and indented further.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.op.name(), self.key)?;
        self.lines
            .iter()
            .try_for_each(|line| writeln!(f, "  {}", HandleLine { line, servers: &self.servers }))
    }
}

/// A handle, or the server that receives the request in its place.
pub(crate) struct HandleLine<'a> {
    pub(crate) line: &'a Line,
    pub(crate) servers: &'a [DestinationSpec],
}

impl fmt::Display for HandleLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HandleLine { line, servers } = self;
        write!(f, "{:width$}", "", width = 2 * line.depth)?;
        match line.destination.map(|number| &servers[number.0 as usize]) {
            Some(server) => {
                let (key, timeout) = (String::from_utf8_lossy(&line.key), server.timeout.as_millis());
                write!(f, "{}, key {key}, {timeout} ms", server.address)?;
            }
            None => f.write_str(line.handle)?,
        }
        if let Some(reason) = &line.reason {
            write!(f, " ({reason})")?;
        }
        f.write_str(if line.is_awaited { "" } else { ", not awaited" })
    }
}
