//! The threads of a server's workers.

use crate::{Arrival, Host, Service, Worker};
use guira_sync::channel;
use guira_sync::clock::Stopwatch;
use guira_sync::lock::OnceLock;
use guira_sync::thread::JoinHandle;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How often is looked whether workers have ended.
const LOOK: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    #[default]
    Anywhere,
    /// Each on a processor of its own.
    Pinned,
}

/// What has ended a worker before its time.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("a worker failed")]
    Failed(#[source] io::Error),
    #[error("a worker panicked")]
    Panicked,
}

/// The threads of a server's workers. Dropped, it ends them at once.
pub struct Crew {
    host: Arc<Host>,
    name: &'static str,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// How many of them are workers.
    workers: usize,
    ready: channel::Sender<io::Result<()>>,
    started: channel::Receiver<io::Result<()>>,
    /// Set once: whether the workers begin.
    begun: Arc<OnceLock<Begin>>,
}

/// What workers do that are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    Serve,
    /// Nothing: they are not wanted after all.
    End,
}

/// Reports once whether a worker is ready: that it panicked, if it says nothing.
struct Ready(Option<channel::Sender<io::Result<()>>>);

impl Ready {
    fn report(&mut self, result: io::Result<()>) {
        if let Some(ready) = self.0.take() {
            // What starts the server waits for this; if it is gone, so is the server.
            let _ = ready.send(result);
        }
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.report(Err(io::Error::other("a worker panicked before it was ready")));
    }
}

impl fmt::Debug for Crew {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Crew").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Crew {
    pub fn new(host: Arc<Host>) -> Self {
        Self::called("worker", host)
    }

    /// One whose threads have another name.
    pub fn called(name: &'static str, host: Arc<Host>) -> Self {
        let (ready, started) = channel::channel();
        Crew { host, name, threads: Vec::new(), workers: 0, ready, started, begun: Arc::default() }
    }

    /// Starts worker number `index`, which `make` makes on its thread. It serves nobody before [`Crew::begin`].
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start<S: Service + 'static>(
        &mut self,
        index: usize,
        placement: Placement,
        make: impl FnOnce() -> io::Result<Worker<S>> + Send + 'static,
    ) -> io::Result<()> {
        let mut ready = Ready(Some(self.ready.clone()));
        let begun = self.begun.clone();
        self.workers += 1;
        self.spawn(format!("{}-{index}", self.name), move || {
            if placement == Placement::Pinned {
                pin(index);
            }
            match make() {
                Ok(worker) => {
                    ready.report(Ok(()));
                    match begun.wait() {
                        Begin::Serve => worker.run(),
                        Begin::End => Ok(()),
                    }
                }
                Err(error) => {
                    ready.report(Err(error));
                    Ok(())
                }
            }
        })
    }

    /// Starts a thread of this name that ends with the workers, by [`Host::is_stopping`], or fails as one of them. If it is parked then, it is
    /// unparked.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn spawn(
        &mut self,
        name: String,
        run: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        self.threads.push(guira_sync::thread::Builder::new().name(name).spawn(run)?);
        Ok(())
    }

    /// Waits until all workers that were started are made.
    ///
    /// # Errors
    /// Why one of them could not be.
    pub fn wait_until_ready(&self) -> io::Result<()> {
        (0..self.workers).try_for_each(|_| self.started.recv().map_err(io::Error::other)?)
    }

    pub fn begin(&self) {
        self.begun.get_or_init(|| Begin::Serve);
    }

    /// Has the workers end, and waits for them: for as long as `patience` until what connections have under way is done. Returns those that
    /// another server can go on with, and what has ended a worker before: its connections are gone, and the others' are not.
    pub fn hand_over(mut self, patience: Duration) -> (Vec<Arrival>, Result<(), WorkerError>) {
        self.host.hand_over();
        let ended = self.end_all(patience);
        (self.host.take_given_away(), ended)
    }

    /// Has the workers end, and waits for them: for as long as `patience` until what connections have under way is done.
    ///
    /// # Errors
    /// What has ended one of them before.
    pub fn end(mut self, patience: Duration) -> Result<(), WorkerError> {
        self.end_all(patience)
    }

    fn end_all(&mut self, patience: Duration) -> Result<(), WorkerError> {
        let threads = std::mem::take(&mut self.threads);
        if threads.is_empty() {
            return Ok(());
        }
        self.host.stop();
        self.begun.get_or_init(|| Begin::End);
        threads.iter().for_each(|thread| thread.thread().unpark());
        let started = Stopwatch::start();
        while started.elapsed() < patience && !threads.iter().all(JoinHandle::is_finished) {
            guira_sync::thread::sleep(LOOK);
        }
        self.host.abandon();
        let mut result = Ok(());
        for thread in threads {
            let ended = thread.join();
            result = match (result, ended) {
                (_, Err(_)) | (Err(WorkerError::Panicked), _) => Err(WorkerError::Panicked),
                (Ok(()), Ok(ended)) => ended.map_err(WorkerError::Failed),
                (failed, Ok(_)) => failed,
            };
        }
        result
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // The error that it is dropped for is reported by its owner.
        let _ = self.end_all(Duration::ZERO);
    }
}

/// Keeps this thread on processor `index`, around the number there are. If the system refuses, it runs anywhere.
fn pin(index: usize) {
    let processors = guira_sync::thread::available_parallelism().map_or(1, usize::from);
    let mut set = rustix::thread::CpuSet::new();
    set.set(index % processors);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        // Operator: Allow the processor in the service's cpuset, or remove the pinning option.
        tracing::warn!(%error, worker = index, "cannot pin a worker");
    }
}
