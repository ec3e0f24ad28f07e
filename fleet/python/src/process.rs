//! What must not be used, nor dropped, by a child of its process.

use pyo3::PyResult;
use pyo3::exceptions::PyRuntimeError;

/// What belongs to the process that has made it. A fork copies the memory of one thread: locks that others held stay locked, and connections and
/// pollers are the parent's as well, so that a destructor in the child would take the parent's descriptors out of its poller. A child leaks it.
#[derive(Debug)]
pub(crate) struct Own<T> {
    value: Option<T>,
    process: u32,
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), process: std::process::id() }
    }

    /// # Errors
    /// If this is another process.
    pub(crate) fn get(&self) -> PyResult<&T> {
        let value = self.value.as_ref().filter(|_| self.is_here());
        value.ok_or_else(|| {
            PyRuntimeError::new_err("this client was made before a fork that Python has not seen")
        })
    }

    fn is_here(&self) -> bool {
        self.process == std::process::id()
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if !self.is_here() {
            std::mem::forget(self.value.take());
        }
    }
}
