//! What the Python package `guira` is made on: [`guira_client::pools`] as Python sees it.
//!
//! Keys, values, prefixes and serializers are the business of the Python sources beside it (`fleet/python/python/guira`). Here are bytes, and nothing
//! waits for a server while it holds Python's lock. No thread of Rust ever takes that lock: one that did could not end when Python does.

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
}
