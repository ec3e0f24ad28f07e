//! The dashboard of cache servers.

use super::Unit::{Bytes, BytesPerSecond, Count, Flag, PerSecond, Seconds, Share};
use super::{Dashboard, Panel, Row};

pub(super) const DASHBOARD: Dashboard =
    Dashboard { file: "guira-node.json", title: "Guira: cache servers", of_all: "guira_ready", rows: ROWS };

const ROWS: &[Row] = &[
    Row("Service", SERVICE),
    Row("Latency", LATENCY),
    Row("Memory", MEMORY),
    Row("Connections", CONNECTIONS),
    Row("Processor and network", PROCESSOR),
    Row("Engine", ENGINE),
    Row("Security and starts", SECURITY),
];

const SERVICE: &[Panel] = &[
    Panel("Ready", Flag, &[("guira_ready{$i}", "{{instance}}")]),
    Panel(
        "Requests",
        PerSecond,
        &[
            (
                r#"sum by (instance) (rate(memcached_commands_total{command="get",$i}[$r]))"#,
                "{{instance}} gets",
            ),
            ("rate(guira_cmd_set_total{$i}[$r])", "{{instance}} stores"),
        ],
    ),
    Panel(
        "Hit ratio of gets",
        Share,
        &[(
            r#"sum by (instance) (rate(memcached_commands_total{command="get",status="hit",$i}[$r])) / sum by (instance) (rate(memcached_commands_total{command="get",$i}[$r]))"#,
            "{{instance}}",
        )],
    ),
    Panel(
        "Other commands",
        PerSecond,
        &[(
            r#"sum by (instance, command) (rate(memcached_commands_total{command!~"get|set",$i}[$r]))"#,
            "{{instance}} {{command}}",
        )],
    ),
    Panel(
        "Refused stores",
        PerSecond,
        &[
            ("rate(memcached_item_no_memory_total{$i}[$r])", "{{instance}} no memory"),
            ("rate(memcached_item_too_large_total{$i}[$r])", "{{instance}} too large"),
        ],
    ),
    Panel(
        "Leases",
        PerSecond,
        &[
            ("rate(guira_lease_tokens_total{$i}[$r])", "{{instance}} granted"),
            ("rate(guira_lease_hot_misses_total{$i}[$r])", "{{instance}} waiting"),
            ("rate(guira_lease_refusals_total{$i}[$r])", "{{instance}} refused stores"),
        ],
    ),
];

const LATENCY: &[Panel] = &[
    Panel(
        "Service time, 99 %",
        Seconds,
        &[(
            "histogram_quantile(0.99, sum by (instance, command, le) (rate(guira_command_duration_seconds_bucket{$i}[$r])))",
            "{{instance}} {{command}}",
        )],
    ),
    Panel(
        "Wait for a worker, 99 %",
        Seconds,
        &[(
            "histogram_quantile(0.99, sum by (instance, le) (rate(guira_queue_duration_seconds_bucket{$i}[$r])))",
            "{{instance}}",
        )],
    ),
    Panel(
        "Round of a worker, 99 %",
        Seconds,
        &[(
            "histogram_quantile(0.99, sum by (instance, le) (rate(guira_round_duration_seconds_bucket{$i}[$r])))",
            "{{instance}}",
        )],
    ),
];

const MEMORY: &[Panel] = &[
    Panel(
        "Memory of the process",
        Bytes,
        &[
            ("guira_process_resident_memory_bytes{$i}", "{{instance}} resident"),
            ("memcached_limit_bytes{$i}", "{{instance}} limit"),
        ],
    ),
    Panel(
        "Memory of items",
        Bytes,
        &[
            ("memcached_current_bytes{$i}", "{{instance}} items"),
            ("guira_memory_used_bytes{$i}", "{{instance}} used"),
            ("guira_memory_limit_bytes{$i}", "{{instance}} limit"),
        ],
    ),
    Panel("Items", Count, &[("memcached_current_items{$i}", "{{instance}}")]),
    Panel("Evictions", PerSecond, &[("rate(guira_evictions_total{$i}[$r])", "{{instance}} {{reason}}")]),
    Panel(
        "Evicted items that were never read",
        Share,
        &[(
            "rate(guira_evicted_unfetched_total{$i}[$r]) / (rate(memcached_items_evicted_total{$i}[$r]) > 0) or 0 * guira_ready{$i}",
            "{{instance}}",
        )],
    ),
    Panel(
        "Expired items",
        PerSecond,
        &[
            ("rate(memcached_items_reclaimed_total{$i}[$r])", "{{instance}} reclaimed"),
            ("rate(memcached_lru_crawler_reclaimed_total{$i}[$r])", "{{instance}} by the crawler"),
        ],
    ),
    Panel("Parts of the memory limit", Bytes, &[("guira_memory_part_bytes{$i}", "{{instance}} {{part}}")]),
    Panel("Pages by class", Count, &[("memcached_slab_current_pages{$i}", "{{instance}} class {{slab}}")]),
    Panel(
        "Age of the next victim by class",
        Seconds,
        &[("memcached_slab_items_age_seconds{$i}", "{{instance}} class {{slab}}")],
    ),
];

