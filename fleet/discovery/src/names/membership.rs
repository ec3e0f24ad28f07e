//! The servers that an SRV record names, in an order that hashes can rely on.
//!
//! Names with an ordinal, as in a StatefulSet (`cache-0.cache`, `cache-1.cache`), are servers of
//! *slots*: the ordinal is the place in the list. A slot in the middle keeps its server when the
//! record lacks it: closing the gap would move the keys of all slots behind it. Other names are
//! sorted.
//!
//! A server that leaves the record stays in the list for a while (the *hold-down*), and then few
//! leave at once: a record that is empty for a moment, because its DNS server restarts, costs no
//! keys. Time is a parameter, and nothing here does I/O.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long a server is kept that has left its SRV record, in milliseconds: the default of routers and of clients that follow what changes. Both have to keep it equally long, since they
/// find different servers for a key otherwise.
pub const SRV_HOLD_DOWN_MS: &str = "300000";
pub const SRV_HOLD_DOWN: Duration = match u64::from_str_radix(SRV_HOLD_DOWN_MS, 10) {
    Ok(millis) => Duration::from_millis(millis),
    Err(_) => panic!("no number of milliseconds"),
};

/// The target of an SRV record: host and port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The host name without its final dot.
    pub host: Arc<str>,
    pub port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Why a record cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MembershipError {
    #[error("the record has names of several kinds: servers with ordinals must all be of one StatefulSet")]
    Mixed,
    #[error("the record has no servers")]
    Empty,
}

/// The servers of one SRV record.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    members: Vec<Member>,
    order: Order,
    /// How long who leaves the record is kept.
    hold: Duration,
    /// When servers were dropped last.
    dropped: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    target: Target,
    /// Since when the record does not have it.
    left: Option<Duration>,
}

/// How the places of servers are determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Slots,
    Names,
}

/// One in this many servers is dropped at a time.
const SHARE: usize = 10;
/// The most slots of a list: this many for each server that the record names, and a few more.
const SLOTS_FOR_EACH: usize = 2;
const SLOTS_MORE: usize = 16;

impl Membership {
    /// The members of the first reply.
    ///
    /// # Errors
    /// If there are no servers.
    pub(crate) fn new(answer: &[Target], hold: Duration, now: Duration) -> Result<Self, MembershipError> {
        let order = if slots(answer).is_some() { Order::Slots } else { Order::Names };
        let mut new = Membership { members: Vec::new(), order, hold, dropped: None };
        new.update(answer, now)?;
        Ok(new)
    }

    /// The members of a saved list, which the record may no longer contain.
    ///
    /// # Errors
    /// If there are no servers.
    pub(crate) fn kept(list: &[Target], hold: Duration, now: Duration) -> Result<Self, MembershipError> {
        let mut kept = Membership::new(list, hold, now)?;
        kept.members.iter_mut().for_each(|member| member.left = Some(now));
        Ok(kept)
    }

    /// Applies the current reply. No server is dropped.
    ///
    /// # Errors
    /// When it does not fit the known members, which stay unchanged.
    pub(crate) fn update(&mut self, answer: &[Target], now: Duration) -> Result<(), MembershipError> {
        if answer.is_empty() {
            return Err(MembershipError::Empty);
        }
        match self.order {
            Order::Slots => self.fill(slots(answer).ok_or(MembershipError::Mixed)?, now),
            Order::Names => match slots(answer).filter(|slots| self.fits_into(slots)) {
                // With too few servers in the first reply the order was unclear: a router that
                // starts now has slots.
                Some(slots) => {
                    self.order = Order::Slots;
                    self.members.clear();
                    self.fill(slots, now);
                }
                None => self.sort_in(answer, now),
            },
        }
        Ok(())
    }

    /// Whether all that are known have a place among these slots.
    fn fits_into(&self, slots: &Slots) -> bool {
        self.members.iter().all(|member| {
            let own = ordinal(&member.target.host);
            own.is_some_and(|(pattern, slot)| pattern == slots.pattern && slot < slots.length())
        })
    }

    fn fill(&mut self, slots: Slots, now: Duration) {
        let length = slots.length();
        let Slots { pattern, servers, port } = slots;
        for slot in self.members.len()..length {
            // No record has named this server so far: it may come.
            let target = Target { host: pattern.host(slot), port };
            self.members.push(Member { target, left: Some(now) });
        }
        for member in &mut self.members {
            member.left.get_or_insert(now);
        }
        let mut returned = servers.into_iter();
        for (slot, target) in returned.by_ref() {
            self.members[slot] = Member { target, left: None };
        }
    }

