//! The dashboard of routers.

use super::Unit::{Bytes, BytesPerSecond, Count, Flag, PerSecond, Seconds, Share};
use super::{Dashboard, Panel, Row};

pub(super) const DASHBOARD: Dashboard = Dashboard {
    file: "guira-router.json",
    title: "Guira: routers",
    of_all: "guira_router_ready",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row("Service", SERVICE),
    Row("Servers", SERVERS),
    Row("Deletes that could not be delivered", DELETES),
    Row("Configuration and names", CONFIGURATION),
    Row("Process", PROCESS),
];

/// Outcomes that are failures, as in deploy/prometheus/guira.rules.yaml.
macro_rules! failed {
    () => {
        r#"outcome=~"timeout|connect_timeout|connect_error|busy|try_again|shutdown|tko|local_error|remote_error|deadline_exceeded""#
    };
}

const SERVICE: &[Panel] = &[
    Panel("Ready", Flag, &[("guira_router_ready{$i}", "{{instance}}")]),
    Panel(
        "Requests of clients",
        PerSecond,
        &[(
            "sum by (instance, op) (rate(guira_router_requests_total{$i}[$r])) > 0 or sum by (instance) (rate(guira_router_requests_total{$i}[$r]))",
            "{{instance}} {{op}}",
        )],
    ),
    Panel(
        "Failed requests of clients",
        Share,
        &[(
            concat!(
                "sum by (instance) (rate(guira_router_replies_total{",
                failed!(),
                ",$i}[$r])) / sum by (instance) (rate(guira_router_replies_total{$i}[$r]))"
            ),
            "{{instance}}",
        )],
    ),
    Panel(
        "Replies to clients by outcome",
        PerSecond,
        &[(
            "sum by (instance, outcome) (rate(guira_router_replies_total{$i}[$r])) > 0 or sum by (instance) (rate(guira_router_replies_total{$i}[$r]))",
            "{{instance}} {{outcome}}",
        )],
    ),
    Panel(
        "Clients",
        Count,
        &[
            ("guira_router_clients{$i}", "{{instance}} connections"),
            ("guira_router_clients_waiting{$i}", "{{instance}} waiting for the limit of requests"),
            ("guira_router_requests_processing{$i}", "{{instance}} requests in progress"),
        ],
    ),
    Panel(
        "Refused clients and requests",
        PerSecond,
        &[
            ("rate(guira_router_client_connections_rejected_total{$i}[$r])", "{{instance}} connections"),
            ("rate(guira_router_throttled_requests_total{$i}[$r])", "{{instance}} throttled requests"),
        ],
    ),
];

const SERVERS: &[Panel] = &[
    Panel(
        "Latency of servers, 99 %",
        Seconds,
        &[(
            "histogram_quantile(0.99, sum by (instance, command, le) (rate(guira_router_server_duration_seconds_bucket{$i}[$r])))",
            "{{instance}} {{command}}",
        )],
    ),
    Panel(
        "Latency by server",
        Seconds,
        &[("guira_router_server_latency_seconds{$i}", "{{instance}} {{server}}")],
    ),
    Panel(
        "Requests to servers by outcome",
        PerSecond,
        &[(
            "sum by (instance, outcome) (rate(guira_router_server_replies_total{$i}[$r]))",
            "{{instance}} {{outcome}}",
        )],
    ),
    Panel("Servers marked as failed", Count, &[("guira_router_tko_servers{$i}", "{{instance}} {{reason}}")]),
    Panel(
        "Share of a pool marked as failed",
        Share,
        &[("guira_router_pool_tko_servers{$i} / guira_router_pool_servers{$i}", "{{instance}} {{pool}}")],
    ),
    Panel(
        "Failed requests by pool",
        Share,
        &[(
            "rate(guira_router_pool_errors_total{$i}[$r]) / rate(guira_router_pool_requests_total{$i}[$r])",
            "{{instance}} {{pool}}",
        )],
    ),
    Panel("Connections to servers", Count, &[("guira_router_connections{$i}", "{{instance}} {{state}}")]),
    Panel(
        "Requests waiting",
        Count,
        &[
            ("guira_router_pending_requests{$i}", "{{instance}} to be sent"),
            ("guira_router_inflight_requests{$i}", "{{instance}} for a reply"),
        ],
    ),
    Panel(
        "Failovers",
        PerSecond,
        &[
            ("rate(guira_router_failovers_total{$i}[$r])", "{{instance}} begun"),
            ("rate(guira_router_failovers_failed_total{$i}[$r])", "{{instance}} failed"),
            ("rate(guira_router_failovers_limited_total{$i}[$r])", "{{instance}} over the limit"),
        ],
    ),
    Panel(
        "Warm-up",
        PerSecond,
        &[
            ("rate(guira_router_warm_up_hits_total{$i}[$r])", "{{instance}} hits in the cold cluster"),
            ("rate(guira_router_warm_up_fills_total{$i}[$r])", "{{instance}} copied items"),
            ("rate(guira_router_warm_up_warm_misses_total{$i}[$r])", "{{instance}} misses in both"),
        ],
    ),
];