const CONNECTIONS: &[Panel] = &[
    Panel(
        "Connections",
        Count,
        &[
            ("memcached_current_connections{$i}", "{{instance}} open"),
            ("memcached_max_connections{$i}", "{{instance}} limit"),
        ],
    ),
    Panel(
        "New connections",
        PerSecond,
        &[
            ("rate(memcached_connections_total{$i}[$r])", "{{instance}} accepted"),
            ("rate(memcached_connections_rejected_total{$i}[$r])", "{{instance}} refused"),
            ("rate(memcached_connections_listener_disabled_total{$i}[$r])", "{{instance}} limit reached"),
        ],
    ),
    Panel(
        "Memory of connections",
        Bytes,
        &[
            ("guira_conn_memory_used_bytes{$i}", "{{instance}} used"),
            ("guira_conn_memory_pinned_bytes{$i}", "{{instance}} pinned items"),
            ("guira_conn_memory_limit_bytes{$i}", "{{instance}} limit"),
        ],
    ),
    Panel(
        "Connections closed for lack of memory",
        PerSecond,
        &[
            ("rate(guira_read_buf_oom_total{$i}[$r])", "{{instance}} partial requests"),
            ("rate(guira_response_obj_oom_total{$i}[$r])", "{{instance}} unread replies"),
        ],
    ),
];

const PROCESSOR: &[Panel] = &[
    Panel(
        "Processor time",
        Share,
        &[
            ("rate(memcached_process_user_cpu_seconds_total{$i}[$r])", "{{instance}} user"),
            ("rate(memcached_process_system_cpu_seconds_total{$i}[$r])", "{{instance}} system"),
        ],
    ),
    Panel(
        "Processor time per worker",
        Share,
        &[(
            "(rate(memcached_process_user_cpu_seconds_total{$i}[$r]) + rate(memcached_process_system_cpu_seconds_total{$i}[$r])) / guira_threads{$i}",
            "{{instance}}",
        )],
    ),
    Panel(
        "Gets by worker",
        PerSecond,
        &[("rate(guira_worker_gets_total{$i}[$r])", "{{instance}} worker {{worker}}")],
    ),
    Panel(
        "Network",
        BytesPerSecond,
        &[
            ("rate(memcached_read_bytes_total{$i}[$r])", "{{instance}} received"),
            ("rate(memcached_written_bytes_total{$i}[$r])", "{{instance}} sent"),
        ],
    ),
];

const ENGINE: &[Panel] = &[
    Panel(
        "Engine",
        Count,
        &[("guira_engine_info{$i}", "{{instance}} {{version}} {{engine}} {{index}} {{access}}")],
    ),
    Panel("Eviction policy", Count, &[("guira_policy_info{$i}", "{{instance}} {{policy}} {{options}}")]),
    Panel(
        "Automatic changes of the policy",
        Count,
        &[("increase(guira_policy_changes_total{$i}[1h])", "{{instance}} in an hour")],
    ),
    Panel("Index", Bytes, &[("guira_hash_bytes{$i}", "{{instance}}")]),
    Panel(
        "Repeated reads and writes",
        PerSecond,
        &[
            ("rate(guira_read_retries_total{$i}[$r])", "{{instance}} reads"),
            ("rate(guira_write_retries_total{$i}[$r])", "{{instance}} writes"),
        ],
    ),
    Panel(
        "Pages moved between classes",
        PerSecond,
        &[("rate(guira_slabs_moved_total{$i}[$r])", "{{instance}}")],
    ),
];

const SECURITY: &[Panel] = &[
    Panel(
        "Refused logins and handshakes",
        PerSecond,
        &[
            ("rate(guira_auth_errors_total{$i}[$r])", "{{instance}} logins"),
            ("rate(guira_ssl_handshake_errors_total{$i}[$r])", "{{instance}} TLS handshakes"),
        ],
    ),
    Panel("Time since the start", Seconds, &[("time() - guira_start_time_seconds{$i}", "{{instance}}")]),
    Panel("Items restored by the start", Count, &[("guira_restored_items{$i}", "{{instance}}")]),
];
