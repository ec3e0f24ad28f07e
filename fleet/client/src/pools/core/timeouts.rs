//! Timeouts of requests, waits of route handles, and probes.

use super::pipeline::Connected;
use super::{Connection, Core, Fault, HEALTH, Permitted, Upstream, Used};
use guira_routing::{Answer, Outcome};
use guira_sync::simulated::sometimes;
use guira_upstream::ProbeSchedule;

/// A connection is closed after requests have timed out this many times without a reply in between.
const TIMEOUTS_MAX: usize = 3;

impl Core {
    /// When a request times out, or a route handle continues.
    pub(in crate::pools) fn deadline(&self) -> Option<u64> {
        let servers = self.flow.servers.iter().filter_map(Upstream::deadline);
        servers.chain(self.flow.waits.iter().map(|(due, _)| *due)).min()
    }

    /// Times requests out, and continues route handles whose waiting time is over. Returns
    /// connections to be closed.
    pub(in crate::pools) fn expire(&mut self) -> Vec<(u32, Fault)> {
        let now_ms = self.flow.facts.now_ms;
        let mut faults = Vec::new();
        for server in 0..self.flow.servers.len() as u32 {
            let it = &self.flow.servers[server as usize];
            if it.deadline().is_none_or(|deadline| now_ms < deadline) {
                continue;
            }
            if let Connection::Connecting { since_ms } = it.connection
                && now_ms >= since_ms + it.connect_timeout_ms()
            {
                faults.push((server, Fault::ConnectTimeout));
                continue;
            }
            faults.extend(self.time_out(server, now_ms).map(|fault| (server, fault)));
        }
        self.end_waits(now_ms);
        faults
    }

    /// Continues route handles that were to wait until `then_ms` at most.
    fn end_waits(&mut self, then_ms: u64) {
        while let Some(place) = self.flow.waits.iter().position(|(due, _)| *due <= then_ms) {
            let (_, origin) = self.flow.waits.swap_remove(place);
            self.flow.source = None;
            self.walks.answer(origin, &Answer::of(Outcome::Ok), &mut self.flow);
        }
    }

    /// Times out requests of earlier calls, before this thread reads their replies: a request that
    /// follows them, such as a store of an item that was found, may be outdated. This is no failure
    /// of the server. Returns servers to which not all of it was sent.
    pub(in crate::pools) fn fail_overdue(&mut self) -> Vec<u32> {
        let now_ms = self.flow.facts.now_ms;
        let mut unsent = Vec::new();
        self.flow.permitted = Permitted::Deletes;
        for server in 0..self.flow.servers.len() as u32 {
            let timeout_ms = self.flow.servers[server as usize].known.timeout_ms;
            while let Some((origin, _)) =
                self.flow.servers[server as usize].pipeline.time_out(now_ms, timeout_ms)
            {
                if !unsent.contains(&server) && !self.unsent(server).is_empty() {
                    unsent.push(server);
                }
                if let Some(origin) = origin {
                    self.answer(server, origin, &Answer::of(Outcome::Timeout));
                }
            }
            while let Some(lost) = self.flow.servers[server as usize].datagrams.give_up(now_ms, timeout_ms) {
                for origin in lost.keys {
                    self.answer(server, origin, &Answer::of(Outcome::Timeout));
                }
            }
        }
        let longest_ms = self.flow.servers.iter().map(|it| it.known.timeout_ms).max().unwrap_or(0);
        self.end_waits(now_ms.saturating_sub(longest_ms));
        self.flow.permitted = Permitted::All;
        unsent
    }

