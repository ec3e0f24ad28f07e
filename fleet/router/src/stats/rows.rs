//! The lines of `stats`, a row each: what `/metrics` and docs/reference/metrics.md have of them follows from the rows. Operations and outcomes are lists of their own.

use super::{errors, successes};
use crate::config::{Plan, SharedPlan};
use crate::config_state::{ConfigReport, Origin};
use crate::counters::{Average, Event, Sums};
use crate::pools::Pools;
use crate::shared::Shared;
use crate::upstream::{STATES, Server, ServerCount};
use guira_discovery::NameGauge;
use guira_routing::{Outcome, RouteCount, WarmUpCount};
use guira_sync::atomic::Ordering;
use guira_sync::clock::wall_clock;
use guira_sync::host;
use guira_sync::metrics::{Kind, Metric, Unit};
use guira_transport::TlsCounters;
use guira_upstream::Tko;
use guira_web::Usage;
use std::sync::Arc;

/// The figures from which the values of the lines are computed.
#[derive(Debug)]
pub(crate) struct Figures<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) sums: Sums<'a>,
    pub(crate) plan: SharedPlan,
    pub(crate) pools: Arc<Pools>,
    pub(crate) config: ConfigReport,
    pub(crate) usage: Usage,
    /// How many workers' connections are in each of [`STATES`].
    pub(crate) states: [u64; STATES.len()],
    pub(crate) tls_states: [u64; STATES.len()],
}

impl<'a> Figures<'a> {
    pub(crate) fn of(shared: &'a Shared) -> Self {
        let (plan, pools) = shared.config.plan_and_pools();
        let (mut states, mut tls_states) = ([0; STATES.len()], [0; STATES.len()]);
        for (_, server) in plan.in_use() {
            let of_server = server.meters().states();
            states.iter_mut().zip(of_server).for_each(|(all, more)| *all += more);
            if server.secure.is_some() {
                tls_states.iter_mut().zip(of_server).for_each(|(all, more)| *all += more);
            }
        }
        let (sums, config, usage) = (shared.sums(), shared.config.report(), Usage::now());
        Figures { shared, sums, plan, pools, config, usage, states, tls_states }
    }

    /// The sum over all servers that are known.
    fn sum(&self, value: impl Fn(&Server) -> u64) -> u64 {
        self.plan.servers.list().iter().map(value).sum()
    }

    /// The largest value of a server.
    fn most(&self, value: impl Fn(&Server) -> u64) -> u64 {
        self.plan.servers.list().iter().map(value).max().unwrap_or(0)
    }

    /// The sum over all servers that were ever named: it never becomes less.
    fn count(&self, what: ServerCount) -> u64 {
        self.plan.servers.forgotten().count(what) + self.sum(|server| server.meters().count(what))
    }

    /// How many requests to servers have ended like this.
    pub(crate) fn of_servers(&self, outcome: Outcome) -> u64 {
        self.plan.servers.forgotten().outcome(outcome) + self.sum(|server| server.meters().outcome(outcome))
    }

    /// How many servers of the configuration this holds for.
    fn servers(&self, holds: impl Fn(&Server) -> bool) -> usize {
        let plan: &Plan = &self.plan;
        plan.in_use().iter().filter(|(_, server)| holds(server)).count()
    }

    /// The number of servers that are out of service for this reason.
    pub(crate) fn out(&self, why: Tko) -> usize {
        self.servers(|server| server.health.tko() == Some(why))
    }

    pub(crate) fn suspects(&self) -> usize {
        self.servers(|server| server.health.failures_in_a_row() > 0)
    }
}

