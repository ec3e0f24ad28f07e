//! Metrics that no row of `stats` has: what the exporter computes or takes from settings, and what only `/metrics` shows.

use super::differences::Differing;
use super::lines::{Figures, ITEMS, ITEMS_LAST, SLABS, SLABS_LAST};
use super::naming::{Scope, add};
use super::{Admin, classes};
use crate::VERSION;
use crate::latency::Series;
use crate::memory_split::MemorySplit;
use guira_commands::{BY_CLASS, CommandCount};
use guira_contract::{ClassStats, EngineStats, Opening};
use guira_web::{Exposition, Family, Form, Usage};

/// Makes a constant for each family, and the list of all.
macro_rules! derived {
    ($($NAME:ident = $name:literal [$($label:literal),*], $kind:literal, $meaning:literal;)*) => {
        $(const $NAME: Family =
            Family { name: $name, labels: &[$($label),*], meaning: $meaning, kind: $kind };)*
        /// All families that no row of `stats` has.
        pub const DERIVED: &[Family] = &[$($NAME),*];
    };
}

derived! {
    UP = "memcached_up" [], "gauge", "1: the server replies.";
    COMMANDS = "memcached_commands_total" ["command", "status"], "counter", "With command=set and status=hit: stores, except those with cas.";
    SLAB_COMMANDS = "memcached_slab_commands_total" ["slab", "command", "status"], "counter", "With command=set and status=hit: the same for a class, estimated.";
    CRAWLER_ENABLED = "memcached_lru_crawler_enabled" [], "gauge", "Whether the crawler may run.";
    CRAWLER_SLEEP = "memcached_lru_crawler_sleep" [], "gauge", "The value set by lru_crawler sleep; without effect.";
    CRAWLER_TO_CRAWL = "memcached_lru_crawler_to_crawl" [], "gauge", "The value set by lru_crawler tocrawl; without effect.";
    MAINTAINER = "memcached_lru_crawler_maintainer_thread" [], "gauge", "Always 0.";
    HOT_PERCENT = "memcached_lru_crawler_hot_percent" [], "gauge", "The share of HOT, with the policy seg-lru; otherwise 0.";
    WARM_PERCENT = "memcached_lru_crawler_warm_percent" [], "gauge", "The share of WARM, with the policy seg-lru; otherwise 0.";
    HOT_FACTOR = "memcached_lru_crawler_hot_max_factor" [], "gauge", "The age of HOT in ages of COLD, with the policy seg-lru; otherwise 0.";
    WARM_FACTOR = "memcached_lru_crawler_warm_max_factor" [], "gauge", "The age of WARM in ages of COLD, with the policy seg-lru; otherwise 0.";
    ENGINE_INFO = "guira_engine_info" ["version", "engine", "index", "access"], "gauge", "1: the engine and its options at the start.";
    POLICY_INFO = "guira_policy_info" ["policy", "options"], "gauge", "1: the eviction policy.";
    POLICY_SWITCHING = "guira_policy_switching" [], "gauge", "Whether the server is changing to another policy.";
    POLICY_AUTO = "guira_policy_auto" [], "gauge", "Whether the server chooses its eviction policy.";
    POLICY_CHANGES = "guira_policy_changes_total" [], "counter", "Automatic changes of the eviction policy.";
    READY = "guira_ready" [], "gauge", "Whether /ready returns 200.";
    START_TIME = "guira_start_time_seconds" [], "gauge", "Start time of the server, since 1970.";
    START_INFO = "guira_start_info" ["start", "region"], "gauge", "1: whether the start was warm or cold, and the state of the region: new, restored, salvaged, emptied; none without a region.";
    RESTORED = "guira_restored_items" [], "gauge", "Items that the start restored from the region.";
    MEMORY_PART = "guira_memory_part_bytes" ["part"], "gauge", "Division of the memory limit of the process.";
    RESIDENT = "guira_process_resident_memory_bytes" [], "gauge", "Resident memory of the process, including a region.";
    EVICTIONS = "guira_evictions_total" ["reason"], "counter", "Items evicted for lack of memory (memory) or of room in the index (index).";
    WORKER_GETS = "guira_worker_gets_total" ["worker"], "counter", "Requested keys, by worker.";
    WORKER_SETS = "guira_worker_sets_total" ["worker"], "counter", "Stores, by worker.";
    WORKER_ROUNDS = "guira_worker_rounds_total" ["worker"], "counter", "Rounds of a worker: polls of its sockets.";
    DURATION = "guira_command_duration_seconds" ["command"], "histogram", "Service time: from the start of a batch of requests until all of them are executed. Sampled: one batch in 16.";
    QUEUE = "guira_queue_duration_seconds" [], "histogram", "Time from a worker's poll of its sockets until a connection's turn. Sampled: one round in 16.";
    ROUND = "guira_round_duration_seconds" [], "histogram", "Duration of a worker's round: new input waits at most this long before its queue time begins. Sampled: one round in 16.";
}

