//! How long is waited, and what is done when that is over.

use super::lane::Connected;
use super::{Asks, Core, Fault, HEALTH, Link, Upstream, Used};
use guira_routing::{Answer, Outcome};
use guira_upstream::ProbeSchedule;

/// So many times in a row something was given up, and the connection is: nothing comes over it.
const SWEEPS_MAX: usize = 3;

impl Core {
    /// When something is to be given up, or to go on.
    pub(in crate::pools) fn deadline(&self) -> Option<u64> {
        let servers = self.flow.servers.iter().filter_map(Upstream::deadline);
        servers.chain(self.flow.waits.iter().map(|(due, _)| *due)).min()
    }

    /// Gives up what has waited for too long, and goes on with what was to wait. Returns connections that are to be closed.
    pub(in crate::pools) fn expire(&mut self) -> Vec<(u32, Fault)> {
        let now_ms = self.flow.facts.now_ms;
        let mut closed = Vec::new();
        for server in 0..self.flow.servers.len() as u32 {
            let it = &self.flow.servers[server as usize];
            if it.deadline().is_none_or(|deadline| now_ms < deadline) {
                continue;
            }
            if let Link::Begins(since) = it.link
                && now_ms >= since + it.connect_patience_ms()
            {
                closed.push((server, Fault::ConnectTimeout));
                continue;
            }
            closed.extend(self.sweep(server, now_ms).map(|fault| (server, fault)));
        }
        self.end_waits(now_ms);
        closed
    }

    /// Goes on with what was to wait until then at the latest.
    fn end_waits(&mut self, then_ms: u64) {
        while let Some(place) = self.flow.waits.iter().position(|(due, _)| *due <= then_ms) {
            let (_, origin) = self.flow.waits.swap_remove(place);
            self.flow.source = None;
            self.walks.answer(origin, &Answer::of(Outcome::Ok), &mut self.flow);
        }
    }

    /// What was asked earlier, for nobody who still waits, is answered too late by now: what it would be followed by, such as a store of what was
    /// found, might be outdated. It is nobody's fault that this thread has not looked. Returns servers that have not been sent all of it.
    pub(in crate::pools) fn forget_overdue(&mut self) -> Vec<u32> {
        let now_ms = self.flow.facts.now_ms;
        let mut unsent = Vec::new();
        self.flow.asks = Asks::DeletesOnly;
        for server in 0..self.flow.servers.len() as u32 {
            let patience_ms = self.flow.servers[server as usize].known.timeout_ms;
            while let Some((origin, _)) = self.flow.servers[server as usize].lane.give_up(now_ms, patience_ms)
            {
                if !unsent.contains(&server) && !self.unsent(server).is_empty() {
                    unsent.push(server);
                }
                if let Some(origin) = origin {
                    self.answer(server, origin, &Answer::of(Outcome::Timeout));
                }
            }
            while let Some(lost) = self.flow.servers[server as usize].datagrams.give_up(now_ms, patience_ms) {
                for origin in lost.keys {
                    self.answer(server, origin, &Answer::of(Outcome::Timeout));
                }
            }
        }
        let longest_ms = self.flow.servers.iter().map(|it| it.known.timeout_ms).max().unwrap_or(0);
        self.end_waits(now_ms.saturating_sub(longest_ms));
        self.flow.asks = Asks::Anything;
        unsent
    }

    /// Gives up what a server was asked too long ago. A batch counts as one failure of the server: it was one to it.
    fn sweep(&mut self, server: u32, now_ms: u64) -> Option<Fault> {
        let (mut is_late, mut is_probe) = (false, false);
        let patience_ms = self.flow.servers[server as usize].known.timeout_ms;
        while let Some((origin, era)) = self.flow.servers[server as usize].lane.give_up(now_ms, patience_ms) {
            if !is_late {
                self.flow.servers[server as usize].known.note_timeout(patience_ms);
            }
            is_late = true;
            let Some(origin) = origin else {
                is_probe = true;
                continue;
            };
            self.flow.counts.timeouts.add(1);
            self.flow.leaving.lost.push(era);
            self.answer(server, origin, &Answer::of(Outcome::Timeout));
        }
        let it = &mut self.flow.servers[server as usize];
        it.sweeps += usize::from(is_late);
        let is_stuck = is_late && (is_probe || it.sweeps >= SWEEPS_MAX || !it.lane.unsent().is_empty());
        while let Some(lost) = self.flow.servers[server as usize].datagrams.give_up(now_ms, patience_ms) {
            if !is_late {
                self.flow.servers[server as usize].known.note_timeout(patience_ms);
            }
            is_late = true;
            self.flow.counts.udp_lost.add(lost.keys.len());
            self.lose(server, lost);
        }
        if is_late {
            let it = &mut self.flow.servers[server as usize];
            let prober = it.known.health.record_soft_failure(&HEALTH);
            it.begin_probes(prober, now_ms);
        }
        is_stuck.then_some(Fault::Gone)
    }

    /// Asks servers that are out whether they are back, if it is time to.
    pub(in crate::pools) fn probe(&mut self) {
        let now_ms = self.flow.facts.now_ms;
        for (number, it) in (0..).zip(&mut self.flow.servers) {
            if it.known.health.is_up() || it.used == Used::Was {
                continue;
            }
            self.flow.random = self.flow.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let probes = &mut *it.known.probes();
            let is_due = match probes {
                // A reply to another thread cleared the schedule just as the server was taken out of service.
                None => {
                    *probes = Some(ProbeSchedule::begin(now_ms, &HEALTH));
                    false
                }
                Some(probes) if now_ms >= probes.next_ms => {
                    probes.advance(now_ms, &HEALTH, self.flow.random >> 8);
                    true
                }
                _ => false,
            };
            if is_due && it.lane.outstanding() == 0 {
                self.flow.counts.probes.add(1);
                let connected = if it.link == Link::Up { Connected::Yes } else { Connected::No };
                it.lane.push_probe(now_ms, connected, self.flow.era);
                self.flow.dirty.push(number);
            }
        }
    }
}

impl Upstream {
    /// When something of it is to be given up.
    fn deadline(&self) -> Option<u64> {
        let patience_ms = self.known.timeout_ms;
        let connection = match self.link {
            Link::Begins(since) => Some(since + self.connect_patience_ms()),
            Link::Closed | Link::Up => None,
        };
        let all = [connection, self.lane.deadline(patience_ms), self.datagrams.deadline(patience_ms)];
        all.into_iter().flatten().min()
    }

    pub(super) fn connect_patience_ms(&self) -> u64 {
        self.known.connect_timeout_ms.min(self.known.timeout_ms)
    }
}
