//! Runs next to each server: registers it while it replies, flushes it before it becomes a spare,
//! and leads if no other member does.

use crate::counts::ControlCounts;
use crate::etcd::{Etcd, EtcdError, EtcdOptions, Outcome};
use crate::keeper::{Keeper, Proposal, Remedy};
use crate::registration::Registration;
use crate::servers::Servers;
use crate::store::{Leadership, Store, StoreError, View, is_name};
use crate::upgrade::Upgrades;
use guira_client::text::{Endpoint, Target};
use guira_sync::clock::Stopwatch;
use guira_sync::simulated::{is_planted, sometimes};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The longest wait for a change before the server is checked again.
const LOOK: Duration = Duration::from_secs(2);
/// Gathers changes that follow each other.
const SPACING: Duration = Duration::from_millis(100);
/// The wait after a failed request to etcd.
const RETRY: Duration = Duration::from_secs(1);
/// A lease is renewed this many times before it would end.
const KEPT_ALIVE: u32 = 3;

/// A server, and the cluster in which it is registered.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    pub etcd: EtcdOptions,
    /// The pool that the server belongs to.
    pub pool: String,
    /// The connection settings of the server, and of the other servers of its pool.
    pub target: Target,
    pub server: Endpoint,
    pub zone: Option<String>,
    /// The time for which the registration outlives this process.
    pub lease: Duration,
    /// The shell command that upgrades the server.
    pub upgrade_command: Option<String>,
}

/// The member of a server.
#[derive(Debug)]
pub struct Member {
    options: MemberOptions,
    server: String,
    servers: Servers,
    upgrades: Upgrades,
    store: Store,
    lease: Option<Lease>,
    /// When the server was last flushed.
    flushed: Stopwatch,
    /// For each pool, while this member leads.
    keepers: HashMap<String, Keeper>,
    since: Stopwatch,
    /// The last logged problem.
    reported: Option<String>,
}

#[derive(Debug)]
struct Lease {
    id: i64,
    kept_alive: Stopwatch,
}

impl Member {
    /// A member that is not registered yet.
    ///
    /// # Errors
    /// The pool's name is invalid, or certificates cannot be read.
    pub fn new(options: MemberOptions) -> Result<Self, EtcdError> {
        if !is_name(&options.pool) {
            return Err(EtcdError::Unusable(StoreError::Name(options.pool).to_string()));
        }
        let etcd = Etcd::new(options.etcd.clone(), Arc::new(ControlCounts::default()))?;
        Ok(Member {
            server: options.server.to_string(),
            servers: Servers::like(options.target.clone()),
            upgrades: Upgrades::new(options.upgrade_command.clone()),
            options,
            store: Store::new(etcd),
            lease: None,
            flushed: Stopwatch::start(),
            keepers: HashMap::new(),
            since: Stopwatch::start(),
            reported: None,
        })
    }

    /// Keeps the server registered until `is_over` returns true, whatever fails; then removes the
    /// registration.
    pub fn run(&mut self, mut is_over: impl FnMut() -> bool) {
        while !is_over() {
            let turn = Stopwatch::start();
            if let Err(error) = self.turn() {
                self.report(&error.to_string());
                guira_sync::thread::sleep(RETRY);
            }
            guira_sync::thread::sleep(SPACING.saturating_sub(turn.elapsed()));
        }
        self.give_up();
    }

    /// Handles the current state, and waits for a change.
    fn turn(&mut self) -> Result<(), EtcdError> {
        let view = match self.store.view() {
            Ok(view) => view,
            Err(error) => {
                self.keepers.values_mut().for_each(Keeper::lost_contact);
                return Err(error);
            }
        };
        // Also for a server that is down because of it.
        if let Some(order) = view.order(&self.options.pool, &self.server) {
            self.upgrades.obey(&mut self.store, order)?;
        }
        if let Err(error) = self.servers.send_to_target("version", &["VERSION"]) {
            self.give_up();
            self.report(&format!(
                "server {} is not registered because it does not reply: {error}",
                self.server
            ));
            guira_sync::thread::sleep(RETRY);
            return Ok(());
        }
        let lease = self.keep_lease()?;
        let is_registered = self.register(&view, lease)?;
        // A leader continues without its own pool, since no other member can lead until its lease
        // ends.
        if is_registered || view.led_by(lease).is_some() {
            self.lead(&view, lease)?;
        }
        self.store.wait(&view, LOOK.min(self.options.lease / KEPT_ALIVE))
    }

