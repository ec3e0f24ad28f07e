//! A change of a pool that takes its time: what it waits for, and how far it is.

use super::shares::Hashing;
use guira_cli::access::Access;
use guira_cli::failure::Failure;
use guira_cli::output::print;
use guira_cli::units::Span;
use guira_client::text::Endpoint;
use guira_control::{AskError, EtcdError, Pool, Registration, Servers, Store, StoreError, View};
use guira_sync::clock::Stopwatch;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::VecDeque;
use std::time::Duration;

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How often it is looked how far it is.
const LOOK: Duration = Duration::from_secs(1);
/// How often etcd is asked while routers hear of a step, and how long it may take without having been away.
const ASK: Duration = Duration::from_millis(200);
const ASK_MAX: Duration = Duration::from_secs(1);
/// How long etcd may be away.
const AWAY_MAX: Duration = Duration::from_secs(600);
/// How often a step is tried that etcd does not answer, though it answers otherwise.
const UNMADE_MAX: u32 = 60;
/// How often that is told where there is no terminal.
const TELL: Duration = Duration::from_secs(30);
/// Looks that a share is made of.
const WINDOW: usize = 5;
/// With fewer gets than this in a window nothing is known.
const LEAST_GETS: u64 = 1000;

/// How fast it goes.
#[derive(Debug, clap::Args)]
pub(super) struct Pace {
    /// How long it may take until every router that etcd reaches has heard of a change and has ended what it had begun: longer than three
    /// times the time that routers give servers.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(super) settle: Span,
    /// How long the former server is asked for what the new one does not have.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub(super) within: Span,
    /// Only say what would be done.
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// How keys are moved.
#[derive(Debug, clap::Args)]
pub(super) struct How {
    #[command(flatten)]
    pub(super) pace: Pace,
    #[command(flatten)]
    pub(super) hashing: Hashing,
    #[command(flatten)]
    pub(super) access: Access,
}

/// Servers, and how they are reached from here.
pub(super) fn servers(access: &Access, pool: &Pool) -> Result<Servers, Failure> {
    // Each is asked at its own address; all have this in common.
    let any = pool.slots.iter().find_map(|slot| slot.server.as_deref()?.parse::<Endpoint>().ok());
    let any = any.map_or_else(|| "localhost:11211".parse(), Ok);
    let any = any.map_err(|error: guira_client::text::EndpointError| Failure::usage(error.to_string()))?;
    Ok(Servers::like(access.target(&any, TIMEOUT)?))
}

/// A failure of a server.
pub(super) fn failed(server: &str) -> impl FnOnce(AskError) -> Failure {
    let server = server.to_owned();
    move |error| Failure::caused(server, error)
}

/// That a server can be filled: it knows deletes that hold keys off.
pub(super) fn can_be_filled(servers: &Servers, server: &str) -> Result<(), Failure> {
    servers.ask(server, "md guira:probe H1", &["NF", "HD"]).map_err(|error| match error {
        AskError::Answer(_) => Failure::usage(format!(
            "{server} does not know deletes that hold keys off (md with H): only a node of Guira can be filled while keys are deleted"
        )),
        error => failed(server)(error),
    })
}

/// That a server tells how long its items live.
pub(super) fn can_be_copied_from(servers: &Servers, server: &str) -> Result<(), Failure> {
    servers.ask(server, "mg guira:probe t", &["EN", "HD"]).map_err(|error| match error {
        AskError::Answer(_) => Failure::usage(format!(
            "{server} does not know meta commands: nobody can tell how long its items live"
        )),
        error => failed(server)(error),
    })
}

/// Empties spares that are about to get keys: a router that has not heard of an earlier change may have filled one since its member has emptied it.
/// One that has a slot by now keeps what it has.
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

/// That a server is there that is about to have keys of its own.
pub(super) fn answers(servers: &Servers, server: &str, what: &str) -> Result<(), Failure> {
    servers.greet(server).map_err(|error| {
        Failure::new(format!(
            "{what} stays as it is, since {server} does not answer: {error}. Call it again when it is back"
        ))
    })
}

/// How many of these slots have servers that are registered and answer.
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

/// Refuses what moves keys while a slot is drained.
pub(super) fn check_no_drain(name: &str, pool: &Pool) -> Result<(), Failure> {
    let drained = pool.slots.iter().position(|slot| slot.handover.is_some());
    drained.map_or(Ok(()), |slot| {
        Err(Failure::usage(format!("slot {slot} of pool {name} is being drained: end that first")))
    })
}

/// Refuses what would leave too few servers.
pub(super) fn check_minimum(pool: &Pool, left: usize) -> Result<(), Failure> {
    let minimum = pool.rules.minimum as usize;
    if left >= minimum {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{left} servers would be left that are registered and answer: the minimum is {minimum}"
    )))
}

