//! Decides when a spare gets the slot of a lost server. Time is a parameter, and nothing here does
//! I/O.
//!
//! A missing registration is a weak sign: its lease may have ended because etcd, or the network to
//! it, failed. So a server has to be missing for the *hold-down*, while etcd replies all the time;
//! no server is replaced when many are missing at once; and the leader probes the server itself
//! before it replaces it ([`Proposal::lost`]).

use crate::change::Stage;
use crate::pool::{Pool, Slot, is_same};
use crate::registration::Registration;
use std::time::Duration;

/// One slot in this many may be lost: more losses are no failure of servers.
const SHARE: usize = 10;

/// The state of a pool over time.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    /// For each slot, the missing server and the time of its loss.
    missing: Vec<Option<Missing>>,
    /// The missing servers among those that slots move to or from.
    others: Vec<Option<Missing>>,
    /// The times of replacements within the last hold-down.
    replaced: Vec<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Missing {
    server: String,
    since: Duration,
}

/// The action for a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) slot: usize,
    /// The missing server, to be probed first: one that answers keeps its slot.
    pub(crate) lost: Option<String>,
    pub(crate) remedy: Remedy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    Give(Registration),
    /// The previous server takes the slot back: it has received all changes of its keys.
    TakeBack(Registration),
    /// The handover ends, and the keys stay.
    GiveUp,
}

/// The action for a pool.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) proposals: Vec<Proposal>,
    pub(crate) missing: usize,
    /// Too many servers are missing, so none is replaced.
    pub(crate) too_many: bool,
}

impl Keeper {
    /// Decides on `pool` from its registrations, at a time at which etcd has replied.
    pub(crate) fn decide(&mut self, pool: &Pool, registered: &[Registration], now: Duration) -> Verdict {
        self.look(pool, registered, now);
        let hold = pool.rules.hold_down();
        self.replaced.retain(|at| now < *at + hold);
        let missing = self.missing.iter().flatten().count();
        let filled = pool.servers().count();
        let too_many = missing > (pool.rules.at_once as usize).max(filled / SHARE);
        let mut spares: Vec<&Registration> =
            registered.iter().filter(|one| one.is_empty && pool.slot_of(&one.server).is_none()).collect();
        let mut left = (pool.rules.at_once as usize).saturating_sub(self.replaced.len());
        let mut proposals = Vec::new();
        for (number, slot) in pool.slots.iter().enumerate() {
            let is_due = |missing: &Missing| now >= missing.since + hold;
            let is_lost = match (&slot.server, &self.missing[number]) {
                (None, _) => true,
                (Some(_), Some(missing)) => !too_many && left > 0 && is_due(missing),
                (Some(_), None) => false,
            };
            if is_lost {
                let Some(remedy) = remedy(slot, registered, &mut spares) else { continue };
                left -= usize::from(slot.server.is_some());
                proposals.push(Proposal { slot: number, lost: slot.server.clone(), remedy });
            } else if let Some(other) = self.others[number].as_ref().filter(|other| is_due(other)) {
                let lost = Some(other.server.clone());
                proposals.push(Proposal { slot: number, lost, remedy: Remedy::GiveUp });
            }
        }
        Verdict { proposals, missing, too_many }
    }

    /// A server without a registration has replied: it counts as registered.
    pub(crate) fn answered(&mut self, server: &str) {
        let all = self.missing.iter_mut().chain(&mut self.others);
        for missing in all.filter(|missing| missing.as_ref().is_some_and(|one| one.server == server)) {
            *missing = None;
        }
    }

    /// etcd has not replied: the times of losses are unknown.
    pub(crate) fn lost_contact(&mut self) {
        self.missing.clear();
        self.others.clear();
    }

    fn look(&mut self, pool: &Pool, registered: &[Registration], now: Duration) {
        self.missing.resize(pool.slots.len(), None);
        self.others.resize(pool.slots.len(), None);
        for (slot, missing) in pool.slots.iter().zip(&mut self.missing) {
            // Another member may have replaced it, and etcd's reply may have been lost.
            if missing
                .as_ref()
                .is_some_and(|before| slot.server.as_ref().is_some_and(|server| before.server != *server))
            {
                self.replaced.push(now);
            }
            update(missing, slot.server.as_deref(), registered, now);
        }
        for (slot, missing) in pool.slots.iter().zip(&mut self.others) {
            let other = slot.handover.as_ref().map(|handover| handover.other.as_str());
            update(missing, other, registered, now);
        }
    }
}

/// Updates the state of one server.
fn update(missing: &mut Option<Missing>, server: Option<&str>, registered: &[Registration], now: Duration) {
    let gone = server.filter(|server| !registered.iter().any(|one| is_same(&one.server, server)));
    match gone {
        None => *missing = None,
        Some(server) if missing.as_ref().is_some_and(|missing| missing.server == server) => {}
        Some(server) => *missing = Some(Missing { server: server.to_owned(), since: now }),
    }
}

/// The replacement of a lost server in a slot: during a handover, the other server, if it is
/// registered.
fn remedy(slot: &Slot, registered: &[Registration], spares: &mut Vec<&Registration>) -> Option<Remedy> {
    if let Some(handover) = &slot.handover
        && let Some(other) = registered.iter().find(|one| is_same(&one.server, &handover.other))
    {
        return Some(match handover.stage {
            // The new server has no items yet.
            Stage::Announced => Remedy::Give(other.clone()),
            Stage::Warming | Stage::Ending => Remedy::TakeBack(other.clone()),
        });
    }
    take(spares, slot.zone.as_deref()).map(|spare| Remedy::Give(spare.clone()))
}

/// A spare in the zone, or any.
fn take<'r>(spares: &mut Vec<&'r Registration>, zone: Option<&str>) -> Option<&'r Registration> {
    let near = spares.iter().position(|spare| spare.zone.as_deref() == zone);
    (!spares.is_empty()).then(|| spares.remove(near.unwrap_or(0)))
}

#[cfg(test)]
mod tests;
