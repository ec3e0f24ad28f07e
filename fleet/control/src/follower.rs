//! Follows the pools in etcd for a router, on a thread of its own, and returns their definitions.
//!
//! The last valid state is kept: nothing changes when etcd is unreachable, or a pool is missing or
//! broken.

use crate::counts::{ControlCount, ControlCounts};
use crate::etcd::{Etcd, EtcdError, EtcdOptions};
use crate::store::{Store, View};
use guira_sync::clock::Stopwatch;
use guira_sync::lock::{Condvar, Mutex, MutexGuard};
use guira_sync::simulated::{is_planted, sometimes};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The prefix of a pool's name in a configuration.
pub const ETCD: &str = "etcd:";

/// The longest wait for a change in one request. A dead connection or a hanging member delays the
/// router by this time, which a drain allows between its steps.
const PATIENCE: Duration = Duration::from_secs(1);
/// Gathers changes that follow each other, and bounds the requests to an etcd that ends every
/// watch.
const SPACING: Duration = Duration::from_millis(100);
/// The wait after a failed request.
const RETRY: Duration = Duration::from_secs(1);

/// Follows the pools of an etcd cluster.
#[derive(Debug)]
pub struct Follower {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// LOCK: follower. Leaf.
    state: Mutex<State>,
    /// Signals the first reply or the first failure.
    came: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The last valid definition of each pool.
    pools: BTreeMap<String, String>,
    /// Whether etcd has replied once.
    has_answered: bool,
    /// The error of the last request, if it failed.
    failure: Option<String>,
}

impl Follower {
    /// Starts to follow. `notify` is called when a pool has changed, on the follower's thread,
    /// which ends some time after the follower is dropped.
    ///
    /// # Errors
    /// When a certificate cannot be read, or the system has no threads left.
    pub fn start(
        options: EtcdOptions,
        counts: Arc<ControlCounts>,
        notify: impl Fn() + Send + 'static,
    ) -> Result<Self, EtcdError> {
        let store = Store::new(Etcd::new(options, counts.clone())?);
        let shared = Arc::new(Shared::default());
        let follow = Follow {
            shared: Arc::downgrade(&shared),
            counts,
            store,
            is_unreachable: false,
            faults: BTreeMap::new(),
        };
        let thread = guira_sync::thread::Builder::new().name("guira-etcd".to_owned());
        thread.spawn(move || follow.run(&notify)).map_err(no_thread)?;
        Ok(Follower { shared })
    }

    /// The definition of a pool, for a configuration to inherit from. Waits up to `patience` for
    /// the first reply of etcd even if a definition is kept from an earlier run: with an outdated
    /// definition deletes go to a server that has lost its slot.
    ///
    /// # Errors
    /// The reason that there is no definition.
    pub fn definition(&self, name: &str, patience: Duration) -> Result<String, String> {
        let mut state = self.shared.state();
        let since = Stopwatch::start();
        while !state.has_answered {
            let left = patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                break;
            }
            state = self.shared.came.wait_timeout(state, left);
        }
        match (state.pools.get(name), &state.failure) {
            (Some(text), _) => Ok(text.clone()),
            (None, Some(failure)) => Err(failure.clone()),
            (None, None) if state.has_answered => Err(format!("etcd has no valid pool {name}")),
            (None, None) => Err("no reply from etcd yet".to_owned()),
        }
    }

    /// Keeps a definition from an earlier run until etcd returns another one.
    pub fn remember(&self, name: &str, text: &str) {
        self.shared.state().pools.entry(name.to_owned()).or_insert_with(|| text.to_owned());
    }
}

