//! What one worker reports about the health of a server, and when it probes the server.

use guira_sync::simulated::{is_planted, sometimes};
use guira_upstream::{Health, HealthOptions, ProbeSchedule, Prober, Tko};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct HealthMonitor {
    health: Arc<Health>,
    options: HealthOptions,
    /// Present while this worker probes the server.
    schedule: Option<ProbeSchedule>,
}

impl HealthMonitor {
    pub(super) fn new(health: Arc<Health>, options: HealthOptions) -> Self {
        HealthMonitor { health, options, schedule: None }
    }

    /// A monitor of the same server without probes.
    pub(super) fn renewed(&self) -> Self {
        Self::new(self.health.clone(), self.options)
    }

    /// A monitor for a connection whose failures say nothing about the server.
    pub(super) fn detached(&self) -> Self {
        Self::new(Arc::default(), HealthOptions { timeouts_until_tko: None, ..self.options })
    }

    pub(super) fn is_of(&self, health: &Arc<Health>) -> bool {
        Arc::ptr_eq(&self.health, health)
    }

    #[inline]
    pub(super) fn tko(&self) -> Option<Tko> {
        self.health.tko()
    }

    pub(super) fn is_up(&self) -> bool {
        self.health.is_up()
    }

    #[inline]
    pub(super) fn record_success(&self) {
        self.health.record_success();
    }

    /// Records a timeout or an invalid reply. Returns why the server is out of service if this
    /// worker has just taken it out.
    pub(super) fn record_soft_failure(&mut self, now_ms: u64) -> Option<Tko> {
        let prober = self.health.record_soft_failure(&self.options);
        self.probe_as(prober, now_ms)
    }

    /// Records a failed attempt to connect. Returns the same as [`Self::record_soft_failure`].
    pub(super) fn record_hard_failure(&mut self, now_ms: u64) -> Option<Tko> {
        let prober = self.health.record_hard_failure(&self.options);
        self.probe_as(prober, now_ms)
    }

    fn probe_as(&mut self, prober: Option<Prober>, now_ms: u64) -> Option<Tko> {
        prober.filter(|prober| *prober == Prober::Caller)?;
        sometimes("server-out-of-service");
        self.schedule = Some(ProbeSchedule::begin(now_ms, &self.options));
        Some(self.health.tko().unwrap_or(Tko::Hard))
    }

    pub(super) fn next_probe_ms(&self) -> Option<u64> {
        self.schedule.map(|schedule| schedule.next_ms)
    }

    /// Makes the next probe due: the server may be reachable again.
    pub(super) fn probe_now(&mut self, now_ms: u64) {
        if let Some(schedule) = &mut self.schedule {
            schedule.next_ms = now_ms;
        }
    }

    /// Continues the probes of another monitor of the same server.
    pub(super) fn take_probes(&mut self, other: &mut HealthMonitor) {
        self.schedule = other.schedule.take();
    }

    /// Whether a probe is due. The next one is scheduled then.
    pub(super) fn is_probe_due(&mut self, now_ms: u64, random: u32) -> bool {
        if self.health.is_up() || is_planted("no-probes") {
            self.schedule = None;
        }
        let Some(schedule) = self.schedule.as_mut().filter(|schedule| now_ms >= schedule.next_ms) else {
            return false;
        };
        sometimes("probe-sent");
        schedule.advance(now_ms, &self.options, random);
        true
    }
}
