//! mcrouter's configuration files: JSON with comments, imports and macros.

mod json;

pub use json::{ConfigError, Json, Place, Value};