fn no_thread(error: io::Error) -> EtcdError {
    EtcdError::Unusable(format!("cannot follow pools in etcd: {error}"))
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

struct Follow {
    /// Fails to upgrade once the last follower is dropped.
    shared: Weak<Shared>,
    counts: Arc<ControlCounts>,
    store: Store,
    is_unreachable: bool,
    /// The last error of each pool.
    faults: BTreeMap<String, String>,
}

impl Follow {
    fn run(mut self, notify: &dyn Fn()) {
        loop {
            let turn = Stopwatch::start();
            let seen = self.store.pools();
            let Some(shared) = self.shared.upgrade() else { return };
            let seen = match seen {
                Ok(view) => view,
                Err(error) => {
                    self.fail(&shared, &error);
                    drop(shared);
                    guira_sync::thread::sleep(RETRY);
                    continue;
                }
            };
            self.learn(&shared, &seen, notify);
            drop(shared);
            let patience =
                if is_planted("lost-watch-trusted") { Duration::from_secs(3600) } else { PATIENCE };
            if let Err(error) = self.store.wait_for_pools(&seen, patience) {
                sometimes("etcd-watch-failed");
                // All pools are requested next; problems are reported then.
                tracing::debug!(%error, "the etcd watch failed");
                guira_sync::thread::sleep(RETRY);
            }
            guira_sync::thread::sleep(SPACING.saturating_sub(turn.elapsed()));
        }
    }

    fn fail(&mut self, shared: &Shared, error: &EtcdError) {
        if !std::mem::replace(&mut self.is_unreachable, true) {
            // Operator: Bring etcd back. Servers are not replaced until then.
            tracing::warn!("etcd is unreachable; keeping the current pools: {error}");
        }
        shared.state().failure = Some(error.to_string());
        shared.came.notify_all();
    }

    fn learn(&mut self, shared: &Shared, view: &View, notify: &dyn Fn()) {
        if std::mem::take(&mut self.is_unreachable) {
            tracing::info!("etcd is reachable again");
        }
        self.counts.set_revision(view.revision());
        let mut state = shared.state();
        let mut has_changed = false;
        let mut faults = BTreeMap::new();
        for name in view.names() {
            match view.pool(name) {
                Ok(pool) => {
                    let text = pool.definition(name);
                    if state.pools.get(name) != Some(&text) {
                        state.pools.insert(name.to_owned(), text);
                        has_changed = true;
                        self.counts.add(ControlCount::PoolChanges);
                    }
                }
                Err(error) => {
                    self.counts.add(ControlCount::PoolFaults);
                    faults.insert(name.to_owned(), format!("{error}; keeping the last valid pool"));
                }
            }
        }
        for name in state.pools.keys().filter(|name| view.names().all(|known| known != name.as_str())) {
            self.counts.add(ControlCount::PoolFaults);
            faults
                .insert(name.clone(), format!("pool {name} was removed from etcd; keeping its last version"));
        }
        // Each problem is logged once, however often it is checked.
        for (name, fault) in &faults {
            if self.faults.get(name) != Some(fault) {
                tracing::warn!("{fault}");
            }
        }
        self.faults = faults;
        (state.has_answered, state.failure) = (true, None);
        drop(state);
        shared.came.notify_all();
        if has_changed {
            notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_harness::port::refusing_address;
    use guira_transport::net::{TcpListener, TcpStream};
    use std::io::{BufRead, BufReader, Read as _, Write as _};

    const PATIENCE: Duration = Duration::from_secs(30);
    /// A pool `cache` that is served by `new:1`.
    const POOLS: &str = r#"{"header": {"revision": "7"}, "kvs": [{"key": "L2d1aXJhL3Bvb2xzL2NhY2hl", "mod_revision": "7",
        "value": "eyJzbG90cyI6IFt7InNlcnZlciI6ICJuZXc6MSJ9XX0="}]}"#;

    /// A gateway with one pool that replies after `delay`, and ends every watch at once; returns
    /// its address.
    fn gateway(delay: Duration) -> String {
        gateway_with(move |is_watch, _| {
            guira_sync::thread::sleep(if is_watch { Duration::ZERO } else { delay });
            Some(if is_watch { r#"{"result": {"canceled": true}}"# } else { POOLS })
        })
    }

    /// A gateway that sends the reply of `say`, or none. `say` receives whether the request is a
    /// watch, and the number of requests before.
    fn gateway_with(say: impl Fn(bool, usize) -> Option<&'static str> + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        guira_sync::thread::spawn(move || {
            let mut unanswered = Vec::new();
            for (number, socket) in listener.incoming().enumerate() {
                unanswered.extend(answer(socket?, |is_watch| say(is_watch, number))?);
            }
            io::Result::Ok(())
        });
        format!("http://{address}")
    }

    fn answer(
        mut socket: TcpStream,
        say: impl Fn(bool) -> Option<&'static str>,
    ) -> io::Result<Option<TcpStream>> {
        let mut lines = BufReader::new(socket.try_clone()?);
        let (mut first, mut length) = (String::new(), 0);
        lines.read_line(&mut first)?;
        loop {
            let mut line = String::new();
            lines.read_line(&mut line)?;
            if let Some(digits) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = digits.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        lines.read_exact(&mut vec![0; length])?;
        let Some(body) = say(first.contains("watch")) else { return Ok(Some(socket)) };
        write!(
            socket,
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        Ok(None)
    }

    fn follow(url: String) -> (Follower, Arc<ControlCounts>) {
        let counts = Arc::<ControlCounts>::default();
        (Follower::start(EtcdOptions::new(vec![url]), counts.clone(), || {}).unwrap(), counts)
    }

    #[test]
    fn a_pool_that_was_kept_counts_only_when_etcd_does_not_answer() {
        let (follower, _) = follow(gateway(Duration::from_millis(200)));
        follower.remember("cache", "old");
        let found = follower.definition("cache", PATIENCE).unwrap();
        assert!(found.contains("new:1"), "{found}");
        // A port on which no process listens.
        let (follower, _) = follow(format!("http://{}", refusing_address()));
        follower.remember("cache", "old");
        assert_eq!(follower.definition("cache", PATIENCE).as_deref(), Ok("old"));
    }

    #[test]
    fn a_change_is_heard_of_soon_when_nobody_tells_of_it() {
        // As with a hanging member or a dead connection: routers have some seconds to learn of a
        // drain's step.
        const SOON: Duration = Duration::from_secs(15);
        let url = gateway_with(|is_watch, number| match (is_watch, number) {
            (true, _) => None,
            (false, 0) => Some(r#"{"header": {"revision": "6"}}"#),
            (false, _) => Some(POOLS),
        });
        let (follower, _) = follow(url);
        let since = Stopwatch::start();
        while follower.definition("cache", PATIENCE).is_err() {
            assert!(since.elapsed() < SOON);
            guira_sync::thread::yield_now();
        }
    }

    #[test]
    fn an_etcd_that_ends_every_watch_is_not_asked_all_the_time() {
        let (follower, counts) = follow(gateway(Duration::ZERO));
        follower.definition("cache", PATIENCE).unwrap();
        guira_sync::thread::sleep(SPACING * 5);
        // Two for each spacing, and those that were in flight.
        let calls = counts.get(ControlCount::EtcdCalls);
        assert!(calls <= 16, "{calls} calls");
    }
}