    /// Times out the requests to a server that have waited too long. Requests that time out
    /// together count as one failure of the server.
    fn time_out(&mut self, server: u32, now_ms: u64) -> Option<Fault> {
        let (mut has_timed_out, mut has_probe) = (false, false);
        let timeout_ms = self.flow.servers[server as usize].known.timeout_ms;
        while let Some((origin, era)) =
            self.flow.servers[server as usize].pipeline.time_out(now_ms, timeout_ms)
        {
            if !has_timed_out {
                self.flow.servers[server as usize].known.note_timeout(timeout_ms);
            }
            has_timed_out = true;
            let Some(origin) = origin else {
                has_probe = true;
                continue;
            };
            self.flow.counts.timeouts.add(1);
            self.flow.leaving.lost.push(era);
            self.answer(server, origin, &Answer::of(Outcome::Timeout));
        }
        let it = &mut self.flow.servers[server as usize];
        it.timeouts_in_a_row += usize::from(has_timed_out);
        let is_blocked = it.timeouts_in_a_row >= TIMEOUTS_MAX || !it.pipeline.unsent().is_empty();
        let is_stuck = has_timed_out && (has_probe || is_blocked);
        while let Some(lost) = self.flow.servers[server as usize].datagrams.give_up(now_ms, timeout_ms) {
            if !has_timed_out {
                self.flow.servers[server as usize].known.note_timeout(timeout_ms);
            }
            has_timed_out = true;
            self.flow.counts.udp_lost.add(lost.keys.len());
            self.lose(server, lost);
        }
        if has_timed_out {
            let it = &mut self.flow.servers[server as usize];
            let prober = it.known.health.record_soft_failure(&HEALTH);
            it.begin_probes(prober, now_ms);
        }
        is_stuck.then_some(Fault::Closed)
    }

    /// Servers that are due for a probe and have left earlier requests without a reply. Their
    /// connections may be dead: a server that loses power tells its clients nothing.
    pub(in crate::pools) fn unanswered(&self) -> Vec<u32> {
        let now_ms = self.flow.facts.now_ms;
        let is_unanswered = |it: &Upstream| {
            let is_due = || it.known.probes().as_ref().is_some_and(|schedule| now_ms >= schedule.next_ms);
            let is_silent =
                it.connection == Connection::Up && it.pipeline.has_unanswered() && it.pipeline.waiting() == 0;
            is_silent && it.used == Used::Is && !it.known.health.is_up() && is_due()
        };
        let numbered = (0..).zip(&self.flow.servers);
        numbered.filter(|(_, it)| is_unanswered(it)).map(|(number, _)| number).collect()
    }

    /// Pushes the probes that are due.
    pub(in crate::pools) fn probe(&mut self) {
        let now_ms = self.flow.facts.now_ms;
        for (number, it) in (0..).zip(&mut self.flow.servers) {
            if it.known.health.is_up() || it.used == Used::Was {
                continue;
            }
            self.flow.random = self.flow.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let schedule = &mut *it.known.probes();
            let is_due = match schedule {
                // A reply to another thread cleared the schedule just as the server was taken out
                // of service.
                None => {
                    *schedule = Some(ProbeSchedule::begin(now_ms, &HEALTH));
                    false
                }
                Some(schedule) if now_ms >= schedule.next_ms => {
                    schedule.advance(now_ms, &HEALTH, self.flow.random >> 8);
                    true
                }
                _ => false,
            };
            if is_due && it.pipeline.waiting() == 0 {
                sometimes("client-probe-sent");
                self.flow.counts.probes.add(1);
                let is_up = it.connection == Connection::Up;
                let connected = if is_up { Connected::Yes } else { Connected::No };
                it.pipeline.push_probe(now_ms, connected, self.flow.era);
                self.flow.dirty.push(number);
            }
        }
    }
}

impl Upstream {
    /// The time of the next timeout of a server.
    fn deadline(&self) -> Option<u64> {
        let timeout_ms = self.known.timeout_ms;
        let connection = match self.connection {
            Connection::Connecting { since_ms } => Some(since_ms + self.connect_timeout_ms()),
            Connection::Closed | Connection::Up => None,
        };
        let all = [connection, self.pipeline.deadline(timeout_ms), self.datagrams.deadline(timeout_ms)];
        all.into_iter().flatten().min()
    }

    pub(super) fn connect_timeout_ms(&self) -> u64 {
        self.known.connect_timeout_ms.min(self.known.timeout_ms)
    }
}
