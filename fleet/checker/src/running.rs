//! Starting and stopping a checker.

use crate::cluster::{self, Cluster};
use crate::config::Config;
use crate::counters::Count;
use crate::database::{self, Queries};
use crate::error::StartError;
use crate::hints;
use crate::judge::Request;
use crate::keys::{KeyLine, read};
use crate::reply::Reply;
use crate::report::Report;
use crate::shared::{Reads, Shared};
use crate::sight::Cached;
use crate::web;
use guira_client::text::{Endpoint, Listener};
use guira_sync::channel::{Receiver, SyncSender, channel, sync_channel};
use guira_sync::thread;
use guira_transport::Address;
use guira_web::Admin;
use std::io::{self, BufRead};
use std::sync::Arc;
use std::time::Duration;

/// Requests that may wait for a cluster or the database. Beyond that a request counts as failed.
const WAITING_MAX: usize = 4096;
/// The longest wait for a reply before due requests are sent.
const TURN: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    admin: Option<Admin>,
    /// The address at which hints arrive, beside standard input.
    hints_at: Option<Endpoint>,
    clusters: Vec<SyncSender<cluster::KeyRequest>>,
    database: Option<SyncSender<database::RowRequest>>,
    replies: Receiver<Reply>,
}

/// Starts a checker, which reads hints from connections, and keys from `source` if there is one.
/// [`Running::run`] sends the requests.
///
/// # Errors
/// If there is no source of hints, a file cannot be used, or the system refuses a resource. An
/// unreachable cluster or database is no error.
pub fn start(config: &Config, source: Option<Box<dyn BufRead + Send>>) -> Result<Running, StartError> {
    if config.listen.is_none() && source.is_none() {
        return Err(StartError::Unsuitable("no source of hints: set listen, or use --stdin".to_owned()));
    }
    let shared = Arc::new(Shared::new(config, if source.is_some() { Reads::Keys } else { Reads::Nothing })?);
    let (reply, replies) = channel();
    let mut clusters = Vec::new();
    for (number, cluster) in config.clusters.iter().enumerate() {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let cluster = Cluster {
            number,
            name: cluster.name.clone(),
            target: cluster.target()?,
            dialect: cluster.dialect,
            prefix: cluster.prefix.clone(),
            counts: shared.clusters[number].counts.clone(),
            replies: reply.clone(),
        };
        spawn(&format!("cluster {number}"), move || cluster.run(&receiver))?;
        clusters.push(sender);
    }
    let database = config.database()?.map(|database| {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let checks = config.statements().map_err(StartError::Unsuitable)?;
        let (counts, stop) = (shared.counts.clone(), shared.stop.clone());
        let queries = Queries { database, checks, counts, replies: reply, stop };
        spawn("database", move || queries.run(&receiver))?;
        Ok::<_, StartError>(sender)
    });
    let database = database.transpose()?;
    let serve = |at: &String| web::serve(at, config.admin_token_file.as_deref(), shared.clone());
    let admin = config.admin.as_ref().map(serve).transpose()?;
    let mut running = Running { shared, admin, hints_at: None, clusters, database, replies };
    running.take_hints(config, source)?;
    Ok(running)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

impl Running {
    fn take_hints(
        &mut self,
        config: &Config,
        source: Option<Box<dyn BufRead + Send>>,
    ) -> Result<(), StartError> {
        if let Some(place) = &config.listen {
            let refused = |error| StartError::Listen(place.clone(), error);
            let listener = Listener::bind(place).map_err(refused)?;
            self.hints_at = Some(place.clone());
            let shared = self.shared.clone();
            spawn("listener", move || hints::listen(&listener, &shared))?;
        }
        if let Some(mut source) = source {
            let shared = self.shared.clone();
            spawn("lines", move || {
                if let Err(error) = read_all(&mut source, &shared) {
                    // Operator: Check the program that writes keys to the checker, and restart both.
                    tracing::error!("cannot read more keys from standard input: {error}");
                }
                shared.set_read();
            })?;
        }
        Ok(())
    }

    pub fn admin_address(&self) -> Option<&Address> {
        self.admin.as_ref().map(Admin::address)
    }

    pub fn hints_address(&self) -> Option<&Endpoint> {
        self.hints_at.as_ref()
    }

    /// The names of clusters, and of regions, in the order of the report.
    pub fn names(&self) -> (Vec<String>, Vec<String>) {
        (self.shared.clusters.iter().map(|it| it.name.clone()).collect(), self.shared.regions.clone())
    }

    /// When it was started, in seconds since 1970.
    pub fn started(&self) -> u64 {
        self.shared.started
    }

    /// Sends due requests until `is_over` returns true, or no more hints can come and all samples are settled. Returns the report.
    pub fn run(self, mut is_over: impl FnMut() -> bool) -> Report {
        while !is_over() {
            if self.shared.is_read() && self.hints_at.is_none() && self.is_idle() {
                break;
            }
            self.turn();
        }
        self.shared.stop.set();
        let report = self.shared.report();
        self.admin.into_iter().for_each(Admin::end);
        report
    }

    fn is_idle(&self) -> bool {
        self.shared.judge().under_way() == 0
    }

    /// Sends due requests, and takes replies. It waits a little for the first.
    fn turn(&self) {
        let now = self.shared.clock.elapsed();
        let (requests, next) = {
            let mut judge = self.shared.judge();
            (judge.due_requests(now), judge.next_due())
        };
        let failed: Vec<Reply> = requests.into_iter().filter_map(|request| self.send(request)).collect();
        let wait = next.map_or(TURN, |next| next.saturating_sub(now).min(TURN));
        let first = if failed.is_empty() { self.replies.recv_timeout(wait).ok() } else { None };
        let replies = failed.into_iter().chain(first).chain(self.replies.try_iter());
        let now = self.shared.clock.elapsed();
        let mut judge = self.shared.judge();
        for reply in replies {
            match reply {
                Reply::Cache { tag, cluster, cached } => judge.cache(tag, cluster, cached, now),
                Reply::Database { tag, found } => judge.database(tag, found, now),
            }
        }
    }

    /// Passes a request to a thread; returns the reply if the thread takes no more.
    fn send(&self, request: Request) -> Option<Reply> {
        match request {
            Request::Cache { tag, cluster, key } => {
                let sent = self.clusters[cluster].try_send((tag, key));
                sent.err().map(|_| Reply::Cache { tag, cluster, cached: Cached::Failed })
            }
            Request::Database { tag, check, key } => {
                let sent =
                    self.database.as_ref().and_then(|requests| requests.try_send((tag, check, key)).ok());
                sent.is_none().then_some(Reply::Database { tag, found: None })
            }
        }
    }
}

fn read_all(source: &mut impl BufRead, shared: &Shared) -> io::Result<()> {
    while let Some(line) = read(source)? {
        match line {
            KeyLine::Key(key) => shared.hint(&key),
            KeyLine::Other => shared.counts.add(Count::Refused),
        }
    }
    Ok(())
}