const DELETES: &[Panel] = &[
    Panel(
        "Undelivered deletes",
        PerSecond,
        &[
            ("rate(guira_router_asynclog_requests_total{$i}[$r])", "{{instance}} all"),
            ("rate(guira_router_asynclog_not_written_total{$i}[$r])", "{{instance}} not logged"),
        ],
    ),
    Panel(
        "Logged deletes that wait",
        Count,
        &[
            ("guira_router_asynclog_replay_left{$i}", "{{instance}} for their server"),
            ("guira_router_asynclog_replay_homeless{$i}", "{{instance}} without a server"),
            ("guira_router_asynclog_waiting{$i}", "{{instance}} to be logged"),
        ],
    ),
    Panel(
        "Replayed deletes",
        PerSecond,
        &[
            ("rate(guira_router_asynclog_replay_delivered_total{$i}[$r])", "{{instance}} delivered"),
            ("rate(guira_router_asynclog_replay_refused_total{$i}[$r])", "{{instance}} rejected"),
            ("rate(guira_router_asynclog_replay_failures_total{$i}[$r])", "{{instance}} failures"),
        ],
    ),
];

const CONFIGURATION: &[Panel] = &[
    Panel("Configuration accepted", Flag, &[("guira_router_config_ok{$i}", "{{instance}}")]),
    Panel("Age of the configuration", Seconds, &[("guira_router_config_age_seconds{$i}", "{{instance}}")]),
    Panel(
        "Names in DNS",
        Count,
        &[
            ("guira_router_dns_names{$i}", "{{instance}} followed"),
            ("guira_router_dns_stale_names{$i}", "{{instance}} with earlier addresses"),
            ("guira_router_dns_unknown_names{$i}", "{{instance}} unknown"),
        ],
    ),
    Panel(
        "etcd",
        PerSecond,
        &[
            ("rate(guira_router_etcd_calls_total{$i}[$r])", "{{instance}} calls"),
            ("rate(guira_router_etcd_failures_total{$i}[$r])", "{{instance}} failures"),
        ],
    ),
];

const PROCESS: &[Panel] = &[
    Panel(
        "Processor time",
        Share,
        &[
            ("rate(guira_router_process_user_cpu_seconds_total{$i}[$r])", "{{instance}} user"),
            ("rate(guira_router_process_system_cpu_seconds_total{$i}[$r])", "{{instance}} system"),
        ],
    ),
    Panel(
        "Memory",
        Bytes,
        &[
            ("guira_router_process_resident_memory_bytes{$i}", "{{instance}} resident"),
            ("guira_router_conn_memory_used_bytes{$i}", "{{instance}} connections"),
            ("guira_router_conn_memory_limit_bytes{$i}", "{{instance}} limit of connections"),
        ],
    ),
    Panel(
        "Network to clients",
        BytesPerSecond,
        &[
            ("rate(guira_router_client_read_bytes_total{$i}[$r])", "{{instance}} received"),
            ("rate(guira_router_client_written_bytes_total{$i}[$r])", "{{instance}} sent"),
        ],
    ),
];