impl Admin {
    /// The text of `/metrics`.
    pub(crate) fn metrics(&self, form: Form, is_ready: bool) -> String {
        let since = self.differences.resets();
        let stats = self.control.stats();
        let figures = self.figures(&stats);
        let mut out = Exposition::default();
        out.sample(UP, &[], 1);
        self.each_general(&figures, |metric, value| add(&mut out, metric, Scope::Server, &[], value));
        for line in SLABS_LAST {
            let value = (line.value)(&figures).unwrap_or_default();
            add(&mut out, &line.metric, Scope::Server, &[], &value);
        }
        let counted = |what: CommandCount| figures.counted.commands[what as usize];
        let with_cas = [CommandCount::CasMisses, CommandCount::CasHits, CommandCount::CasBadval];
        let sets = counted(CommandCount::CmdSet).saturating_sub(with_cas.into_iter().map(counted).sum());
        let evictions = stats.evictions.saturating_sub(stats.index_evictions);
        let shown = self.differences.show(since, Differing { sets, evictions });
        out.sample(COMMANDS, &["set", "hit"], shown.sets);
        self.add_settings(&mut out);
        stats.classes.iter().for_each(|class| self.add_class(&mut out, class));
        self.add_start(&mut out, is_ready);
        self.add_memory(&mut out, &figures);
        out.sample(EVICTIONS, &["memory"], shown.evictions);
        out.sample(EVICTIONS, &["index"], stats.index_evictions);
        self.add_policy(&mut out, &stats);
        self.add_workers(&mut out);
        out.text(form)
    }

    /// The metrics that memcached's exporter reads from `stats settings`: like the exporter, only
    /// while the crawler is enabled.
    fn add_settings(&self, out: &mut Exposition) {
        if !self.verbs.crawler.is_enabled() {
            return;
        }
        out.sample(CRAWLER_ENABLED, &[], 1);
        out.sample(CRAWLER_SLEEP, &[], self.verbs.crawler.sleep());
        out.sample(CRAWLER_TO_CRAWL, &[], self.verbs.crawler.tocrawl());
        out.sample(MAINTAINER, &[], 0);
        let lists = self.verbs.lru.settings();
        for (what, setting) in [
            (HOT_PERCENT, "hot_lru_pct"),
            (WARM_PERCENT, "warm_lru_pct"),
            (HOT_FACTOR, "hot_max_factor"),
            (WARM_FACTOR, "warm_max_factor"),
        ] {
            if let Some((_, value)) = lists.iter().find(|(name, _)| *name == setting) {
                out.sample(what, &[], value);
            }
        }
    }

    fn add_class(&self, out: &mut Exposition, class: &ClassStats) {
        let id = class.id.to_string();
        let slab = [("slab", id.as_str())];
        for line in ITEMS.iter().chain(ITEMS_LAST).chain(SLABS) {
            add(out, &line.metric, Scope::Class, &slab, &(line.value)(class).to_string());
        }
        for (metric, value) in class.counts.rows() {
            add(out, metric, Scope::Class, &slab, &value.to_string());
        }
        for metric in &classes::ABSENT {
            if metric.exported.is_some() {
                add(out, metric, Scope::Class, &slab, "0");
            }
        }
        let sum = |what| self.statistics.class_sum(class.id, what);
        for what in BY_CLASS {
            let metric = &CommandCount::ROWS[what as usize];
            add(out, metric, Scope::CommandsOfClass, &slab, &sum(what).to_string());
        }
        out.sample(SLAB_COMMANDS, &[&id, "set", "hit"], self.statistics.plain_sets(class.id));
    }

