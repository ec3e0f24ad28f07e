//! The blocking client. Calls release Python's lock while they wait.

use crate::answers::{Answer, exception, to_python};
use crate::process::Own;
use guira_client::pools::{self, Error, Stats, Store};
use pyo3::prelude::{Bound, PyAny, PyDictMethods, PyResult, Python};
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;
use pyo3::{IntoPyObject, pyclass, pymethods};

#[pyclass(frozen, module = "guira._guira")]
#[derive(Debug)]
pub(crate) struct Client {
    client: Own<pools::Client>,
}

/// A key, a value, flags and the expiry.
pub(crate) type Row = (PyBackedBytes, PyBackedBytes, u32, i32);

pub(crate) fn stores(rows: &[Row]) -> Vec<Store<'_>> {
    rows.iter().map(|(key, value, flags, expiry)| store(key, value, *flags, *expiry)).collect()
}

pub(crate) fn store<'a>(key: &'a [u8], value: &'a [u8], flags: u32, expiry: i32) -> Store<'a> {
    Store::new(key, value).flags(flags).expiry(expiry)
}

/// The reply of each server, or the exception of a server that did not reply.
fn of_servers<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    all: Vec<(String, Result<T, Error>)>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (server, answer) in all {
        match answer {
            Ok(answer) => dict.set_item(server, answer)?,
            Err(error) => dict.set_item(server, exception(py, &error)?)?,
        }
    }
    Ok(dict)
}

impl Client {
    pub(crate) fn new(client: pools::Client) -> Self {
        Self { client: Own::new(client) }
    }

    fn call<'py>(
        &self,
        py: Python<'py>,
        call: impl FnOnce(&pools::Client) -> Result<Answer, Error> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        let client = self.client.get()?;
        to_python(py, py.detach(|| call(client)))
    }
}

#[pymethods]
impl Client {
    fn get<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| client.get(key).map(Answer::Item))
    }

    fn gets<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| client.gets(key).map(Answer::Item))
    }

    fn gat<'py>(&self, py: Python<'py>, key: &[u8], expiry: i32) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| client.gat(key, expiry).map(Answer::Item))
    }

    fn get_many<'py>(&self, py: Python<'py>, keys: Vec<PyBackedBytes>) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| Ok(Answer::Items(client.get_many(&keys))))
    }

    fn gets_many<'py>(&self, py: Python<'py>, keys: Vec<PyBackedBytes>) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| Ok(Answer::Items(client.gets_many(&keys))))
    }

    fn set<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        value: &[u8],
        flags: u32,
        expiry: i32,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| client.set(&store(key, value, flags, expiry)).map(Answer::Done))
    }

    fn set_many<'py>(&self, py: Python<'py>, rows: Vec<Row>) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| Ok(Answer::AllDone(client.set_many(&stores(&rows)))))
    }

    fn add<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        value: &[u8],
        flags: u32,
        expiry: i32,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| client.add(&store(key, value, flags, expiry)).map(Answer::Done))
    }

    fn replace<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        value: &[u8],
        flags: u32,
        expiry: i32,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| client.replace(&store(key, value, flags, expiry)).map(Answer::Done))
    }

    fn cas<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        value: &[u8],
        flags: u32,
        expiry: i32,
        unique: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| client.cas(&store(key, value, flags, expiry), unique).map(Answer::Cas))
    }

    fn append<'py>(&self, py: Python<'py>, key: &[u8], more: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| client.append(key, more).map(Answer::Done))
    }

    fn prepend<'py>(&self, py: Python<'py>, key: &[u8], more: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| client.prepend(key, more).map(Answer::Done))
    }

    fn touch<'py>(&self, py: Python<'py>, key: &[u8], expiry: i32) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| client.touch(key, expiry).map(Answer::Done))
    }

    fn delete<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| client.delete(key).map(Answer::Done))
    }

    fn delete_many<'py>(&self, py: Python<'py>, keys: Vec<PyBackedBytes>) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| Ok(Answer::AllDone(client.delete_many(&keys))))
    }

    fn incr<'py>(&self, py: Python<'py>, key: &[u8], by: u64) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| client.incr(key, by).map(Answer::Number))
    }

    fn decr<'py>(&self, py: Python<'py>, key: &[u8], by: u64) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| client.decr(key, by).map(Answer::Number))
    }

    fn flush_all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, |client| client.flush_all().map(|()| Answer::Flushed))
    }

    fn versions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let client = self.client.get()?;
        of_servers(py, py.detach(|| client.versions()))
    }

    fn stats<'py>(&self, py: Python<'py>, about: &str) -> PyResult<Bound<'py, PyDict>> {
        let client = self.client.get()?;
        let stats = of_servers::<Stats>(py, py.detach(|| client.stats(about)))?;
        Ok(stats)
    }

    fn counters(&self) -> PyResult<Vec<(&'static str, u64)>> {
        Ok(self.client.get()?.counters().named())
    }
}