/// How long routers have had to hear of a step. All times are since the beginning of the wait.
#[derive(Debug)]
struct Settling {
    settle: Duration,
    /// Since when etcd has answered each time.
    since: Duration,
}

/// Whether it is worth while to wait on.
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

    /// etcd was asked, and has answered after so long, if it has.
    fn look(&mut self, now: Duration, took: Option<Duration>) -> Patience {
        if took.is_none_or(|took| took > ASK_MAX) {
            self.since = now;
        }
        let is_over = now > self.settle.saturating_add(AWAY_MAX) && !self.left(now).is_zero();
        if is_over { Patience::Over } else { Patience::Left }
    }
}

/// What a person sees of it.
pub(super) struct Progress {
    bar: ProgressBar,
    told: Option<Stopwatch>,
    /// Attempts at a step that etcd has not answered, in a row.
    unmade: u32,
}

impl Progress {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        Progress { bar, told: None, unmade: 0 }
    }

    /// What has happened.
    pub(super) fn tell(&mut self, what: &str) -> Result<(), Failure> {
        self.told = Some(Stopwatch::start());
        self.bar.suspend(|| print(&format!("{what}\n")))
    }

    /// How far it is.
    pub(super) fn show(&mut self, what: &str) -> Result<(), Failure> {
        if !self.bar.is_hidden() {
            self.bar.set_message(what.to_owned());
            self.bar.tick();
            return Ok(());
        }
        let is_due = self.told.as_ref().is_none_or(|told| told.elapsed() >= TELL);
        if is_due { self.tell(what) } else { Ok(()) }
    }

    /// Waits until routers have heard of a step. The time begins anew if etcd does not answer: they hear nothing either.
    pub(super) fn settle(&mut self, store: &mut Store, pace: &Pace, what: &str) -> Result<(), Failure> {
        let (watch, mut settling) = (Stopwatch::start(), Settling::new(pace.settle.0));
        loop {
            let left = settling.left(watch.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            self.show(&format!("{what}: routers hear of it, {:.1} s", left.as_secs_f64()))?;
            std::thread::sleep(left.min(ASK));
            let asked = Stopwatch::start();
            let answer = store.view();
            if let Err(error) = &answer {
                self.show(&format!("{what}: {error}"))?;
            }
            let took = answer.is_ok().then(|| asked.elapsed());
            if settling.look(watch.elapsed(), took) == Patience::Over {
                let reason =
                    "etcd answers too slowly, or not at all, for anybody to know what routers have heard";
                return Err(Failure::new(format!("{what} stays as it is: {reason}. Call it again later")));
            }
        }
    }

    /// What is in etcd, which is waited for if it does not answer for a while.
    pub(super) fn look(&mut self, store: &mut Store, what: &str) -> Result<View, Failure> {
        let since = Stopwatch::start();
        loop {
            match store.view() {
                Ok(view) => return Ok(view),
                Err(error @ EtcdError::Unreachable { .. }) if since.elapsed() < AWAY_MAX => {
                    self.show(&format!("{what} stays as it is for now: {error}"))?;
                }
                Err(error) => {
                    return Err(Failure::new(format!("{what} stays as it is: {error}. Call it again later")));
                }
            }
            self.wait();
        }
    }

    /// Makes the next step if the pool is as it was. Otherwise, and if etcd has not answered, it is to be looked at anew.
    pub(super) fn step(
        &mut self,
        store: &mut Store,
        view: &View,
        name: &str,
        next: &Pool,
    ) -> Result<(), Failure> {
        match store.change(view, name, next, &[], None) {
            Ok(()) => self.unmade = 0,
            Err(StoreError::Changed(_)) => {}
            Err(StoreError::Etcd(error @ EtcdError::Unreachable { .. })) if self.unmade < UNMADE_MAX => {
                self.unmade += 1;
                self.show(&format!("pool {name} stays as it is for now: {error}"))?;
                self.wait();
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    pub(super) fn wait(&self) {
        std::thread::sleep(LOOK);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Of what either of two servers has had, what the new one has had, over the last looks.
#[derive(Debug, Default)]
pub(super) struct Share {
    looks: VecDeque<[u64; 2]>,
}

impl Share {
    /// Another look: hits of the new server and of the former one.
    pub(super) fn look(&mut self, hits: [u64; 2]) {
        // Counters that fall are those of a server that was started anew.
        if self.looks.back().is_some_and(|last| last[0] > hits[0] || last[1] > hits[1]) {
            self.looks.clear();
        }
        self.looks.push_back(hits);
        if self.looks.len() > WINDOW + 1 {
            self.looks.pop_front();
        }
    }

    /// The share, and the number of gets that it is made of; nothing if there were none.
    pub(super) fn now(&self) -> Option<(f64, u64)> {
        let (first, last) = (self.looks.front()?, self.looks.back()?);
        let (new, old) = (last[0] - first[0], last[1] - first[1]);
        (new + old > 0).then(|| (new as f64 / (new + old) as f64, new + old))
    }

    /// Whether it is known to be as much as `wanted`.
    pub(super) fn has_reached(&self, wanted: f64) -> bool {
        self.looks.len() > WINDOW
            && self.now().is_some_and(|(share, gets)| share >= wanted && gets >= LEAST_GETS)
    }
}

/// Gets that a server has found something for.
pub(super) fn hits(servers: &Servers, server: &str) -> Result<u64, AskError> {
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
    fn the_time_of_routers_begins_anew_when_etcd_is_away_or_slow() {
        let soon = Some(Duration::from_millis(3));
        let mut settling = Settling::new(s(5));
        assert_eq!(
            (settling.look(s(1), soon), settling.look(s(4), Some(ASK_MAX))),
            (Patience::Left, Patience::Left)
        );
        assert_eq!((settling.left(s(4)), settling.left(s(5)), settling.left(s(6))), (s(1), s(0), s(0)));
        for away in [None, Some(ASK_MAX + Duration::from_millis(1))] {
            let mut settling = Settling::new(s(5));
            assert_eq!(settling.look(s(4), away), Patience::Left);
            assert_eq!((settling.left(s(4)), settling.left(s(8)), settling.left(s(9))), (s(5), s(1), s(0)));
            settling.look(s(8), soon);
            assert_eq!(settling.left(s(8)), s(1), "an answer does not set it back");
        }
    }

    #[test]
    fn nobody_waits_for_an_etcd_that_stays_away() {
        let mut settling = Settling::new(s(5));
        assert_eq!(settling.look(s(5) + AWAY_MAX, None), Patience::Left);
        assert_eq!(settling.look(s(5) + AWAY_MAX + Duration::from_millis(1), None), Patience::Over);
        let mut late = Settling::new(s(5));
        late.look(AWAY_MAX, None);
        let end = s(5) + AWAY_MAX + Duration::from_millis(1);
        assert_eq!(late.look(end, Some(ASK_MAX)), Patience::Left, "its time is over as well");
        let mut patient = Settling::new(Duration::MAX);
        assert_eq!(patient.look(AWAY_MAX * 2, None), Patience::Left);
    }

    #[test]
    fn a_share_is_one_of_the_last_looks_and_counts_when_there_were_enough() {
        let mut share = Share::default();
        assert_eq!(share.now(), None);
        for look in 0..=WINDOW as u64 {
            assert!(!share.has_reached(0.9));
            share.look([300 * look, 20 * look]);
        }
        assert_eq!(share.now().map(|(_, gets)| gets), Some(1600));
        assert!(share.has_reached(0.9) && !share.has_reached(0.95));
        (0..WINDOW).for_each(|_| share.look([1500, 100]));
        assert_eq!(share.now(), None, "the last looks have found nothing");
        // A server that was started anew.
        share.look([3, 100]);
        assert_eq!(share.now(), None);
    }
}
