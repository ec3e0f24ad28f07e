//! Values that a child of their process must neither use nor drop.

use pyo3::PyResult;
use pyo3::exceptions::PyRuntimeError;

/// A value that belongs to the process that created it. A fork copies the memory of one thread: locks that others held stay locked, and connections and
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
    /// In any other process.
    pub(crate) fn get(&self) -> PyResult<&T> {
        let value = self.value.as_ref().filter(|_| self.is_here());
        value.ok_or_else(|| {
            PyRuntimeError::new_err("this client was created before a fork that Python did not see: create a client in the child, or fork with os.fork or multiprocessing")
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
