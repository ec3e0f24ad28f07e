//! `/status.json`: what the page of the admin listener shows. docs/guide/run.md describes it.

use super::Admin;
use crate::VERSION;
use crate::latency::Series;
use guira_advice::{Advice, Advisor, SCALES};
use guira_commands::CommandCount;
use guira_contract::{ClassStats, EngineStats};
use guira_sync::metrics::Unit;
use guira_web::Usage;
use serde_json::{Map, Value, json};

impl Admin {
    /// The state of the server; `fault` is why it is not ready, if it is not.
    pub(crate) fn status(&self, fault: Option<String>) -> Value {
        let stats = self.control.stats();
        let figures = self.figures(&stats);
        let mut lines = Map::new();
        self.each_general(&figures, |metric, value| {
            if metric.unit != Unit::Text {
                lines.insert(metric.name.to_owned(), number(value));
            }
        });
        let (start, region, items) = self.settings.start();
        json!({
            "version": VERSION,
            "time_ns": u64::try_from(self.statistics.uptime().as_nanos()).unwrap_or(u64::MAX),
            "ready": fault,
            "listen": self.settings.listen(),
            "engine": self.engine_json(),
            "policy": self.policy_json(),
            "start": { "start": start, "region": region, "items": items },
            "stats": lines,
            "memory": self.memory_json(&stats, figures.memory),
            "latency": self.latency_json(),
            "classes": stats.classes.iter().map(class_json).collect::<Vec<_>>(),
            "workers": self.workers_json(),
            "mrc": self.observers.advisor.as_ref().and_then(|advisor| self.mrc_json(advisor)),
        })
    }

    fn engine_json(&self) -> Value {
        let choice = &self.settings.choice;
        json!({ "name": self.options.engine, "index": choice.index(), "access": choice.access() })
    }

    fn policy_json(&self) -> Value {
        let (now, next) = self.control.policy();
        let auto = self.auto.describe();
        json!({
            "now": now.to_string(),
            "next": next.map(|next| next.to_string()),
            "auto": auto.is_auto,
            "changes": auto.changes,
            "reason": auto.reason,
        })
    }

    fn memory_json(&self, stats: &EngineStats, ceiling: u64) -> Value {
        let parts = self.memory_parts(ceiling).into_iter();
        json!({
            "limit": ceiling,
            "resident": Usage::now().resident,
            "engine_limit": stats.memory_limit,
            "engine_used": stats.memory_used,
            "index": stats.index_bytes,
            "parts": parts.map(|(part, bytes)| json!({ "part": part, "bytes": bytes })).collect::<Vec<_>>(),
        })
    }

    fn latency_json(&self) -> Value {
        let all = Series::COMMANDS.into_iter().chain([Series::Queue, Series::Round]);
        let named = all.map(|series| {
            let histogram = self.statistics.histogram(series);
            let buckets: Vec<(u64, u64)> = histogram.buckets().collect();
            (series.name().to_owned(), json!({ "sum_ns": histogram.sum_ns(), "buckets": buckets }))
        });
        Value::Object(named.collect())
    }

    fn workers_json(&self) -> Vec<Value> {
        let of_worker = self.statistics.workers().iter().map(|worker| {
            let commands = &worker.commands;
            json!({
                "gets": commands.get(CommandCount::CmdGet),
                "sets": commands.get(CommandCount::CmdSet),
                "rounds": worker.latencies.rounds(),
            })
        });
        of_worker.collect()
    }

    fn mrc_json(&self, advisor: &Advisor) -> Option<Value> {
        self.auto.pulse(self.clock.now());
        let Advice { seconds, reads, sampled_reads, sample, measured, uncertainty, policies, .. } =
            advisor.advice()?;
        let policies = policies.iter().map(|one| {
            json!({ "policy": one.policy.to_string(), "served": one.is_served, "hit_ratios": one.hit_ratios })
        });
        Some(json!({
            "seconds": seconds,
            "reads": reads,
            "sampled_reads": sampled_reads,
            "objects": sample.objects,
            "measured": measured,
            "scales": SCALES,
            "uncertainty": uncertainty,
            "policies": policies.collect::<Vec<_>>(),
        }))
    }
}

/// The number in a line of `stats`.
fn number(text: &str) -> Value {
    text.parse::<i64>()
        .map(Value::from)
        .or_else(|_| text.parse::<f64>().map(Value::from))
        .unwrap_or(Value::Null)
}

fn class_json(class: &ClassStats) -> Value {
    json!({
        "id": class.id,
        "chunk_size": class.chunk_size,
        "chunks_per_page": class.chunks_per_page,
        "pages": class.pages,
        "items": class.items,
        "bytes": class.bytes,
        "used_chunks": class.used_chunks,
        "free_chunks": class.free_chunks,
        "age": class.age,
        "age_weight_ppm": class.age_weight_ppm,
        "evicted": class.counts.evicted,
        "evicted_time": class.counts.evicted_time,
    })
}