    fn sort_in(&mut self, answer: &[Target], now: Duration) {
        for member in &mut self.members {
            if answer.contains(&member.target) {
                member.left = None;
            } else {
                member.left.get_or_insert(now);
            }
        }
        for target in answer {
            if self.members.iter().all(|member| member.target != *target) {
                self.members.push(Member { target: target.clone(), left: None });
            }
        }
        self.members.sort_by(|one, other| one.target.cmp(&other.target));
    }

    /// Drops servers that have left long ago, a few at a time. Returns their number.
    pub(crate) fn drop_due(&mut self, now: Duration) -> usize {
        let most = (self.members.len() / SHARE).max(1);
        let mut dropped = 0;
        while dropped < most && self.next().is_some_and(|due| due <= now) {
            let Some(place) = self.candidate() else { break };
            self.members.remove(place);
            dropped += 1;
        }
        if dropped > 0 {
            self.dropped = Some(now);
        }
        dropped
    }

    /// When the next server is dropped, if the record does not change.
    pub(crate) fn next(&self) -> Option<Duration> {
        let left = self.members[self.candidate()?].left?;
        let due = left + self.hold;
        Some(self.dropped.map_or(due, |dropped| due.max(dropped + self.hold)))
    }

    /// The server that is dropped next. One server always stays.
    fn candidate(&self) -> Option<usize> {
        if self.members.len() < 2 {
            return None;
        }
        match self.order {
            Order::Slots => Some(self.members.len() - 1).filter(|last| self.members[*last].left.is_some()),
            Order::Names => {
                let gone = self.members.iter().enumerate();
                let gone = gone.filter_map(|(place, member)| member.left.map(|left| (left, place)));
                gone.min().map(|(_, place)| place)
            }
        }
    }

    /// The servers, in their order.
    pub(crate) fn list(&self) -> impl Iterator<Item = &Target> {
        self.members.iter().map(|member| &member.target)
    }

    /// How many are kept although the record does not have them.
    pub(crate) fn held(&self) -> usize {
        self.members.iter().filter(|member| member.left.is_some()).count()
    }

    /// Whether places in the list are slots: otherwise a hash by position moves keys when a server comes or goes.
    pub(crate) fn has_slots(&self) -> bool {
        self.order == Order::Slots
    }
}

/// The parts around the ordinal in a StatefulSet's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pattern<'t> {
    before: &'t str,
    after: &'t str,
}

impl Pattern<'_> {
    fn host(self, slot: usize) -> Arc<str> {
        format!("{}{slot}{}", self.before, self.after).into()
    }
}

struct Slots<'t> {
    pattern: Pattern<'t>,
    servers: Vec<(usize, Target)>,
    port: u16,
}

impl Slots<'_> {
    fn length(&self) -> usize {
        self.servers.last().map_or(0, |(slot, _)| slot + 1)
    }
}

/// The slots of servers that are all of one StatefulSet.
fn slots(answer: &[Target]) -> Option<Slots<'_>> {
    let mut servers = Vec::new();
    let (pattern, _) = ordinal(&answer.first()?.host)?;
    for target in answer {
        let (own, slot) = ordinal(&target.host)?;
        if own != pattern {
            return None;
        }
        servers.push((slot, target.clone()));
    }
    servers.sort();
    let last = servers.last()?.0;
    let is_once = servers.windows(2).all(|pair| pair[0].0 != pair[1].0);
    let is_dense = last < servers.len() * SLOTS_FOR_EACH + SLOTS_MORE;
    let port = servers.first()?.1.port;
    (is_once && is_dense).then_some(Slots { pattern, servers, port })
}

/// The ordinal at the end of the first label, behind a hyphen.
fn ordinal(host: &str) -> Option<(Pattern<'_>, usize)> {
    let label = host.split('.').next()?;
    let (before, digits) = label.rsplit_once('-').map(|(base, digits)| (&host[..base.len() + 1], digits))?;
    let is_plain =
        digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    let number = digits.parse().ok().filter(|_| is_plain)?;
    Some((Pattern { before, after: &host[label.len()..] }, number))
}

#[cfg(test)]
mod tests;
