//! A change of a pool in several steps: its waits and its progress.

use super::shares::Hashing;
use guira_cli::access::Access;
use guira_cli::failure::Failure;
use guira_cli::output::print;
use guira_cli::units::Span;
use guira_client::text::Endpoint;
use guira_control::{CommandError, EtcdError, Pool, Registration, Servers, Store, StoreError, View};
use guira_sync::clock::Stopwatch;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::VecDeque;
use std::time::Duration;

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two polls.
const POLL: Duration = Duration::from_secs(1);
/// Time between two polls of etcd while routers apply a step. A reply that takes longer than the maximum counts as an
/// outage of etcd.
const ETCD_POLL: Duration = Duration::from_millis(200);
const ETCD_REPLY_MAX: Duration = Duration::from_secs(1);
/// Longest outage of etcd.
const OUTAGE_MAX: Duration = Duration::from_secs(600);
/// Retries of a step to which etcd does not reply, although it replies to reads.
const RETRIES_MAX: u32 = 60;
/// Time between two lines of progress without a terminal.
const REPORT: Duration = Duration::from_secs(30);
/// Polls that a share is computed from.
const WINDOW: usize = 5;
/// A share of fewer gets in a window is not significant.
const LEAST_GETS: u64 = 1000;

/// Durations of a change.
#[derive(Debug, clap::Args)]
pub(super) struct Pace {
    /// Time that routers get to apply each step. Use more than three times the server timeout of the routers.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(super) settle: Span,
    /// Time to fill the new servers from the former ones; `drain` stops earlier at --until.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub(super) within: Span,
    /// Print the plan and exit.
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// Options of the commands that move keys.
#[derive(Debug, clap::Args)]
pub(super) struct How {
    #[command(flatten)]
    pub(super) pace: Pace,
    #[command(flatten)]
    pub(super) hashing: Hashing,
    #[command(flatten)]
    pub(super) access: Access,
}

/// The servers of a pool, with the options of connections to them.
pub(super) fn servers(access: &Access, pool: &Pool) -> Result<Servers, Failure> {
    // Each server has an address of its own; TLS and login are the same for all.
    let any = pool.slots.iter().find_map(|slot| slot.server.as_deref()?.parse::<Endpoint>().ok());
    let any = any.map_or_else(|| "localhost:11211".parse(), Ok);
    let any = any.map_err(|error: guira_client::text::EndpointError| Failure::usage(error.to_string()))?;
    Ok(Servers::like(access.target(&any, TIMEOUT)?))
}

/// A failure of a server.
pub(super) fn failed(server: &str) -> impl FnOnce(CommandError) -> Failure {
    let server = server.to_owned();
    move |error| Failure::caused(server, error)
}

/// Checks that a server can be filled: it must support deletes with hold-off.
pub(super) fn can_be_filled(servers: &Servers, server: &str) -> Result<(), Failure> {
    servers.send_command(server, "md guira:probe H1", &["NF", "HD"]).map_err(|error| match error {
        CommandError::Answer(_) => Failure::usage(format!(
            "{server} does not support deletes with hold-off (md with H): use a Guira node as the new server"
        )),
        error => failed(server)(error),
    })
}

/// Checks that a server returns the time to live of its items.
pub(super) fn can_be_copied_from(servers: &Servers, server: &str) -> Result<(), Failure> {
    servers.send_command(server, "mg guira:probe t", &["EN", "HD"]).map_err(|error| match error {
        CommandError::Answer(_) => Failure::usage(format!(
            "{server} does not support meta commands, so the expiry of its items is unknown: use memcached 1.6 or Guira"
        )),
        error => failed(server)(error),
    })
}

/// Flushes spares before they get keys: a router that has not applied an earlier change may have filled a spare since
/// its member flushed it. A spare that has a slot by now is not flushed.
pub(super) fn empty(store: &mut Store, servers: &Servers, spares: &[&Registration]) -> Result<(), Failure> {
    for spare in spares {
        let view = super::view(store)?;
        if !view.spares(&spare.pool).any(|one| one == *spare) {
            return Err(StoreError::Changed(spare.pool.clone()).into());
        }
        servers.flush(&spare.server).map_err(failed(&spare.server))?;
    }
    Ok(())
}

/// Checks that a server replies before it alone serves keys.
pub(super) fn check_reply(servers: &Servers, server: &str, what: &str) -> Result<(), Failure> {
    servers.greet(server).map_err(|error| {
        Failure::new(format!(
            "{what} is unchanged because {server} does not reply: {error}. Run the command again when the server is up"
        ))
    })
}

/// The number of these slots whose servers are registered and reply.
pub(super) fn serving(
    view: &View,
    name: &str,
    servers: &Servers,
    slots: impl Iterator<Item = usize>,
) -> usize {
    let Ok(pool) = view.pool(name) else { return 0 };
    let serves = |server: &str| view.is_registered(name, server) && servers.greet(server).is_ok();
    slots.filter(|slot| pool.slots[*slot].server.as_deref().is_some_and(serves)).count()
}

/// Refuses to move keys while a slot is drained.
pub(super) fn check_no_drain(name: &str, pool: &Pool) -> Result<(), Failure> {
    let drained = pool.slots.iter().position(|slot| slot.handover.is_some());
    drained.map_or(Ok(()), |slot| {
        Err(Failure::usage(format!("slot {slot} of pool {name} is being drained: finish the drain first")))
    })
}

/// Refuses to leave too few servers.
pub(super) fn check_minimum(pool: &Pool, left: usize) -> Result<(), Failure> {
    let minimum = pool.rules.minimum as usize;
    if left >= minimum {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "only {left} servers would remain registered and reply: the minimum is {minimum}"
    )))
}