    fn keep_lease(&mut self) -> Result<i64, EtcdError> {
        let due = self.options.lease / KEPT_ALIVE;
        if let Some(Lease { id, kept_alive }) = &self.lease {
            let id = *id;
            let is_alive = kept_alive.elapsed() < due || self.store.etcd().keep_alive(id)?;
            if is_alive || is_planted("ended-lease-kept") {
                if kept_alive.elapsed() >= due {
                    self.lease = Some(Lease { id, kept_alive: Stopwatch::start() });
                }
                return Ok(id);
            }
            sometimes("etcd-lease-expired");
            // Operator: Check etcd and the network to it. The member registers again by itself.
            tracing::warn!("the etcd lease expired: etcd was unreachable for too long");
        }
        let kept_alive = Stopwatch::start();
        let id = self.store.etcd().grant(self.options.lease)?;
        self.lease = Some(Lease { id, kept_alive });
        Ok(id)
    }

    /// Whether the server is registered with this lease.
    fn register(&mut self, view: &View, lease: i64) -> Result<bool, EtcdError> {
        let pool = self.options.pool.clone();
        let serves = match view.pool(&pool) {
            Ok(pool) => pool.slot_of(&self.server).is_some(),
            // When etcd has lost its pools, no server should be flushed.
            Err(error) => {
                self.report(&format!("server {} is not registered: {error}", self.server));
                return Ok(false);
            }
        };
        if let Some(other) = view.other_pool_of(&self.server, &pool).filter(|_| !serves) {
            self.give_up();
            self.report(&format!(
                "server {} serves pool {other}; neither registered in pool {pool} nor flushed",
                self.server
            ));
            return Ok(false);
        }
        let known = view.registered(&pool).find(|known| known.server == self.server);
        match known {
            Some(known) if known.lease != lease => {
                self.report(&format!(
                    "server {} has the registration of another or an earlier member; waiting until it ends",
                    self.server
                ));
                return Ok(false);
            }
            // A server that an operator has put into the pool has items from now on: it is no empty
            // spare after it is removed.
            Some(known) if serves && !known.is_empty => return Ok(true),
            Some(known) if !serves && known.is_empty && self.flushed.elapsed() < LOOK => return Ok(true),
            _ => {}
        }
        // Flushes spares repeatedly: routers that have not yet received a change continue to fill a
        // server that has lost its slot.
        if !serves {
            if !is_planted("spare-unflushed")
                && let Err(error) = self.servers.send_to_target("flush_all", &["OK"])
            {
                self.give_up();
                self.report(&format!(
                    "server {} cannot become a spare because flush_all failed: {error}",
                    self.server
                ));
                return Ok(false);
            }
            self.flushed = Stopwatch::start();
            if known.is_some_and(|known| known.is_empty) {
                return Ok(true);
            }
        }
        let registration = Registration {
            pool,
            server: self.server.clone(),
            zone: self.options.zone.clone(),
            is_empty: !serves,
            can_upgrade: self.upgrades.are_possible(),
            revision: 0,
            lease,
        };
        if self.store.register(view, &registration, lease)? == Outcome::Done {
            let role = if serves { "with a slot" } else { "as a spare" };
            self.reported = None;
            tracing::info!(server = self.server, pool = registration.pool, "registered the server {role}");
        }
        // The next view has the new registration.
        Ok(false)
    }

