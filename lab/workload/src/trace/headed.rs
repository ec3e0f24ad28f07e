//! Comma-separated fields whose first line names them, in whatever order: CacheLib's key-value and block traces, and
//! those that libCacheSim's tools write.

use super::lines::{action, keyed, number, seconds, wrong_fields};
use super::{Burst, Request, TraceErrorKind};

/// Names of the column of keys, the best first.
const KEY: [&str; 6] = ["key", "block_id", "obj_id", "object_id", "lbn", "id"];
/// The names of `KEY` for a message.
const KEY_NAMES: &str = "key, block_id, obj_id, object_id, lbn, id";
const TIME: [&str; 4] = ["op_time", "time", "timestamp", "clock_time"];
const KEY_LEN: [&str; 1] = ["key_size"];
const SIZE: [&str; 4] = ["size", "value_size", "obj_size", "io_size"];
const OPERATION: [&str; 3] = ["op", "op_name", "operation"];
const COUNT: [&str; 1] = ["op_count"];
const TTL: [&str; 1] = ["ttl"];

#[derive(Debug)]
pub(super) struct Columns {
    count: usize,
    key: usize,
    time: Option<usize>,
    key_len: Option<usize>,
    size: Option<usize>,
    operation: Option<usize>,
    repeats: Option<usize>,
    ttl: Option<usize>,
}

/// Whether a line is nothing but names, more than one, and that of the keys among them.
pub(super) fn names_columns(line: &[u8]) -> bool {
    let is_name = |field: &[u8]| field.trim_ascii().first().is_some_and(u8::is_ascii_alphabetic);
    line.split(|&byte| byte == b',').all(is_name)
        && Columns::named(line).is_ok_and(|columns| columns.count > 1)
}

impl Columns {
    /// The columns that the first line of a trace names.
    pub(super) fn named(line: &[u8]) -> Result<Self, TraceErrorKind> {
        let names: Vec<String> = line
            .split(|&byte| byte == b',')
            .map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase())
            .collect();
        let find =
            |known: &[&str]| known.iter().find_map(|known| names.iter().position(|name| name == known));
        Ok(Self {
            count: names.len(),
            key: find(&KEY).ok_or(TraceErrorKind::Header(KEY_NAMES))?,
            time: find(&TIME),
            key_len: find(&KEY_LEN),
            size: find(&SIZE),
            operation: find(&OPERATION),
            repeats: find(&COUNT),
            ttl: find(&TTL),
        })
    }

    /// Reads a line. `op_count` requests of the kind were made in that second.
    pub(super) fn parse(&self, line: &[u8]) -> Result<Burst, TraceErrorKind> {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b',').collect();
        if fields.len() != self.count {
            let expected = format!("the {} that the first line names", self.count);
            return Err(wrong_fields(fields.len(), expected));
        }
        let field = |column: Option<usize>| column.map(|column| fields[column]);
        let mut request: Request = keyed(fields[self.key])?;
        request.key_len = field(self.key_len).map(|text| number("key size", text)).transpose()?;
        // A get that missed has no size.
        let size = field(self.size).map(|text| number::<u32>("size", text)).transpose()?;
        request.value_len = size.filter(|&len| len > 0);
        if let Some(word) = field(self.operation) {
            request.action = action(word)?;
        }
        if let Some(text) = field(self.ttl) {
            request.ttl = number("TTL", text)?;
        }
        if let Some(text) = field(self.time) {
            request.time = seconds("time", text)?;
        }
        let repeats = field(self.repeats).map(|text| number("op_count", text)).transpose()?;
        Burst::repeated(request, repeats.unwrap_or(1))
    }
}