/// The time that routers have had to apply a step. All times are since the start of the wait.
#[derive(Debug)]
struct Settling {
    settle: Duration,
    /// The start of the current series of replies of etcd.
    since: Duration,
}

/// Whether the wait continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    Left,
    Over,
}

impl Settling {
    fn new(settle: Duration) -> Self {
        Settling { settle, since: Duration::ZERO }
    }

    fn left(&self, now: Duration) -> Duration {
        self.settle.saturating_sub(now.saturating_sub(self.since))
    }

    /// Records a request to etcd, and the time that its reply took, if there was one.
    fn record(&mut self, now: Duration, took: Option<Duration>) -> Patience {
        if took.is_none_or(|took| took > ETCD_REPLY_MAX) {
            self.since = now;
        }
        let is_over = now > self.settle.saturating_add(OUTAGE_MAX) && !self.left(now).is_zero();
        if is_over { Patience::Over } else { Patience::Left }
    }
}

/// Progress as it is shown on the terminal or printed.
pub(super) struct Progress {
    bar: ProgressBar,
    reported: Option<Stopwatch>,
    /// Attempts at a step without a reply of etcd, in a row.
    retries: u32,
}

impl Progress {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        Progress { bar, reported: None, retries: 0 }
    }

    /// Prints an event.
    pub(super) fn report(&mut self, what: &str) -> Result<(), Failure> {
        self.reported = Some(Stopwatch::start());
        self.bar.suspend(|| print(&format!("{what}\n")))
    }

    /// Shows the current state.
    pub(super) fn show(&mut self, what: &str) -> Result<(), Failure> {
        if !self.bar.is_hidden() {
            self.bar.set_message(what.to_owned());
            self.bar.tick();
            return Ok(());
        }
        let is_due = self.reported.as_ref().is_none_or(|reported| reported.elapsed() >= REPORT);
        if is_due { self.report(what) } else { Ok(()) }
    }

    /// Waits until routers have applied a step. The wait starts again if etcd does not reply, because routers do not
    /// receive changes then.
    pub(super) fn settle(&mut self, store: &mut Store, pace: &Pace, what: &str) -> Result<(), Failure> {
        let (watch, mut settling) = (Stopwatch::start(), Settling::new(pace.settle.0));
        loop {
            let left = settling.left(watch.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            self.show(&format!("{what}: waiting {:.1} s for routers to apply the step", left.as_secs_f64()))?;
            guira_sync::thread::sleep(left.min(ETCD_POLL));
            let sent = Stopwatch::start();
            let reply = store.view();
            if let Err(error) = &reply {
                self.show(&format!("{what}: {error}"))?;
            }
            let took = reply.is_ok().then(|| sent.elapsed());
            if settling.record(watch.elapsed(), took) == Patience::Over {
                let reason =
                    "etcd replies too slowly or not at all, so routers may not have applied the step";
                return Err(Failure::new(format!(
                    "{what} is unchanged: {reason}. Run the command again when etcd is up"
                )));
            }
        }
    }

    /// Reads etcd, with retries during an outage.
    pub(super) fn read(&mut self, store: &mut Store, what: &str) -> Result<View, Failure> {
        let since = Stopwatch::start();
        loop {
            match store.view() {
                Ok(view) => return Ok(view),
                Err(error @ EtcdError::Unreachable { .. }) if since.elapsed() < OUTAGE_MAX => {
                    self.show(&format!("{what} is unchanged; retrying: {error}"))?;
                }
                Err(error) => {
                    return Err(Failure::new(format!(
                        "{what} is unchanged: {error}. Run the command again when etcd is up"
                    )));
                }
            }
            self.wait();
        }
    }

    /// Makes the next step if the pool has not changed. If it has, or if etcd does not reply, the caller reads it again.
    pub(super) fn step(
        &mut self,
        store: &mut Store,
        view: &View,
        name: &str,
        next: &Pool,
    ) -> Result<(), Failure> {
        match store.change(view, name, next, &[], None) {
            Ok(()) => self.retries = 0,
            Err(StoreError::Changed(_)) => {}
            Err(StoreError::Etcd(error @ EtcdError::Unreachable { .. })) if self.retries < RETRIES_MAX => {
                self.retries += 1;
                self.show(&format!("pool {name} is unchanged; retrying: {error}"))?;
                self.wait();
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    pub(super) fn wait(&self) {
        guira_sync::thread::sleep(POLL);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The new server's share of the hits of both servers, over the last polls.
#[derive(Debug, Default)]
pub(super) struct Share {
    hits: VecDeque<[u64; 2]>,
}

impl Share {
    /// Adds the hits of the new server and of the former one.
    pub(super) fn add(&mut self, hits: [u64; 2]) {
        // Counters fall when a server restarts.
        if self.hits.back().is_some_and(|last| last[0] > hits[0] || last[1] > hits[1]) {
            self.hits.clear();
        }
        self.hits.push_back(hits);
        if self.hits.len() > WINDOW + 1 {
            self.hits.pop_front();
        }
    }

    /// The share, and the number of hits; nothing without hits.
    pub(super) fn now(&self) -> Option<(f64, u64)> {
        let (first, last) = (self.hits.front()?, self.hits.back()?);
        let (new, old) = (last[0] - first[0], last[1] - first[1]);
        (new + old > 0).then(|| (new as f64 / (new + old) as f64, new + old))
    }

    /// Whether the share is significant and at least `wanted`.
    pub(super) fn has_reached(&self, wanted: f64) -> bool {
        self.hits.len() > WINDOW
            && self.now().is_some_and(|(share, gets)| share >= wanted && gets >= LEAST_GETS)
    }
}

/// The hits of a server.
pub(super) fn hits(servers: &Servers, server: &str) -> Result<u64, CommandError> {
    let stats = servers.stats(server)?;
    Ok(stats.get("get_hits").and_then(|hits| hits.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_wait_for_routers_starts_again_when_etcd_is_down_or_slow() {
        let soon = Some(Duration::from_millis(3));
        let mut settling = Settling::new(s(5));
        assert_eq!(
            (settling.record(s(1), soon), settling.record(s(4), Some(ETCD_REPLY_MAX))),
            (Patience::Left, Patience::Left)
        );
        assert_eq!((settling.left(s(4)), settling.left(s(5)), settling.left(s(6))), (s(1), s(0), s(0)));
        for outage in [None, Some(ETCD_REPLY_MAX + Duration::from_millis(1))] {
            let mut settling = Settling::new(s(5));
            assert_eq!(settling.record(s(4), outage), Patience::Left);
            assert_eq!((settling.left(s(4)), settling.left(s(8)), settling.left(s(9))), (s(5), s(1), s(0)));
            settling.record(s(8), soon);
            assert_eq!(settling.left(s(8)), s(1), "a reply does not restart the wait");
        }
    }

    #[test]
    fn the_wait_ends_when_etcd_stays_down() {
        let mut settling = Settling::new(s(5));
        assert_eq!(settling.record(s(5) + OUTAGE_MAX, None), Patience::Left);
        assert_eq!(settling.record(s(5) + OUTAGE_MAX + Duration::from_millis(1), None), Patience::Over);
        let mut late = Settling::new(s(5));
        late.record(OUTAGE_MAX, None);
        let end = s(5) + OUTAGE_MAX + Duration::from_millis(1);
        assert_eq!(late.record(end, Some(ETCD_REPLY_MAX)), Patience::Left, "the wait is over as well");
        let mut patient = Settling::new(Duration::MAX);
        assert_eq!(patient.record(OUTAGE_MAX * 2, None), Patience::Left);
    }

    #[test]
    fn a_share_covers_the_last_polls_and_is_significant_after_enough_gets() {
        let mut share = Share::default();
        assert_eq!(share.now(), None);
        for poll in 0..=WINDOW as u64 {
            assert!(!share.has_reached(0.9));
            share.add([300 * poll, 20 * poll]);
        }
        assert_eq!(share.now().map(|(_, gets)| gets), Some(1600));
        assert!(share.has_reached(0.9) && !share.has_reached(0.95));
        (0..WINDOW).for_each(|_| share.add([1500, 100]));
        assert_eq!(share.now(), None, "no hits in the last polls");
        // The new server restarts.
        share.add([3, 100]);
        assert_eq!(share.now(), None);
    }
}
