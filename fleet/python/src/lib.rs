//! The extension module of the Python package `guira`, on top of [`guira_client::pools`].
//!
//! The Python sources (`fleet/python/python/guira`) handle keys, values, prefixes and serializers. This module has only bytes. No call waits for a
//! server while it holds Python's lock, and no thread of Rust takes that lock: a thread that waits for it could not end when Python does.

#![forbid(unsafe_code)]

mod answers;
mod asyncio;
mod blocking;
mod process;
mod setup;

#[pyo3::pymodule]
mod _guira {
    #[pymodule_export]
    use super::asyncio::{AsyncClient, Calls};
    #[pymodule_export]
    use super::blocking::Client;
    #[pymodule_export]
    use super::setup::Setup;

    /// The version of the package, of the workspace and of the wheel.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
