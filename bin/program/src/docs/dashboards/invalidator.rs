//! The dashboard of invalidators.

use super::Unit::{Bytes, Count, Flag, PerSecond, Seconds};
use super::{Dashboard, Panel, Row};

pub(super) const DASHBOARD: Dashboard = Dashboard {
    file: "guira-invalidator.json",
    title: "Guira: invalidators",
    of_all: "guira_invalidator_ready",
    rows: ROWS,
};

const ROWS: &[Row] =
    &[Row("Service", SERVICE), Row("Database", DATABASE), Row("Targets", TARGETS), Row("Faults", FAULTS)];

const SERVICE: &[Panel] = &[
    Panel("Ready", Flag, &[("guira_invalidator_ready{$i}", "{{instance}}")]),
    Panel("Lag", Seconds, &[("guira_invalidator_lag_seconds{$i}", "{{instance}}")]),
    Panel(
        "Deletes",
        PerSecond,
        &[
            ("rate(guira_invalidator_deletes_total{$i}[$r])", "{{instance}} {{target}} acknowledged"),
            ("rate(guira_invalidator_delete_hits_total{$i}[$r])", "{{instance}} {{target}} removed an item"),
        ],
    ),
];

const DATABASE: &[Panel] = &[
    Panel("Connected to the source", Flag, &[("guira_invalidator_source_connected{$i}", "{{instance}}")]),
    Panel("Silence of the source", Seconds, &[("guira_invalidator_silence_seconds{$i}", "{{instance}}")]),
    Panel(
        "Log of the database",
        Bytes,
        &[
            ("guira_invalidator_lag_bytes{$i}", "{{instance}} not yet delivered"),
            ("guira_invalidator_retained_log_bytes{$i}", "{{instance}} kept for the slot"),
        ],
    ),
    Panel(
        "Changes",
        PerSecond,
        &[
            ("rate(guira_invalidator_transactions_total{$i}[$r])", "{{instance}} transactions"),
            ("rate(guira_invalidator_rows_total{$i}[$r])", "{{instance}} rows"),
            ("rate(guira_invalidator_keys_total{$i}[$r])", "{{instance}} keys"),
        ],
    ),
    Panel(
        "Saved positions",
        PerSecond,
        &[("rate(guira_invalidator_position_saves_total{$i}[$r])", "{{instance}}")],
    ),
];

const TARGETS: &[Panel] = &[
    Panel("Target up", Flag, &[("guira_invalidator_target_up{$i}", "{{instance}} {{target}}")]),
    Panel("Spool", Bytes, &[("guira_invalidator_spool_bytes{$i}", "{{instance}} {{target}}")]),
    Panel(
        "Failed deliveries",
        PerSecond,
        &[("rate(guira_invalidator_target_failures_total{$i}[$r])", "{{instance}} {{target}}")],
    ),
    Panel(
        "Second deletes",
        PerSecond,
        &[
            ("rate(guira_invalidator_again_deletes_total{$i}[$r])", "{{instance}} {{target}} acknowledged"),
            ("rate(guira_invalidator_again_hits_total{$i}[$r])", "{{instance}} {{target}} removed an item"),
        ],
    ),
];

const FAULTS: &[Panel] = &[
    Panel(
        "Changes that may be missed",
        Count,
        &[
            ("increase(guira_invalidator_unseen_statements_total{$i}[1h])", "{{instance}} unseen statements"),
            (
                "increase(guira_invalidator_unfilled_templates_total{$i}[1h])",
                "{{instance}} unfilled templates",
            ),
            ("increase(guira_invalidator_skipped_lines_total{$i}[1h])", "{{instance}} skipped lines"),
            ("increase(guira_invalidator_refused_keys_total{$i}[1h])", "{{instance}} invalid keys"),
            (
                "increase(guira_invalidator_rejected_deletes_total{$i}[1h])",
                "{{instance}} {{target}} rejected deletes",
            ),
        ],
    ),
    Panel(
        "Gaps and failures of the source",
        Count,
        &[
            ("increase(guira_invalidator_gaps_total{$i}[1h])", "{{instance}} gaps"),
            ("increase(guira_invalidator_source_failures_total{$i}[1h])", "{{instance}} lost connections"),
        ],
    ),
    Panel(
        "Failed writes",
        Count,
        &[
            ("increase(guira_invalidator_position_save_failures_total{$i}[1h])", "{{instance}} positions"),
            ("increase(guira_invalidator_spool_failures_total{$i}[1h])", "{{instance}} {{target}} spool"),
            ("increase(guira_invalidator_reload_failures_total{$i}[1h])", "{{instance}} reloads"),
        ],
    ),
];
