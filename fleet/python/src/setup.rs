//! The arguments of clients.

use crate::asyncio::AsyncClient;
use crate::blocking::Client;
use guira_client::pools::{self, Builder, SetupError};
use guira_client::tls::Trust;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::{Py, PyErr, PyResult, Python, pyclass, pymethods};
use std::path::Path;
use std::time::Duration;

/// The arguments of a client. They hold no descriptor, so a child of a fork can use them.
#[pyclass(frozen, module = "guira._guira")]
#[derive(Debug)]
pub(crate) struct Setup {
    builder: Builder,
}

#[pymethods]
impl Setup {
    #[new]
    fn new(servers: Vec<String>, config: Option<&str>) -> PyResult<Self> {
        let builder = match config {
            Some(text) => Builder::config(text),
            None => Builder::servers(&servers),
        };
        Ok(Self { builder })
    }

    fn timeout(&self, seconds: f64) -> PyResult<Self> {
        let timeout = Duration::try_from_secs_f64(seconds).ok().filter(|timeout| !timeout.is_zero());
        let timeout = timeout.ok_or_else(|| {
            PyValueError::new_err(format!("timeout must be a number of seconds above 0, not {seconds}"))
        })?;
        Ok(self.with(|builder| builder.timeout(timeout)))
    }

    fn connections(&self, most: usize) -> Self {
        self.with(|builder| builder.connections(most))
    }

    fn udp_gets(&self) -> Self {
        self.with(Builder::udp_gets)
    }

    fn compress_from(&self, bytes: usize) -> Self {
        self.with(|builder| builder.compress_from(bytes))
    }

    /// The file of the authorities (PEM) for the certificates of TLS servers.
    fn authority(&self, path: &str) -> Self {
        self.with(|builder| builder.trust(Trust::Authority(Path::new(path))))
    }

    /// Certificates are not verified.
    fn trust_anyone(&self) -> Self {
        self.with(|builder| builder.trust(Trust::Anyone))
    }

    fn client(&self, py: Python<'_>) -> PyResult<Py<Client>> {
        let client = py.detach(|| pools::Client::new(&self.builder)).map_err(refusal)?;
        Py::new(py, Client::new(client))
    }

    fn async_client(&self, py: Python<'_>) -> PyResult<Py<AsyncClient>> {
        let client = py.detach(|| pools::AsyncClient::new(&self.builder)).map_err(refusal)?;
        Py::new(py, AsyncClient::new(client))
    }
}

impl Setup {
    fn with(&self, change: impl FnOnce(Builder) -> Builder) -> Self {
        Self { builder: change(self.builder.clone()) }
    }
}

fn refusal(error: SetupError) -> PyErr {
    match error {
        SetupError::System(error) => error.into(),
        SetupError::Name { .. } => PyOSError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}