/// A line of `stats`.
#[derive(Debug)]
pub(crate) struct Stat {
    pub(crate) metric: Metric,
    pub(crate) value: fn(&Figures<'_>) -> String,
    pub(crate) shown: Shown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Everywhere,
    /// `/metrics` has it in another form, or cannot have it.
    InStats,
}

type Value = fn(&Figures<'_>) -> String;

/// The counters of TLS to servers.
fn tls(it: &Figures<'_>, count: fn(&TlsCounters) -> u64) -> String {
    it.plan.connector.as_ref().map_or(0, |connector| count(connector.counters())).to_string()
}

const fn stat(name: &'static str, kind: Kind, unit: Unit, meaning: &'static str, value: Value) -> Stat {
    Stat { metric: Metric { name, unit, kind, meaning, exported: None }, value, shown: Shown::Everywhere }
}

const fn text(name: &'static str, meaning: &'static str, value: Value) -> Stat {
    stat(name, Kind::Gauge, Unit::Text, meaning, value)
}

const fn gauge(name: &'static str, unit: Unit, meaning: &'static str, value: Value) -> Stat {
    stat(name, Kind::Gauge, unit, meaning, value)
}

const fn counter(name: &'static str, unit: Unit, meaning: &'static str, value: Value) -> Stat {
    stat(name, Kind::Counter, unit, meaning, value)
}

impl Stat {
    /// Another name in `/metrics`.
    const fn exported(mut self, name: &'static str) -> Self {
        self.metric.exported = Some(name);
        self
    }

    const fn in_stats(mut self) -> Self {
        self.shown = Shown::InStats;
        self
    }
}

use Unit::{Bytes, Count, Microseconds, Seconds};

pub(crate) const STATS: &[Stat] = &[
    text("version", "The version that clients receive: `--reported-version`.", |it| it.shared.about.version.clone()),
    text("commandargs", "The command line.", |it| it.shared.about.command_line.clone()),
    text("pid", "Process id.", |_| host::process().to_string()),
    text("parent_pid", "Process id of the parent.", |_| host::parent().to_string()),
    gauge("time", Seconds, "Time since 1970.", |_| wall_clock().to_string()),
    gauge("uptime", Seconds, "Time since the start of the router.", |it| it.shared.about.started.age().to_string()),
    gauge("start_time", Seconds, "Start time of the router, since 1970.", |it| {
        it.shared.about.started.unix.to_string()
    }),
    counter(
        "system_calls_refused",
        Count,
        "System calls refused because they are not listed; with `--system-calls listed`.",
        |_| guira_sandbox::refused().to_string(),
    ),
    gauge("num_client_connections", Count, "Client connections.", clients)
        .exported("guira_router_clients"),
    gauge("num_clients", Count, "The same as num_client_connections; the name of earlier versions of mcrouter.", clients).in_stats(),
    gauge("conn_memory_used", Bytes, "Memory of partial requests and unread replies.", |it| {
        it.shared.host.budget.usage().0.to_string()
    }),
    gauge("conn_memory_limit", Bytes, "Limit of that memory: connection-memory.", |it| {
        it.shared.host.budget.usage().2.to_string()
    }),
    counter("response_obj_oom", Count, "Client connections closed because unread replies used up connection-memory.", |it| {
        it.shared.host.budget.closed_sending.load(Ordering::Relaxed).to_string()
    }),
    counter("read_buf_oom", Count, "Client connections closed because partial requests used up connection-memory.", |it| {
        it.shared.host.budget.closed_receiving.load(Ordering::Relaxed).to_string()
    }),
    gauge(
        "num_servers",
        Count,
        "Possible connections to servers: one per thread and server.",
        |it| it.states.iter().sum::<u64>().to_string(),
    )
    .in_stats(),
    gauge("num_servers_new", Count, "Connections to servers that were never opened.", |it| it.states[0].to_string())
        .in_stats(),
    gauge("num_servers_up", Count, "Open connections to servers.", |it| it.states[1].to_string()).in_stats(),
    gauge("num_servers_down", Count, "Failed connections to servers.", |it| it.states[2].to_string()).in_stats(),
    gauge("num_servers_closed", Count, "Connections to servers closed because they were idle.", |it| {
        it.states[3].to_string()
    })
    .in_stats(),
    gauge("num_ssl_servers", Count, "Possible connections to servers with TLS.", |it| {
        it.tls_states.iter().sum::<u64>().to_string()
    })
    .in_stats(),
    gauge("num_ssl_servers_new", Count, "Connections to servers with TLS that were never opened.", |it| {
        it.tls_states[0].to_string()
    })
    .in_stats(),
    gauge("num_ssl_servers_up", Count, "Open connections to servers with TLS.", |it| it.tls_states[1].to_string())
        .in_stats(),
    gauge("num_ssl_servers_down", Count, "Failed connections to servers with TLS.", |it| {
        it.tls_states[2].to_string()
    })
    .in_stats(),
    gauge(
        "num_ssl_servers_closed",
        Count,
        "Connections to servers with TLS closed because they were idle.",
        |it| it.tls_states[3].to_string(),
    )
    .in_stats(),
    gauge("num_suspect_servers", Count, "Servers with a failure since their last reply.", |it| {
        it.suspects().to_string()
    })
    .exported("guira_router_suspect_servers"),
    gauge("num_soft_tko_count", Count, "Servers marked as failed by timeouts.", |it| {
        it.out(Tko::Soft).to_string()
    })
    .exported("guira_router_tko_servers{reason=soft}"),
    gauge(
        "num_hard_tko_count",
        Count,
        "Servers marked as failed because they are unreachable.",
        |it| it.out(Tko::Hard).to_string(),
    )
    .exported("guira_router_tko_servers{reason=hard}"),
    counter("num_connections_opened", Count, "Opened connections to servers.", |it| {
        it.count(ServerCount::Opened).to_string()
    })
    .exported("guira_router_connections_opened_total"),
    counter("num_connections_closed", Count, "Closed connections to servers.", |it| {
        it.count(ServerCount::Closed).to_string()
    })
    .exported("guira_router_connections_closed_total"),
    gauge("ps_rss", Bytes, "Resident memory of the process.", |it| it.usage.resident.to_string())
        .exported("guira_router_process_resident_memory_bytes"),
    gauge("ps_vsize", Bytes, "Address space of the process.", |it| it.usage.address_space.to_string())
        .exported("guira_router_process_virtual_memory_bytes"),
    counter("rusage_user", Seconds, "User time of the process.", |it| {
        it.usage.user.clone()
    })
    .exported("guira_router_process_user_cpu_seconds_total"),
    counter("rusage_system", Seconds, "System time of the process.", |it| {
        it.usage.system.clone()
    })
    .exported("guira_router_process_system_cpu_seconds_total"),
    counter("ps_num_minor_faults", Count, "Page faults of the process that needed no disk.", |_| faults(10))
        .exported("guira_router_process_minor_faults_total"),
    counter("ps_num_major_faults", Count, "Page faults of the process that needed the disk.", |_| faults(12))
        .exported("guira_router_process_major_faults_total"),
    counter("ps_user_time_sec", Seconds, "The same as rusage_user.", |it| it.usage.user.clone()).in_stats(),
    counter("ps_system_time_sec", Seconds, "The same as rusage_system.", |it| it.usage.system.clone())
        .in_stats(),
    counter("num_udp_requests", Count, "Requests received in datagrams.", |it| {
        it.sums.of_event(Event::Datagram).to_string()
    })
    .exported("guira_router_udp_requests_total"),
    counter("num_ssl_connections_opened", Count, "Completed TLS handshakes with servers.", |it| {
        tls(it, |counters| counters.full() + counters.resumed())
    })
    .exported("guira_router_tls_connections_opened_total"),
    counter("num_ssl_resumption_successes", Count, "TLS handshakes with servers that resumed a session.", |it| {
        tls(it, TlsCounters::resumed)
    })
    .exported("guira_router_tls_resumptions_total"),
    counter("num_ssl_handshake_failures", Count, "Failed TLS handshakes with servers.", |it| {
        tls(it, TlsCounters::failed_handshakes)
    })
    .exported("guira_router_tls_handshake_failures_total"),
    counter("ssl_handshake_errors", Count, "Failed TLS handshakes with clients.", |it| {
        it.shared.host.tls.as_ref().map_or(0, |tls| tls.counters().failed_handshakes()).to_string()
    })
    .exported("guira_router_client_tls_handshake_failures_total"),
    gauge(
        "asynclog_requests_rate",
        Count,
        "Undelivered deletes per second, in the last minute.",
        |it| it.shared.counts.log.rates(wall_clock()).0.to_string(),
    ),
    gauge("asynclog_spool_success_rate", Count, "Logged deletes per second, in the last minute.", |it| {
        it.shared.counts.log.rates(wall_clock()).1.to_string()
    }),
    gauge(
        "asynclog_duration_us",
        Microseconds,
        "Average time until a delete is logged.",
        |it| format!("{:.3}", it.shared.counts.log.average_us()),
    ),
    gauge("asynclog_waiting", Count, "Deletes waiting to be logged.", |it| {
        it.shared.counts.log.waiting().to_string()
    }),
    gauge(
        "asynclog_replay_left",
        Count,
        "Logged deletes in finished files whose servers have not accepted them yet, at the last check.",
        |it| it.shared.counts.log.left().to_string(),
    ),
    gauge(
        "asynclog_replay_homeless",
        Count,
        "Logged deletes without a server in the configuration, at the last check.",
        |it| it.shared.counts.log.homeless().to_string(),
    ),
    gauge("dns_names", Count, "Names that are resolved again when their TTL ends.", |it| {
        it.shared.counts.names.gauge(NameGauge::Followed).to_string()
    }),
    gauge(
        "dns_stale_names",
        Count,
        "Names whose last lookup failed and which keep their earlier addresses.",
        |it| it.shared.counts.names.gauge(NameGauge::Stale).to_string(),
    ),
    gauge("dns_unknown_names", Count, "Names that have never resolved.", |it| {
        it.shared.counts.names.gauge(NameGauge::Unknown).to_string()
    }),
    gauge(
        "srv_held_servers",
        Count,
        "Servers kept although they have left the SRV records of their pools.",
        |it| it.shared.records.held().to_string(),
    ),
    gauge("num_proxies", Count, "Threads.", |it| it.sums.0.len().to_string())
        .exported("guira_router_workers"),
    gauge(
        "proxy_reqs_processing",
        Count,
        "Client requests in progress; each key counts.",
        |it| it.sums.requests().saturating_sub(it.sums.answered()).to_string(),
    )
    .exported("guira_router_requests_processing"),
    gauge("proxy_request_num_outstanding", Count, "The same as proxy_reqs_processing.", |it| {
        it.sums.requests().saturating_sub(it.sums.answered()).to_string()
    })
    .in_stats(),
    gauge(
        "proxy_reqs_waiting",
        Count,
        "Clients waiting because of proxy-max-inflight-requests.",
        |it| {
            let held = it.sums.of_event(Event::Held);
            held.saturating_sub(it.sums.of_event(Event::Released)).to_string()
        },
    )
    .exported("guira_router_clients_waiting"),
    counter(
        "proxy_reqs_throttled_count",
        Count,
        "Requests refused as busy because of proxy-max-throttled-requests.",
        |it| it.sums.of_event(Event::Throttled).to_string(),
    )
    .exported("guira_router_throttled_requests_total"),
    counter(
        "latency_injected_count",
        Count,
        "Requests and replies delayed by LatencyInjectionRoute.",
        |it| it.sums.of_event(Event::Delay).to_string(),
    )
    .exported("guira_router_delays_total"),
    counter(
        "failover_all_count",
        Count,
        "Requests for which a failover route could try another child, because the first failed.",
        |it| routes(it, RouteCount::Failover),
    )
    .exported("guira_router_failovers_total"),
    counter(
        "failover_all_failed_count",
        Count,
        "Requests of failover routes whose last child failed, or whose policy allows no other try.",
        |it| routes(it, RouteCount::AllFailed),
    )
    .exported("guira_router_failovers_failed_total"),
    counter(
        "failover_rate_limited_count",
        Count,
        "Failures after which failover_limit allowed no other child.",
        |it| routes(it, RouteCount::RateLimited),
    )
    .exported("guira_router_failovers_limited_total"),
    counter(
        "failover_policy_result_error",
        Count,
        "Failures in failover routes, except those of the last child and of unreachable servers.",
        |it| routes(it, RouteCount::ResultError),
    )
    .exported("guira_router_failover_errors_total{reason=result}"),
    counter(
        "failover_policy_tko_error",
        Count,
        "The same of servers that are marked as failed, unreachable or shutting down.",
        |it| routes(it, RouteCount::TkoError),
    )
    .exported("guira_router_failover_errors_total{reason=tko}"),
    counter(
        "failover_num_collisions",
        Count,
        "Children that DeterministicOrderPolicy passed over because they were tried already, in requests without a good reply before the last child.",
        |it| routes(it, RouteCount::Collision),
    )
    .exported("guira_router_failover_collisions_total{reason=tried}"),
    counter(
        "failover_num_failed_domain_collisions",
        Count,
        "The same because of their failure domain.",
        |it| routes(it, RouteCount::FailedDomainCollision),
    )
    .exported("guira_router_failover_collisions_total{reason=domain}"),
    counter(
        "failover_same_failure_domain",
        Count,
        "Replies of replacement servers in the failure domain of the server that failed first. Servers without a domain are in the same one.",
        |it| routes(it, RouteCount::SameDomain),
    )
    .exported("guira_router_failover_same_domain_total"),
    counter("dev_null_requests", Count, "Requests that DevNullRoute replied to.", |it| {
        routes(it, RouteCount::DevNull)
    })
    .exported("guira_router_dev_null_requests_total"),
    counter(
        "redirected_lease_set_count",
        Count,
        "Lease-sets sent to the replacement server that granted their token.",
        |it| it.shared.policies.settings.leases.redirected().to_string(),
    )
    .exported("guira_router_redirected_lease_sets_total"),
    counter(
        "refused_lease_count",
        Count,
        "Lease commands refused because their server does not support leases, or meta commands where leases use these.",
        |it| it.sums.of_event(Event::LeaseRefused).to_string(),
    )
    .exported("guira_router_refused_leases_total"),
    counter(
        "connections_not_begun_count",
        Count,
        "Connections to servers that could not be started because this host lacked a descriptor, port or memory, or a UNIX socket was full.",
        |it| it.sums.of_event(Event::Shortage).to_string(),
    )
    .exported("guira_router_connections_not_begun_total"),
    counter(
        "empty_value_looks_count",
        Count,
        "Empty values requested again to find out whether a client is filling their keys.",
        |it| it.sums.of_event(Event::Doubt).to_string(),
    )
    .exported("guira_router_empty_value_looks_total"),
    counter(
        "warm_up_hits_count",
        Count,
        "Gets through a running WarmUpRoute that hit in the cold cluster.",
        |it| warm_up(it, WarmUpCount::Hit),
    )
    .exported("guira_router_warm_up_hits_total"),
    counter(
        "warm_up_fills_count",
        Count,
        "Items copied from a warm to a cold cluster.",
        |it| warm_up(it, WarmUpCount::Filled),
    )
    .exported("guira_router_warm_up_fills_total"),
    counter(
        "warm_up_refused_count",
        Count,
        "Items not copied because their keys were deleted, stored or held off in the cold cluster.",
        |it| warm_up(it, WarmUpCount::Refused),
    )
    .exported("guira_router_warm_up_refused_total"),
    counter("warm_up_failed_count", Count, "Items that the cold cluster failed to store.", |it| {
        warm_up(it, WarmUpCount::Failed)
    })
    .exported("guira_router_warm_up_failed_total"),
    counter(
        "warm_up_warm_misses_count",
        Count,
        "Gets through a WarmUpRoute that missed in both clusters.",
        |it| warm_up(it, WarmUpCount::WarmMiss),
    )
    .exported("guira_router_warm_up_warm_misses_total"),
    counter(
        "warm_up_hold_offs_count",
        Count,
        "Deletes through a WarmUpRoute with hold-off.",
        |it| warm_up(it, WarmUpCount::HeldOff),
    )
    .exported("guira_router_warm_up_hold_offs_total"),
    counter(
        "warm_up_plain_deletes_count",
        Count,
        "Deletes through a WarmUpRoute without hold-off, because the cold cluster refused it or failed.",
        |it| warm_up(it, WarmUpCount::NotHeldOff),
    )
    .exported("guira_router_warm_up_plain_deletes_total"),
    gauge("warm_ups_running", Count, "WarmUpRoutes that are still filling their cold cluster.", |it| {
        it.shared.policies.settings.warm_ups.running_and_ended().0.to_string()
    }),
    gauge("warm_ups_ended", Count, "WarmUpRoutes that have ended because their cold cluster is warm.", |it| {
        it.shared.policies.settings.warm_ups.running_and_ended().1.to_string()
    }),
    counter("request_sent_count", Count, "Requests to servers.", |it| {
        it.count(ServerCount::Requests).to_string()
    })
    .in_stats(),
    counter("request_replied_count", Count, "Replies to client requests.", |it| {
        it.sums.answered().to_string()
    })
    .in_stats(),
    counter("request_success_count", Count, "Client requests that succeeded.", |it| {
        successes(it.sums).to_string()
    })
    .in_stats(),
    counter("request_error_count", Count, "Client requests that failed.", |it| errors(it.sums).to_string())
        .in_stats(),
    counter("destination_requests_sum", Count, "The same as request_sent_count.", |it| {
        it.count(ServerCount::Requests).to_string()
    })
    .in_stats(),
    counter("destination_batches_sum", Count, "Writes to servers, each of one or more requests.", |it| {
        it.count(ServerCount::Writes).to_string()
    })
    .in_stats(),
    counter("num_socket_writes", Count, "The same as destination_batches_sum.", |it| {
        it.count(ServerCount::Writes).to_string()
    })
    .in_stats(),
    gauge("destination_batch_size", Count, "Average requests of a write to a server, since the start.", |it| {
        let writes = it.count(ServerCount::Writes).max(1);
        number(it.count(ServerCount::Requests) as f64 / writes as f64)
    })
    .in_stats(),
    gauge(
        "destination_max_pending_reqs",
        Count,
        "Largest number of requests of one thread that waited to be sent to one server.",
        |it| it.most(|server| server.meters().most_pending()).to_string(),
    )
    .in_stats(),
    gauge(
        "destination_max_inflight_reqs",
        Count,
        "Largest number of requests of one thread that waited for replies of one server.",
        |it| it.most(|server| server.meters().most_inflight()).to_string(),
    )
    .in_stats(),
    gauge("destination_pending_reqs", Count, "Requests waiting to be sent to a server.", |it| {
        it.sum(|server| server.meters().pending()).to_string()
    })
    .exported("guira_router_pending_requests"),
    gauge(
        "destination_inflight_reqs",
        Count,
        "Requests sent to a server and waiting for a reply.",
        |it| it.sum(|server| server.meters().inflight()).to_string(),
    )
    .exported("guira_router_inflight_requests"),
    gauge(
        "duration_us",
        Microseconds,
        "Latency of servers: a moving average over about the last 64 measurements of a thread.",
        |it| number(it.sums.average(Average::All)),
    )
    .in_stats(),
    gauge("duration_get_us", Microseconds, "Latency of servers for gets: a moving average over about the last 64 measurements of a thread.", |it| number(it.sums.average(Average::Get)))
        .in_stats(),
    gauge("duration_update_us", Microseconds, "Latency of servers for stores: a moving average over about the last 64 measurements of a thread.", |it| {
        number(it.sums.average(Average::Update))
    })
    .in_stats(),
    gauge("config_age", Seconds, "Time since the configuration took effect.", |it| {
        it.config.since.age().to_string()
    }),
    gauge(
        "config_last_success",
        Seconds,
        "Time of the last successful load of a configuration, since 1970.",
        |it| it.config.last_valid.unix.to_string(),
    ),
    gauge("config_last_attempt", Seconds, "Time of the last load of a configuration, since 1970.", |it| {
        it.config.last_attempt.unix.to_string()
    }),
    counter("config_attempts", Count, "Loads of a configuration.", |it| it.config.attempts.to_string()),
    counter("config_full_attempt", Count, "The same as config_attempts.", |it| it.config.attempts.to_string())
        .in_stats(),
    gauge(
        "configs_from_disk",
        Count,
        "1 while the router uses a saved configuration because it cannot use the source, else 0.",
        |it| u8::from(it.config.origin == Origin::Saved).to_string(),
    )
    .exported("guira_router_config_from_disk"),
    counter("config_failures", Count, "Loads that failed because the configuration was invalid or unreadable.", |it| {
        it.config.failures.to_string()
    }),
];

fn routes(figures: &Figures<'_>, what: RouteCount) -> String {
    figures.shared.policies.settings.counts.count(what).to_string()
}

fn warm_up(figures: &Figures<'_>, what: WarmUpCount) -> String {
    figures.shared.policies.settings.warm_ups.count(what).to_string()
}

fn clients(figures: &Figures<'_>) -> String {
    figures.shared.host.connections.current.load(Ordering::Relaxed).to_string()
}

/// A field of /proc/self/stat, from 1 on, behind the name of the program.
fn faults(field: usize) -> String {
    let text = guira_disk::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, field 2, may have blanks and ends with the last parenthesis.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().nth(field - 3).unwrap_or("0").to_owned()
}

/// A number with three decimals, and none if they are zeros.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            (number(0.0), number(302.9912), number(10.5)),
            ("0".into(), "302.991".into(), "10.5".into())
        );
        assert_eq!(number(1200.0), "1200");
    }

    #[test]
    fn faults_are_counted_by_the_system() {
        // Pages of the disk may have been there before.
        assert!(faults(10).parse::<u64>().unwrap() > 0);
    }

    #[test]
    fn each_line_has_a_name_of_its_own() {
        let mut names: Vec<&str> = STATS.iter().map(|stat| stat.metric.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
