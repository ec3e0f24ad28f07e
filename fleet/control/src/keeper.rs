//! Decides when the slot of a lost server is given to a spare. Time is a parameter, and nothing here does I/O.
//!
//! A registration that is missing says little: its lease may have ended because etcd, or the network to it, was away. So a server has
//! to be missing for the *hold-down*, all of it while etcd has answered; when many are missing at once nobody is replaced; and who asks for
//! a replacement first asks the server itself ([`Proposal::former`]).

use crate::pool::Pool;
use crate::store::Registration;
use std::time::Duration;

/// Of so many slots one may be lost: more is no failure of servers.
const SHARE: usize = 10;

/// What is known of a pool over time.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    /// By slot: the server that has gone from it, and since when.
    missing: Vec<Option<Missing>>,
    /// When servers were replaced, within the last hold-down.
    replaced: Vec<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Missing {
    server: String,
    since: Duration,
}

/// A server for a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) slot: usize,
    /// Who has it, and is to be asked first: one that answers keeps its slot.
    pub(crate) former: Option<String>,
    pub(crate) spare: Registration,
}

/// What is to be done about a pool.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) proposals: Vec<Proposal>,
    /// Servers that are gone.
    pub(crate) missing: usize,
    /// They are too many: nobody is replaced.
    pub(crate) too_many: bool,
}

impl Keeper {
    /// What the registrations mean for `pool`, at a time at which etcd has answered.
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
            let due = match (&slot.server, &self.missing[number]) {
                (None, _) => true,
                (Some(_), Some(missing)) => !too_many && left > 0 && now >= missing.since + hold,
                (Some(_), None) => false,
            };
            let Some(spare) = due.then(|| take(&mut spares, slot.zone.as_deref())).flatten() else {
                continue;
            };
            left -= usize::from(slot.server.is_some());
            proposals.push(Proposal { slot: number, former: slot.server.clone(), spare: spare.clone() });
        }
        Verdict { proposals, missing, too_many }
    }

    /// A server that is not registered has answered: it is as if it were.
    pub(crate) fn answered(&mut self, slot: usize) {
        if let Some(missing) = self.missing.get_mut(slot) {
            *missing = None;
        }
    }

    /// etcd has not answered: nobody knows any more how long who is missing has been.
    pub(crate) fn lost_contact(&mut self) {
        self.missing.clear();
    }

    fn look(&mut self, pool: &Pool, registered: &[Registration], now: Duration) {
        self.missing.resize(pool.slots.len(), None);
        for (slot, missing) in pool.slots.iter().zip(&mut self.missing) {
            let is_there = registered.iter().any(|one| slot.is_served_by(&one.server));
            let gone = slot.server.as_ref().filter(|_| !is_there);
            // Whoever has replaced it, and whether or not etcd's answer was heard.
            if missing
                .as_ref()
                .is_some_and(|before| slot.server.as_ref().is_some_and(|server| before.server != *server))
            {
                self.replaced.push(now);
            }
            match gone {
                None => *missing = None,
                Some(server) if missing.as_ref().is_some_and(|missing| missing.server == *server) => {}
                Some(server) => *missing = Some(Missing { server: server.clone(), since: now }),
            }
        }
    }
}

/// A spare of the zone, or any.
fn take<'r>(spares: &mut Vec<&'r Registration>, zone: Option<&str>) -> Option<&'r Registration> {
    let near = spares.iter().position(|spare| spare.zone.as_deref() == zone);
    (!spares.is_empty()).then(|| spares.remove(near.unwrap_or(0)))
}

#[cfg(test)]
mod tests;
