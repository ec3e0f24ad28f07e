//! Calls that an event loop of Python waits for.
//!
//! The thread of the client wakes the loop through a descriptor, and the loop takes all results that are ready. So that thread neither waits for
//! Python's lock nor calls a loop that is closed.

use crate::answers::{Answer, to_python};
use crate::blocking::{Row, store, stores};
use crate::process::Own;
use guira_client::pools::{self, Error};
use guira_sync::lock::{Mutex, MutexGuard};
use guira_transport::Mailbox;
use pyo3::prelude::{Bound, PyAny, PyErr, PyResult, Python};
use pyo3::pybacked::PyBackedBytes;
use pyo3::{pyclass, pymethods};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

type Call = Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send>>;

#[pyclass(frozen, module = "guira._guira")]
#[derive(Debug)]
pub(crate) struct AsyncClient {
    client: Own<pools::AsyncClient>,
}

impl AsyncClient {
    pub(crate) fn new(client: pools::AsyncClient) -> Self {
        Self { client: Own::new(client) }
    }
}

#[pymethods]
impl AsyncClient {
    /// Calls for one event loop.
    fn calls(&self) -> PyResult<Calls> {
        let client = self.client.get()?.clone();
        let shared = Shared { client, bells: Arc::new(Mailbox::new()?), begun: Mutex::default() };
        Ok(Calls { shared: Own::new(shared) })
    }

    fn counters(&self) -> PyResult<Vec<(&'static str, u64)>> {
        Ok(self.client.get()?.counters().named())
    }
}

/// The calls of one event loop. Each has a number.
#[pyclass(frozen, module = "guira._guira")]
#[derive(Debug)]
pub(crate) struct Calls {
    shared: Own<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: pools::AsyncClient,
    /// Numbers of calls that may have a result.
    bells: Arc<Mailbox<u64>>,
    /// LOCK: python_calls. Taken before those of the client.
    begun: Mutex<Begun>,
}

#[derive(Default)]
struct Begun {
    last: u64,
    calls: HashMap<u64, Call>,
}

impl fmt::Debug for Begun {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Begun").field("calls", &self.calls.len()).finish_non_exhaustive()
    }
}

/// Wakes the loop of a call.
struct Bell {
    number: u64,
    bells: Arc<Mailbox<u64>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.bells.send(self.number);
    }
}

impl Shared {
    fn begun(&self) -> MutexGuard<'_, Begun> {
        self.begun.lock()
    }

    fn poll(&self, number: u64, call: &mut Call) -> Poll<Result<Answer, Error>> {
        let waker = Waker::from(Arc::new(Bell { number, bells: Arc::clone(&self.bells) }));
        call.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Begins a call. Returns its number.
    fn begin(&self, mut call: Call) -> u64 {
        let number = {
            let mut begun = self.begun();
            begun.last += 1;
            begun.last
        };
        if let Poll::Ready(answer) = self.poll(number, &mut call) {
            call = Box::pin(std::future::ready(answer));
            self.bells.send(number);
        }
        self.begun().calls.insert(number, call);
        number
    }

    /// The calls that have a result.
    fn take(&self) -> Vec<(u64, Result<Answer, Error>)> {
        let mut done = Vec::new();
        for number in self.bells.take() {
            let Some(mut call) = self.begun().calls.remove(&number) else { continue };
            match self.poll(number, &mut call) {
                Poll::Ready(answer) => done.push((number, answer)),
                Poll::Pending => drop(self.begun().calls.insert(number, call)),
            }
        }
        done
    }
}

impl Calls {
    fn begin<F>(&self, call: impl FnOnce(pools::AsyncClient) -> F) -> PyResult<u64>
    where
        F: Future<Output = Result<Answer, Error>> + Send + 'static,
    {
        let shared = self.shared.get()?;
        Ok(shared.begin(Box::pin(call(shared.client.clone()))))
    }
}

/// The number of a call, and its result or its exception.
type Completed<'py> = (u64, Option<Bound<'py, PyAny>>, Option<PyErr>);

#[pymethods]
impl Calls {
    fn fileno(&self) -> PyResult<RawFd> {
        Ok(self.shared.get()?.bells.as_fd().as_raw_fd())
    }

