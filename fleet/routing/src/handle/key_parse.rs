//! Only the first parts of a key are hashed.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::request::Request;
use crate::step::{Cx, NodeId, Rewrite, Step};

#[derive(Debug)]
pub(crate) struct KeyParse {
    target: NodeId,
    parts: usize,
    delimiter: u8,
}

impl Handle for KeyParse {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let target = members.child("target")?;
        let parts = members.integer("num_routing_parts", 1..=i64::MAX)?;
        let parts = parts.ok_or_else(|| json.error("'num_routing_parts' is missing"))? as usize;
        let delimiter = match members.text("delimiter")?.as_deref().map(str::as_bytes) {
            Some([delimiter]) => *delimiter,
            _ => return Err(json.error("'delimiter' is not a string of one character")),
        };
        members.end();
        Ok(KeyParse { target, parts, delimiter })
    }

    fn enter(&self, _cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let mut delimiters =
            request.key.iter().enumerate().filter(|(_, byte)| **byte == self.delimiter).map(|(at, _)| at);
        match delimiters.nth(self.parts - 1) {
            Some(last) => {
                let rewrite = Rewrite { hashed: Some(last as u32 + 1), ..Rewrite::NONE };
                Step::Rewritten(self.target, rewrite)
            }
            None => Step::Tail(self.target),
        }
    }
}