    fn lead(&mut self, view: &View, lease: i64) -> Result<(), EtcdError> {
        // A server has one member: a second one is not registered.
        let name = format!("{}/{}", self.options.pool, self.server);
        if view.leader().is_none() && self.store.lead(&name, lease)? == Outcome::Done {
            tracing::info!("elected leader: this member assigns slots of failed servers to spares");
        }
        let Some(leadership) = view.led_by(lease) else {
            self.keepers.clear();
            return Ok(());
        };
        for name in view.names() {
            let Ok(pool) = view.pool(name) else { continue };
            // A spare of several pools is no spare any more once one of them has given it a slot.
            let is_free =
                |one: &&Registration| !one.is_empty || view.other_pool_of(&one.server, name).is_none();
            let registered: Vec<Registration> = view.registered(name).filter(is_free).cloned().collect();
            let now = self.since.elapsed();
            let verdict = self.keepers.entry(name.to_owned()).or_default().decide(pool, &registered, now);
            if verdict.too_many {
                let missing = verdict.missing;
                self.report(&format!(
                    "{missing} servers of pool {name} are down at the same time; replacing none"
                ));
            }
            for proposal in verdict.proposals {
                if self.carry_out(view, name, &proposal, leadership)? {
                    // The remaining decisions need a new view.
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Whether the pool has changed.
    fn carry_out(
        &mut self,
        view: &View,
        name: &str,
        proposal: &Proposal,
        leadership: Leadership,
    ) -> Result<bool, EtcdError> {
        let Proposal { slot, lost, remedy } = proposal;
        if let Some(lost) = lost
            && self.servers.is_there(lost)
        {
            sometimes("lost-server-replies");
            self.keepers.entry(name.to_owned()).or_default().answered(lost);
            self.report(&format!(
                "server {lost} of pool {name} is not registered but replies; it keeps slot {slot}"
            ));
            return Ok(false);
        }
        let done = match remedy {
            Remedy::Give(spare) => {
                // A router that has not received an earlier change may have filled the spare since
                // its last flush; and the spare may be down.
                if !is_planted("spare-unflushed")
                    && let Err(error) = self.servers.flush(&spare.server)
                {
                    let server = &spare.server;
                    self.report(&format!("spare {server} cannot take slot {slot} of pool {name}: {error}"));
                    return Ok(false);
                }
                self.store.give(view, name, *slot, spare, Some(leadership))
            }
            Remedy::TakeBack(former) => {
                if let Err(error) = self.servers.greet(&former.server) {
                    let server = &former.server;
                    self.report(&format!(
                        "server {server} cannot take back slot {slot} of pool {name}: {error}"
                    ));
                    return Ok(false);
                }
                self.store.give(view, name, *slot, former, Some(leadership))
            }
            Remedy::GiveUp => match view.pool(name) {
                Ok(pool) => {
                    let mut pool = pool.clone();
                    pool.give_up_handover(*slot);
                    self.store.change(view, name, &pool, &[], Some(leadership))
                }
                Err(error) => Err(error),
            },
        };
        match done {
            Ok(()) => {}
            Err(StoreError::Etcd(error)) => return Err(error),
            Err(error) => {
                sometimes("pool-changed-by-another");
                self.report(&format!("slot {slot} of pool {name}: {error}"));
                return Ok(true);
            }
        }
        log_change(name, proposal);
        Ok(true)
    }

    /// Revokes the registration, and the leadership with it.
    fn give_up(&mut self) {
        self.keepers.clear();
        let Some(lease) = self.lease.take() else { return };
        if let Err(error) = self.store.etcd().revoke(lease.id) {
            self.report(&format!(
                "cannot remove the registration of server {} before its lease ends: {error}",
                self.server
            ));
        }
    }

    /// Logs a problem once.
    fn report(&mut self, what: &str) {
        if self.reported.as_deref() != Some(what) {
            tracing::warn!("{what}");
            self.reported = Some(what.to_owned());
        }
    }
}

/// Logs a change that the leader has made.
fn log_change(pool: &str, proposal: &Proposal) {
    let Proposal { slot, lost, remedy } = proposal;
    match (lost, remedy) {
        (Some(lost), Remedy::Give(spare)) => {
            // Operator: Find out why the server failed; bring it back as a spare.
            tracing::warn!(pool, slot, "server {lost} failed; spare {} takes its slot", spare.server);
        }
        (None, Remedy::Give(spare)) => {
            tracing::info!(pool, slot, "spare {} takes the empty slot", spare.server);
        }
        (lost, Remedy::TakeBack(former)) => {
            let (lost, server) = (lost.as_deref().unwrap_or_default(), &former.server);
            // Operator: Find out why the server failed, then drain the slot again.
            tracing::warn!(pool, slot, "server {lost} failed during a drain; {server} has the slot again");
        }
        (lost, Remedy::GiveUp) => {
            let lost = lost.as_deref().unwrap_or_default();
            // Operator: Find out why the server failed, then drain the slot again.
            tracing::warn!(pool, slot, "server {lost} failed; the drain of its slot was cancelled");
        }
    }
}