    fn add_start(&self, out: &mut Exposition, is_ready: bool) {
        out.sample(READY, &[], u32::from(is_ready));
        let clock = &self.clock;
        let started = clock.now_unix().saturating_sub(self.statistics.uptime().as_secs());
        out.sample(START_TIME, &[], started);
        let (start, region, items) = self.settings.start();
        out.sample(START_INFO, &[start, region], 1);
        out.sample(RESTORED, &[], items);
    }

    fn add_memory(&self, out: &mut Exposition, figures: &Figures<'_>) {
        for (part, bytes) in self.memory_parts(figures.memory) {
            out.sample(MEMORY_PART, &[part], bytes);
        }
        out.sample(RESIDENT, &[], Usage::now().resident);
    }

    /// How a ceiling of this many bytes is divided.
    pub(super) fn memory_parts(&self, memory: u64) -> Vec<(&'static str, usize)> {
        MemorySplit::of_running(&self.options, memory as usize).parts()
    }

    fn add_policy(&self, out: &mut Exposition, stats: &EngineStats) {
        let choice = &self.settings.choice;
        let access = choice.access().unwrap_or("");
        let names = [VERSION, self.options.engine.as_str(), &choice.index(), access];
        out.sample(ENGINE_INFO, &names, 1);
        let (policy, next) = self.control.policy();
        let options = policy.to_string();
        let options = options.split_once(':').map_or("", |(_, options)| options);
        out.sample(POLICY_INFO, &[&policy.name, options], 1);
        out.sample(POLICY_SWITCHING, &[], u32::from(next.is_some()));
        let auto = self.auto.describe();
        out.sample(POLICY_AUTO, &[], u32::from(auto.is_auto));
        out.sample(POLICY_CHANGES, &[], auto.changes);
        let hidden =
            EngineStats::ROWS.iter().filter(|metric| super::general::ELSEWHERE.contains(&metric.name));
        for metric in hidden {
            let value = stats.rows().find(|(row, _)| row.name == metric.name).map_or(0, |(_, value)| value);
            if metric.name != "region_no_room" {
                add(out, metric, Scope::Server, &[], &value.to_string());
            }
        }
    }

    fn add_workers(&self, out: &mut Exposition) {
        for (index, of_worker) in self.statistics.workers().iter().enumerate() {
            let worker = index.to_string();
            let commands = &of_worker.commands;
            out.sample(WORKER_GETS, &[&worker], commands.get(CommandCount::CmdGet));
            out.sample(WORKER_SETS, &[&worker], commands.get(CommandCount::CmdSet));
            out.sample(WORKER_ROUNDS, &[&worker], of_worker.latencies.rounds());
        }
        for series in Series::COMMANDS {
            let histogram = self.statistics.histogram(series);
            out.histogram(DURATION.name, DURATION.meaning, &[("command", series.name())], &histogram);
        }
        out.histogram(QUEUE.name, QUEUE.meaning, &[], &self.statistics.histogram(Series::Queue));
        out.histogram(ROUND.name, ROUND.meaning, &[], &self.statistics.histogram(Series::Round));
    }
}

/// Whether a start was warm, what it found of a region, and how many items.
pub(super) fn start_of(found: Option<&Opening>) -> (&'static str, &'static str, u64) {
    match found {
        None => ("cold", "none", 0),
        Some(Opening::New) => ("cold", "new", 0),
        Some(Opening::Emptied(_)) => ("cold", "emptied", 0),
        Some(Opening::Restored { items }) => ("warm", "restored", *items),
        Some(Opening::Salvaged { items, .. }) => ("warm", "salvaged", *items),
    }
}
