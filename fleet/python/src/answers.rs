//! Replies as objects of Python.

use guira_client::pools::{Cas, Error, ErrorKind, Item};
use pyo3::prelude::{Bound, PyAny, PyAnyMethods, PyErr, PyResult, Python};
use pyo3::types::{PyBytes, PyList, PyNone};
use pyo3::{IntoPyObject, IntoPyObjectExt};

/// The result of a call.
#[derive(Debug)]
pub(crate) enum Answer {
    Item(Option<Item>),
    /// For each key its item, or why the request failed.
    Items(Vec<Result<Option<Item>, Error>>),
    Done(bool),
    AllDone(Vec<Result<bool, Error>>),
    Number(Option<u64>),
    Cas(Cas),
    Flushed,
}

impl<'py> IntoPyObject<'py> for Answer {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Item(item) => found(py, item),
            Self::Items(items) => list(py, items, found),
            Self::Done(is_done) => is_done.into_bound_py_any(py),
            Self::AllDone(all) => list(py, all, |py, is_done| is_done.into_bound_py_any(py)),
            Self::Number(number) => number.into_bound_py_any(py),
            Self::Cas(Cas::Stored) => true.into_bound_py_any(py),
            Self::Cas(Cas::Changed) => false.into_bound_py_any(py),
            Self::Cas(Cas::Missing) | Self::Flushed => Ok(PyNone::get(py).to_owned().into_any()),
        }
    }
}

/// The object of a result, or the exception of an error.
pub(crate) fn to_python(py: Python<'_>, answer: Result<Answer, Error>) -> PyResult<Bound<'_, PyAny>> {
    match answer {
        Ok(answer) => answer.into_pyobject(py),
        Err(error) => Err(PyErr::from_value(exception(py, &error)?)),
    }
}

fn found(py: Python<'_>, item: Option<Item>) -> PyResult<Bound<'_, PyAny>> {
    item.map(|item| (PyBytes::new(py, &item.value), item.flags, item.unique)).into_bound_py_any(py)
}

/// The results in their order, with exceptions in the place of those that failed.
fn list<'py, T>(
    py: Python<'py>,
    all: Vec<Result<T, Error>>,
    answer: impl Fn(Python<'py>, T) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let each = all.into_iter().map(|one| match one {
        Ok(one) => answer(py, one),
        Err(error) => exception(py, &error),
    });
    Ok(PyList::new(py, each.collect::<PyResult<Vec<_>>>()?)?.into_any())
}

/// An instance of a class of `guira.exceptions`. The Python sources set its key.
pub(crate) fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import("guira.exceptions")?.getattr(class(error.kind()))?;
    let exception = class.call1((error.to_string(),))?;
    if let Some(server) = error.server() {
        exception.setattr("server", server)?;
    }
    Ok(exception)
}

fn class(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::BadKey(_) => "MemcacheIllegalInputError",
        ErrorKind::TooLarge => "MemcacheTooLargeError",
        ErrorKind::Timeout => "MemcacheTimeoutError",
        ErrorKind::Unreachable => "MemcacheUnreachableError",
        ErrorKind::Down => "MemcacheDownError",
        ErrorKind::Broken => "MemcacheUnexpectedCloseError",
        ErrorKind::Busy => "MemcacheBusyError",
        ErrorKind::Refused(line) if line.starts_with("SERVER_ERROR") => "MemcacheServerError",
        ErrorKind::Refused(line) if line == "ERROR" => "MemcacheUnknownCommandError",
        ErrorKind::Refused(_) => "MemcacheClientError",
        ErrorKind::NoRoute(_) => "MemcacheNoRouteError",
        ErrorKind::Damaged => "MemcacheDamagedError",
        _ => "MemcacheUnknownError",
    }
}
