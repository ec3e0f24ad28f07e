//! Settings that the configurations of all users of databases and caches share.

use guira_client::text::Endpoint;
use guira_disk as disk;
use serde::{Deserialize, Deserializer};
use std::io;
use std::path::Path;

/// The longest configuration, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Reads a configuration, which is not too long.
pub fn read_settings(path: &Path) -> io::Result<String> {
    if disk::metadata(path)?.len() > FILE_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large"));
    }
    disk::read_to_string(path)
}

/// HOST:PORT or unix:PATH.
pub fn endpoint<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Endpoint, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// Reads a prefix of keys.
pub fn prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(serde::de::Error::custom("a prefix must not have blanks or control bytes"));
    }
    Ok(text)
}