    fn take<'py>(&self, py: Python<'py>) -> PyResult<Vec<Completed<'py>>> {
        let completed = |(number, answer)| match to_python(py, answer) {
            Ok(answer) => (number, Some(answer), None),
            Err(error) => (number, None, Some(error)),
        };
        Ok(self.shared.get()?.take().into_iter().map(completed).collect())
    }

    /// Drops the result of a call. The call itself is not cancelled.
    fn forget(&self, number: u64) -> PyResult<()> {
        self.shared.get()?.begun().calls.remove(&number);
        Ok(())
    }

    fn get(&self, key: PyBackedBytes) -> PyResult<u64> {
        self.begin(|client| async move { client.get(&key).await.map(Answer::Item) })
    }

    fn gets(&self, key: PyBackedBytes) -> PyResult<u64> {
        self.begin(|client| async move { client.gets(&key).await.map(Answer::Item) })
    }

    fn gat(&self, key: PyBackedBytes, expiry: i32) -> PyResult<u64> {
        self.begin(move |client| async move { client.gat(&key, expiry).await.map(Answer::Item) })
    }

    fn get_many(&self, keys: Vec<PyBackedBytes>) -> PyResult<u64> {
        self.begin(|client| async move { Ok(Answer::Items(client.get_many(&keys).await)) })
    }

    fn gets_many(&self, keys: Vec<PyBackedBytes>) -> PyResult<u64> {
        self.begin(|client| async move { Ok(Answer::Items(client.gets_many(&keys).await)) })
    }

    fn set(&self, key: PyBackedBytes, value: PyBackedBytes, flags: u32, expiry: i32) -> PyResult<u64> {
        self.begin(move |client| async move {
            client.set(&store(&key, &value, flags, expiry)).await.map(Answer::Done)
        })
    }

    fn set_many(&self, rows: Vec<Row>) -> PyResult<u64> {
        self.begin(|client| async move { Ok(Answer::AllDone(client.set_many(&stores(&rows)).await)) })
    }

    fn add(&self, key: PyBackedBytes, value: PyBackedBytes, flags: u32, expiry: i32) -> PyResult<u64> {
        self.begin(move |client| async move {
            client.add(&store(&key, &value, flags, expiry)).await.map(Answer::Done)
        })
    }

    fn replace(&self, key: PyBackedBytes, value: PyBackedBytes, flags: u32, expiry: i32) -> PyResult<u64> {
        self.begin(move |client| async move {
            client.replace(&store(&key, &value, flags, expiry)).await.map(Answer::Done)
        })
    }

    fn cas(
        &self,
        key: PyBackedBytes,
        value: PyBackedBytes,
        flags: u32,
        expiry: i32,
        unique: u64,
    ) -> PyResult<u64> {
        self.begin(move |client| async move {
            client.cas(&store(&key, &value, flags, expiry), unique).await.map(Answer::Cas)
        })
    }

    fn append(&self, key: PyBackedBytes, more: PyBackedBytes) -> PyResult<u64> {
        self.begin(|client| async move { client.append(&key, &more).await.map(Answer::Done) })
    }

    fn prepend(&self, key: PyBackedBytes, more: PyBackedBytes) -> PyResult<u64> {
        self.begin(|client| async move { client.prepend(&key, &more).await.map(Answer::Done) })
    }

    fn touch(&self, key: PyBackedBytes, expiry: i32) -> PyResult<u64> {
        self.begin(move |client| async move { client.touch(&key, expiry).await.map(Answer::Done) })
    }

    fn delete(&self, key: PyBackedBytes) -> PyResult<u64> {
        self.begin(|client| async move { client.delete(&key).await.map(Answer::Done) })
    }

    fn delete_many(&self, keys: Vec<PyBackedBytes>) -> PyResult<u64> {
        self.begin(|client| async move { Ok(Answer::AllDone(client.delete_many(&keys).await)) })
    }

    fn incr(&self, key: PyBackedBytes, by: u64) -> PyResult<u64> {
        self.begin(move |client| async move { client.incr(&key, by).await.map(Answer::Number) })
    }

    fn decr(&self, key: PyBackedBytes, by: u64) -> PyResult<u64> {
        self.begin(move |client| async move { client.decr(&key, by).await.map(Answer::Number) })
    }

    fn flush_all(&self) -> PyResult<u64> {
        self.begin(|client| async move { client.flush_all().await.map(|()| Answer::Flushed) })
    }
}
