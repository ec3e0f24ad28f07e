//! `cache_memlimit`: changes the memory limit of the process.

use super::answer::{Answer, ERROR, OK, unsigned};
use crate::memory_split::{MemorySplit, memory_for};
use crate::options::Options;
use crate::parts::Parts;
use crate::size::Size;
use guira_contract::{Control, ResizeError};
use guira_memory::MIB;
use guira_serving::{Host, RateLimited};
use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::clock::CoarseClock;
use std::sync::Arc;

#[derive(Debug)]
pub(in crate::admin) struct MemoryLimit {
    control: Arc<dyn Control>,
    options: Arc<Options>,
    host: Arc<Host>,
    clock: CoarseClock,
    log_limit: Arc<RateLimited>,
    /// The limit of the process, in bytes. Relaxed: it is only shown.
    limit: AtomicU64,
    /// The last change of the limit left it below the used memory. Relaxed: it only limits the log.
    is_shrinking: AtomicBool,
}

impl MemoryLimit {
    pub(super) fn new(control: Arc<dyn Control>, parts: &Parts, log_limit: Arc<RateLimited>) -> Self {
        MemoryLimit {
            control,
            options: parts.options.clone(),
            host: parts.host.clone(),
            clock: parts.clock.clone(),
            log_limit,
            limit: AtomicU64::new(parts.options.memory.0 as u64),
            is_shrinking: AtomicBool::new(false),
        }
    }

    /// The limit of the process, in bytes.
    pub(in crate::admin) fn bytes(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn run(&self, words: &[&str]) -> Answer {
        match words.first().and_then(|word| unsigned(word)) {
            Some(0..8) => "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m".into(),
            Some(1_000_000_001..) => "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes".into(),
            Some(mebibytes) => self.resize(Size(mebibytes as usize * MIB)),
            None => ERROR.into(),
        }
    }

    /// Sets the limit of the process to `wanted`, or to the lowest possible one.
    fn resize(&self, wanted: Size) -> Answer {
        let options = &self.options;
        let resize = |memory: Size| {
            let division = MemorySplit::of_running(options, memory.0);
            self.control.resize(division.engine).map(|()| (memory, division))
        };
        let resized = match resize(wanted) {
            // Do not raise the limit instead.
            Err(ResizeError::TooSmall { least, .. }) => {
                let present = self.limit.load(Ordering::Relaxed) as usize;
                resize(Size(memory_for(options, least).0.min(present)))
            }
            resized => resized,
        };
        let is_logged = self.log_limit.is_due(self.clock.now());
        match resized {
            Ok((memory, division)) => {
                self.limit.store(memory.0 as u64, Ordering::Relaxed);
                self.host.budget.resize(division.conn_limits());
                self.check_excess();
                if is_logged && memory > wanted {
                    // Operator: Nothing: the limit is now the smallest possible.
                    tracing::warn!("cannot shrink memory to {wanted}: the limit is now {memory}");
                } else if is_logged {
                    tracing::info!("the memory limit is now {memory}");
                    division.report(memory);
                }
                OK.into()
            }
            Err(error) => {
                if is_logged {
                    // Operator: The message has the reason; raise `reserve` to allow more.
                    tracing::warn!("cannot change the memory limit: {}", self.why_not(wanted, error));
                }
                "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust".into()
            }
        }
    }

    /// The reason for `error`, in terms of the limit of the process.
    fn why_not(&self, wanted: Size, error: ResizeError) -> String {
        let options = &self.options;
        match error {
            ResizeError::TooSmall { least, .. } => {
                let least = memory_for(options, least);
                format!("{wanted} is too little for what cannot be given back: at least {least}")
            }
            ResizeError::TooBig { most, .. } => {
                let most = Size(memory_for(options, most + 1).0 - MIB);
                format!("{wanted} is more than was reserved at the start: at most {most}")
            }
            ResizeError::NoRoom { .. } => format!("{wanted} is too much: {error}"),
        }
    }

    /// Checks whether more memory is in use than the limit allows. If so, returns how much, and the limit, in MiB.
    pub(in crate::admin) fn check_excess(&self) -> Option<[u64; 2]> {
        let stats = self.control.stats();
        let is_over = stats.memory_used > stats.memory_limit;
        self.is_shrinking.store(is_over, Ordering::Relaxed);
        is_over.then(|| [stats.memory_used, stats.memory_limit].map(|bytes| bytes / MIB as u64))
    }

    /// Logs how many items are left once no more memory is in use than the limit allows.
    pub(in crate::admin) fn log_shrinking(&self) {
        if !self.is_shrinking.load(Ordering::Relaxed) {
            return;
        }
        let stats = self.control.stats();
        if stats.memory_used <= stats.memory_limit {
            self.is_shrinking.store(false, Ordering::Relaxed);
            tracing::info!("memory is below its new limit; {} items are left", stats.items);
        }
    }
}
