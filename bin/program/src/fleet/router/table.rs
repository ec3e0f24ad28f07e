//! The options of `guira router`, one row each, with mcrouter's names and those of `guira serve` as aliases. The command
//! line, its help, the notes about options without effect, and docs/reference/router-options.md follow from the rows.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `=0`, `=1`, `=false`, `=true`, or no value for 1.
    Switch,
    /// No value at all.
    Action,
    Whole,
    Text,
    /// May be given several times, each time with several, separated by commas.
    List,
    Mode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// `guira router`.
    Guira,
    /// `guira mcrouter`, or a link called mcrouter: a start script of mcrouter has the effect that it had.
    Mcrouter,
}

/// mcrouter's name of an option in a flavor, and in `__mcrouter__.options`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// That of the option, with underscores.
    OfOption,
    Named(&'static str),
    /// The option switches the field off.
    Negated(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Used,
    /// Accepted without effect, for this reason.
    Nothing(&'static str),
    /// Refused, for this reason.
    Refused(&'static str),
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) section: &'static str,
    pub(crate) long: &'static str,
    pub(crate) short: Option<char>,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) field: Field,
    pub(crate) kind: Kind,
    pub(crate) default: &'static str,
    /// The default of [`Manner::Mcrouter`], if it is another.
    pub(crate) mcrouter_default: Option<&'static str>,
    pub(crate) effect: Effect,
    pub(crate) about: &'static str,
}

use Effect::{Nothing, Refused, Used};
use Kind::{Action, List, Mode, Switch, Text, Whole};

impl Row {
    const fn new(section: &'static str, long: &'static str, kind: Kind, about: &'static str) -> Self {
        let default = match kind {
            Switch => "0",
            _ => "",
        };
        Row {
            section,
            long,
            short: None,
            aliases: &[],
            field: Field::OfOption,
            kind,
            default,
            mcrouter_default: None,
            effect: Used,
            about,
        }
    }

    const fn short(self, short: char) -> Self {
        Row { short: Some(short), ..self }
    }

    const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Row { aliases, ..self }
    }

    const fn field(self, field: &'static str) -> Self {
        Row { field: Field::Named(field), ..self }
    }

    const fn negates(self, field: &'static str) -> Self {
        Row { field: Field::Negated(field), ..self }
    }

    const fn under_mcrouter(self, default: &'static str) -> Self {
        Row { mcrouter_default: Some(default), ..self }
    }

    const fn default(self, default: &'static str) -> Self {
        Row { default, ..self }
    }

    const fn is(self, effect: Effect) -> Self {
        Row { effect, ..self }
    }

    /// The default under this name of the program.
    pub(crate) fn default_of(&self, manner: Manner) -> &'static str {
        match manner {
            Manner::Guira => self.default,
            Manner::Mcrouter => self.mcrouter_default.unwrap_or(self.default),
        }
    }

    /// The names of the option on the command line.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.long).chain(self.aliases.iter().copied())
    }

    pub(crate) fn field_name(&self) -> String {
        match self.field {
            Field::OfOption => self.long.replace('-', "_"),
            Field::Named(name) | Field::Negated(name) => name.to_owned(),
        }
    }
}

const CONFIG: &str = "Configuration";
const CLIENTS: &str = "Clients";
const SERVERS: &str = "Servers";
const DELETES: &str = "Deletes that fail";
const PROCESS: &str = "Process";

const NO_FIBERS: &str = "the router has no fibers";
const NO_FAST_OPEN: &str = "TCP fast open is not used";
const NO_RXMIT: &str = "retransmissions are not counted: use ss -ti";
const NO_CARET: &str = "the router uses the text protocol, neither caret nor thrift";
const NO_LOGGING_ROUTE: &str = "LoggingRoute writes no log: use the metrics";
const NO_SHADOW_LIMIT: &str = "target-max-shadow-requests limits the requests of each shadow";
const DEPRECATED: &str = "mcrouter ignores this option too";

/// The version that clients receive: libmemcached takes a number at its beginning.
const DEFAULT_VERSION: &str = concat!("1.0.0 mcrouter guira ", env!("CARGO_PKG_VERSION"));

const fn ignored(long: &'static str, kind: Kind, why: &'static str) -> Row {
    Row::new("Options of mcrouter without effect", long, kind, "").is(Nothing(why))
}

const fn refused(long: &'static str, kind: Kind, why: &'static str) -> Row {
    Row::new("Options of mcrouter that are refused", long, kind, "").is(Refused(why))
}

pub(crate) const ROWS: &[Row] = &[
    Row::new(CONFIG, "config", Text, "file:PATH, a path, or the configuration itself"),
    Row::new(CONFIG, "config-file", Text, "the file of the configuration").short('f'),
    Row::new(CONFIG, "config-str", Text, "the configuration itself"),
    Row::new(
        CONFIG,
        "validate-config",
        Mode,
        "check the configuration, print errors and warnings, and exit with 1 or 0 (`run`: start if it is valid)",
    ),
    Row::new(CONFIG, "route-prefix", Text, "the route for keys without a prefix: /region/cluster/")
        .short('R')
        .aliases(&["default-route"])
        .field("default_route")
        .default("/././"),
    Row::new(
        CONFIG,
        "send-invalid-route-to-default",
        Switch,
        "send keys with an unknown prefix to the default route",
    ),
    Row::new(
        CONFIG,
        "disable-reload-configs",
        Switch,
        "do not watch the configuration files; SIGHUP still reloads them",
    ),
    Row::new(
        CONFIG,
        "file-observer-poll-period-ms",
        Whole,
        "interval for checking files, in addition to inotify",
    )
    .default("100"),
    Row::new(CONFIG, "file-observer-sleep-before-update-ms", Whole, "delay after a change of a file")
        .default("1000"),
    Row::new(CONFIG, "reconfiguration-delay-ms", Whole, "further delay before the reload").default("1000"),
    Row::new(
        CONFIG,
        "config-dump-root",
        Text,
        "a folder for the last valid configuration, which is used at a start if the source is unreadable or invalid",
    ),
    Row::new(
        CONFIG,
        "max-dumped-config-age",
        Whole,
        "seconds after which a saved configuration is not used any more; 0: never use one; unset: any age",
    )
    .under_mcrouter("43200"),
    Row::new(
        CONFIG,
        "config-params",
        List,
        "parameters for macros of the configuration: NAME:VALUE, separated by commas; the router's own parameters take precedence",
    ),
    Row::new(CONFIG, "additional-config-params", List, "further parameters, which take precedence"),
    Row::new(
        CONFIG,
        "runtime-vars-file",
        Text,
        "a JSON object of variables, which is watched: `key_fraction_range_rv` of a shadow names one that replaces its key_fraction_range",
    ),
    Row::new(CONFIG, "disable-shard-split-route", Switch, "ignore `shard_splits` of the configuration"),
    Row::new(CONFIG, "service-name", Text, "the name of this router's service")
        .default("unknown")
        .under_mcrouter("mcrouter"),
    Row::new(CONFIG, "router-name", Text, "the name of this router; under the name mcrouter: the first port, or 0")
        .default("unknown")
        .under_mcrouter(""),
    Row::new(CLIENTS, "port", List, "TCP ports to listen on, on all addresses").short('p').aliases(&["ports"]).field("ports"),
    Row::new(
        CLIENTS,
        "listen",
        List,
        "addresses to listen on: IP:PORT, [v6]:PORT or unix:PATH; with the prefix btls: for TLS, or mtls: for TLS with client certificates",
    ),
    Row::new(CLIENTS, "udp", List, "addresses for gets in datagrams: IP:PORT or [v6]:PORT"),
    Row::new(CLIENTS, "unix-domain-sock", Text, "a UNIX socket to listen on"),
    Row::new(CLIENTS, "ssl-port", List, "TCP ports to listen on with TLS, on all addresses")
        .aliases(&["ssl-ports"])
        .field("ssl_ports"),
    Row::new(
        CLIENTS,
        "listen-addresses",
        List,
        "IP addresses for --port and --ssl-port; default: all addresses",
    ),
    Row::new(
        CLIENTS,
        "listen-sock-fd",
        Text,
        "the number of a listening socket that the router has inherited; those of a service manager (LISTEN_FDS) need no option",
    ),
    Row::new(CLIENTS, "tcp-listen-backlog", Whole, "connections that wait to be accepted").default("1024"),
    Row::new(
        CLIENTS,
        "server-pem-cert-path",
        Text,
        "PEM file of the router's certificate for clients; default: that of --pem-cert-path",
    ),
    Row::new(CLIENTS, "server-pem-key-path", Text, "PEM file of its key, which may be in the same file"),
    Row::new(
        CLIENTS,
        "server-pem-ca-path",
        Text,
        "PEM file of the authorities for client certificates",
    ),
    Row::new(CLIENTS, "ssl-require-peer-certs", Switch, "refuse TLS clients without a certificate"),
    Row::new(
        CLIENTS,
        "cluster-nodes",
        List,
        "the routers in the reply to `config get cluster`, HOST:PORT each; a name stands for all its addresses; default: this router's own addresses",
    ),
    Row::new(CLIENTS, "num-proxies", Text, "worker threads, or auto: one per processor")
        .aliases(&["proxy-threads", "workers"])
        .default("1"),
    Row::new(
        CLIENTS,
        "connection-limit",
        Whole,
        "maximum clients; 0 or 1, as in mcrouter: as many as there are descriptors",
    )
    .aliases(&["max-conns"])
    .field("max_conns")
    .default("65536"),
    Row::new(
        CLIENTS,
        "max-client-outstanding-reqs",
        Whole,
        "maximum requests of one client in progress",
    )
    .default("1024"),
    Row::new(
        CLIENTS,
        "connection-memory",
        Text,
        "memory limit for partial requests and unread replies, such as 64MiB; default: a quarter of the machine's or container's memory, at most 1GiB",
    ),
    Row::new(
        CLIENTS,
        "proxy-max-inflight-requests",
        Whole,
        "maximum requests of a thread in progress; a get of several keys counts as one; above it, the router does not read from clients; 0: no limit",
    )
    .default("0"),
    Row::new(
        CLIENTS,
        "proxy-max-throttled-requests",
        Whole,
        "maximum clients of a thread that wait for that limit; requests of further clients fail at once as busy; 0: no limit",
    )
    .default("0"),
    Row::new(
        CLIENTS,
        "enable-flush-cmd",
        Switch,
        "send flush_all to all servers of the configuration; without it, clients receive an error",
    ),
    Row::new(
        CLIENTS,
        "big-value-split-threshold",
        Whole,
        "split values above this number of bytes, as a BigValueRoute in front of each route does; 0: never",
    )
    .default("0"),
    Row::new(
        CLIENTS,
        "big-value-batch-size",
        Whole,
        "pieces of a value requested at once; 0: all of them",
    )
    .default("10"),
    Row::new(
        CLIENTS,
        "big-value-hide-reply-flag",
        Switch,
        "hide the flag of split values from clients",
    ),
    Row::new(
        CLIENTS,
        "disable-miss-on-get-errors",
        Switch,
        "return an error for a failed get instead of a miss",
    )
    .negates("miss_on_get_errors")
    .under_mcrouter("1"),
    Row::new(
        CLIENTS,
        "disable-miss-on-arith-errors",
        Switch,
        "return an error for a failed incr or decr instead of a miss",
    )
    .default("1")
    .under_mcrouter("0"),
    Row::new(
        CLIENTS,
        "group-remote-errors",
        Switch,
        "return `SERVER_ERROR remote error` for every failure",
    ),
    Row::new(
        CLIENTS,
        "allow-only-gets",
        Switch,
        "send gets to servers only: stores are not stored, and all else finds nothing",
    ),
    Row::new(
        CLIENTS,
        "enable-logging-route",
        Switch,
        "put a LoggingRoute in front of each route; it writes no log, but names of handles have it",
    ),
    Row::new(
        CLIENTS,
        "reported-version",
        Text,
        "the version that clients receive, such as `1.0.0 mcrouter`, mcrouter's own",
    )
    .default(DEFAULT_VERSION),
    Row::new(SERVERS, "server-timeout-ms", Whole, "time limit for a server's reply")
        .short('t')
        .aliases(&["server-timeout"])
        .field("server_timeout_ms")
        .default("1000"),
    Row::new(
        SERVERS,
        "within-cluster-timeout-ms",
        Whole,
        "the same for servers of the router's own cluster; 0: the pool's setting",
    )
    .default("0"),
    Row::new(
        SERVERS,
        "cross-cluster-timeout-ms",
        Whole,
        "the same for servers of other clusters of its region; 0: the pool's setting",
    )
    .default("0"),
    Row::new(
        SERVERS,
        "cross-region-timeout-ms",
        Whole,
        "the same for servers of other regions; 0: the pool's setting",
    )
    .default("0"),
    Row::new(
        SERVERS,
        "timeouts-until-tko",
        Whole,
        "timeouts in a row until a server is marked as failed",
    )
    .field("failures_until_tko")
    .default("3"),
    Row::new(
        SERVERS,
        "maximum-soft-tkos",
        Whole,
        "maximum servers marked as failed by timeouts at the same time; 0: no limit",
    )
    .default("40"),
    Row::new(SERVERS, "probe-timeout-initial", Whole, "milliseconds until a failed server is probed")
        .short('r')
        .aliases(&["probe-timeout-initial-ms", "retry-timeout"])
        .field("probe_delay_initial_ms")
        .default("10000"),
    Row::new(SERVERS, "probe-timeout-max", Whole, "maximum milliseconds between two probes")
        .aliases(&["probe-timeout-max-ms"])
        .field("probe_delay_max_ms")
        .default("60000"),
    Row::new(
        SERVERS,
        "keepalive-count",
        Whole,
        "TCP keepalive probes without an answer until a connection to a server is closed; 0: no keepalive",
    )
    .short('K')
    .aliases(&["keepalive-cnt"])
    .field("keepalive_cnt")
    .default("0"),
    Row::new(SERVERS, "keepalive-idle", Whole, "seconds of silence until the first keepalive probe")
        .short('I')
        .field("keepalive_idle_s")
        .default("300"),
    Row::new(SERVERS, "keepalive-interval", Whole, "seconds between two keepalive probes")
        .short('i')
        .field("keepalive_interval_s")
        .default("60"),
    Row::new(SERVERS, "disable-tko-tracking", Switch, "never mark servers as failed"),
    Row::new(
        SERVERS,
        "reset-inactive-connection-interval",
        Whole,
        "milliseconds until an unused connection is closed; 0: never",
    )
    .default("60000"),
    Row::new(
        SERVERS,
        "target-max-inflight-requests",
        Whole,
        "maximum requests of a thread in progress at one server, plus those of the next option; others fail at once; 0: no limit",
    )
    .default("0"),
    Row::new(
        SERVERS,
        "target-max-shadow-requests",
        Whole,
        "maximum requests of a thread in progress at one shadow; others are not sent; 0: no limit",
    )
    .default("1000"),
    Row::new(SERVERS, "target-max-pending-requests", Whole, "added to target-max-inflight-requests")
        .default("100000"),
    Row::new(
        SERVERS,
        "dns-server",
        Text,
        "IP:PORT of the DNS server, instead of those in /etc/resolv.conf",
    ),
    Row::new(
        SERVERS,
        "etcd",
        List,
        "http:// or https://HOST:PORT of the members of etcd, for pools named etcd:NAME in the configuration",
    ),
    Row::new(SERVERS, "etcd-prefix", Text, "the prefix of the keys in etcd").default("/guira/"),
    Row::new(
        SERVERS,
        "etcd-ca-cert",
        Text,
        "PEM file of the authorities for etcd's certificates; default: those of browsers",
    ),
    Row::new(SERVERS, "etcd-cert", Text, "PEM file of the router's certificate for etcd"),
    Row::new(SERVERS, "etcd-key", Text, "PEM file of its key"),
    Row::new(SERVERS, "etcd-login-file", Text, "log in to etcd with the first line of this file, USER:PASSWORD"),
    Row::new(
        SERVERS,
        "srv-hold-down-ms",
        Whole,
        "how long a server is kept after it has left the SRV record of its pool",
    )
    .default(guira_discovery::SRV_HOLD_DOWN_MS),
    Row::new(
        SERVERS,
        "enable-qos",
        Switch,
        "mark packets to servers (DSCP) according to `qos` of their pool",
    ),
    Row::new(SERVERS, "default-qos-class", Whole, "the class of pools without a class, 0 to 4").default("0"),
    Row::new(SERVERS, "default-qos-path", Whole, "the path of pools without a path, 0 to 3").default("0"),
    Row::new(
        SERVERS,
        "pem-cert-path",
        Text,
        "PEM file of the router's certificate for TLS servers; default: none",
    ),
    Row::new(SERVERS, "pem-key-path", Text, "PEM file of its key, which may be in the same file"),
    Row::new(
        SERVERS,
        "ssl-verify-peers",
        Switch,
        "verify certificates of servers against --pem-ca-path; without it, all are accepted",
    ),
    Row::new(SERVERS, "pem-ca-path", Text, "PEM file of the authorities for --ssl-verify-peers"),
    Row::new(
        SERVERS,
        "ssl-service-identity",
        Text,
        "the server name (SNI) sent to servers, instead of the host of each",
    ),
    Row::new(
        SERVERS,
        "ssl-service-identity-authorization-enforce",
        Switch,
        "require that name in the server's certificate",
    ),
    Row::new(SERVERS, "ssl-connection-cache", Switch, "resume TLS sessions by the servers' tickets"),
    Row::new(
        PROCESS,
        "admin",
        Text,
        "serve metrics, readiness and a page over HTTP: IP:PORT or [v6]:PORT, a PORT on 127.0.0.1, or unix:PATH",
    ),
    Row::new(
        PROCESS,
        "admin-token-file",
        Text,
        "require the token in this file for metrics (Authorization: Bearer …)",
    ),
    Row::new(
        DELETES,
        "async-dir",
        Text,
        "the folder for the log of undelivered deletes; it must exist",
    )
    .short('a')
    .field("async_spool")
    .default("/var/spool/mcrouter"),
    Row::new(DELETES, "asynclog-disable", Switch, "do not log undelivered deletes: clients receive the error"),
    Row::new(
        DELETES,
        "use-asynclog-version2",
        Switch,
        "log deletes in version AS2.0, with the name of their pool, so that they reach the servers that replaced others",
    ),
    Row::new(
        DELETES,
        "asynclog-sync",
        Text,
        "never: an acknowledged delete survives any end of the router; always: it is on the disk, and survives a crash of the machine",
    )
    .default("never"),
    Row::new(
        DELETES,
        "asynclog-replay-rate",
        Whole,
        "logged deletes delivered per second once their servers are back; 0: an external tool delivers them",
    )
    .default("10000"),
    Row::new(PROCESS, "log-path", Text, "a file for the log, instead of standard error")
        .short('L')
        .field("log_file"),
    Row::new(
        PROCESS,
        "stats-root",
        Text,
        "a folder for statistics in JSON, as mcrouter writes them; default: none are written",
    ),
    Row::new(
        PROCESS,
        "stats-logging-interval",
        Whole,
        "milliseconds between two writes of these statistics; 0: none are written",
    )
    .default("10000"),
    Row::new(
        PROCESS,
        "pool-stats-config-file",
        Text,
        "a JSON file whose `stats_enabled_pools` names the pools that these statistics contain",
    ),
    Row::new(PROCESS, "verbosity", Whole, "log level, up to 2").short('v').default("0"),
    Row::new(
        PROCESS,
        "system-calls",
        Text,
        "system calls that the router may make once it serves: all, or those that it needs (listed); others then return an error and are logged",
    )
    .default("all"),
    Row::new(PROCESS, "pid-file", Text, "a file for the process id").short('P').aliases(&["pidfile"]),
    Row::new(PROCESS, "help", Action, "print this help and exit").short('h'),
    Row::new(PROCESS, "version", Action, "print the version and exit").short('V'),
    ignored("debug-fifo-root", Text, "there are no debug fifos: use tcpdump"),
    ignored("fibers-max-pool-size", Whole, NO_FIBERS),
    ignored("fibers-stack-size", Whole, NO_FIBERS),
    ignored("fibers-debug-record-stack-size", Switch, NO_FIBERS),
    ignored("fibers-record-stack-size-every", Whole, NO_FIBERS),
    ignored("fibers-pool-resize-period-ms", Whole, NO_FIBERS),
    ignored("disable-fibers-use-guard-pages", Switch, NO_FIBERS)
        .aliases(&["fibers-use-guard-pages"])
        .negates("fibers_use_guard_pages"),
    ignored("rss-limit-mb", Whole, "buffers are bounded; limit the process by its cgroup"),
    ignored("thread-affinity", Switch, "each thread has its own connections"),
    ignored("force-same-thread", Switch, "a request stays in the thread of its client"),
    ignored("max-no-flush-event-loops", Whole, "requests are sent at the end of each round of a thread"),
    ignored("tcp-rto-min", Whole, "the system's value applies"),
    ignored("max-global-outstanding-reqs", Whole, "this limit does not exist"),
    ignored("proxy-max-inflight-shadow-requests", Whole, NO_SHADOW_LIMIT),
    ignored("max-shadow-token-map-size", Whole, "lease tokens of shadows are not mapped"),
    ignored("num-listening-sockets", Whole, "one socket is enough"),
    ignored("tfo-queue-size", Whole, NO_FAST_OPEN),
    ignored("enable-ssl-tfo", Switch, NO_FAST_OPEN),
    ignored("tcp-zero-copy-threshold", Whole, "replies are not sent without a copy"),
    ignored("client-timeout", Whole, "unread replies of a client are limited by --connection-memory")
        .field("client_timeout_ms"),
    ignored("waiting-request-timeout-ms", Whole, "a waiting client is served in its turn"),
    ignored(
        "connect-timeout-retries",
        Whole,
        "a server that accepts no connection in time is marked as failed and probed",
    ),
    ignored("constantly-reload-configs", Switch, "files are watched; SIGHUP reloads them"),
    ignored("reconfiguration-jitter-ms", Whole, "there is no jitter"),
    ignored("post-reconfiguration-delay-ms", Whole, "--reconfiguration-delay-ms is the only delay"),
    ignored("enable-partial-reconfigure", Switch, "a reload always keeps connections to unchanged servers"),
    ignored("cluster-pools-timeout", Whole, "use --within-cluster-timeout-ms").field("cluster_pools_timeout_ms"),
    ignored("regional-pools-timeout", Whole, "use --cross-cluster-timeout-ms").field("regional_pools_timeout_ms"),
    ignored("destination-rate-limiting", Switch, "rates of pools are always in effect"),
    ignored("enable-lease-pairing", Switch, "use enable_lease_pairing of a FailoverRoute"),
    ignored("disable-send-to-main-shard-split", Switch, DEPRECATED).negates("enable_send_to_main_shard_split"),
    ignored("disable-request-deadline-check", Switch, "memcached's protocols have no deadlines"),
    ignored("retain-source-ip", Switch, "OriginalClientHashRoute always knows the client's address"),
    ignored("postprocess-logging-route", Switch, NO_LOGGING_ROUTE),
    ignored("disable-failure-logging", Switch, "-v sets the log level").negates("enable_failure_logging"),
    ignored("logging-rtt-outlier-threshold-us", Whole, "use the histograms of --admin"),
    ignored("stats-async-queue-length", Whole, "there is no such queue"),
    ignored("collect-rxmit-stats-every-hz", Whole, NO_RXMIT),
    ignored("rxmit-latency-deviation-us", Whole, NO_RXMIT),
    ignored("min-rxmit-reconnect-threshold", Whole, NO_RXMIT),
    ignored("max-rxmit-reconnect-threshold", Whole, NO_RXMIT),
    ignored("cpu-cycles", Switch, "use perf"),
    ignored("proxy-cpu-interval-s", Whole, "use rusage_user and rusage_system of stats"),
    ignored("jemalloc-nodump-buffers", Switch, "memory is part of core dumps: limit these with ulimit -c"),
    ignored("test-mode", Switch, "use --asynclog-disable"),
    ignored("carbon-router-name", Text, "there is one router, Memcache"),
    ignored("enable-compression", Switch, NO_CARET),
    ignored("enable-server-compression", Switch, NO_CARET),
    ignored("enable-pass-through-mode", Switch, NO_CARET),
    ignored("thrift-compression-threshold", Whole, NO_CARET),
    ignored("server-load-interval-ms", Whole, NO_CARET),
    ignored("external-carbon-connection-logging-enabled", Switch, NO_CARET),
    ignored("external-carbon-connection-log-rate-per-hour", Whole, NO_CARET),
    ignored("external-carbon-connection-log-max-burst", Whole, NO_CARET),
    ignored("external-carbon-connection-log-sample-rate", Whole, NO_CARET),
    ignored("enable-service-router", Switch, "SRRoute needs a service of Meta"),
    ignored("enable-axonlog", Switch, "AxonLog is a service of Meta"),
    ignored("reqs-per-read", Whole, DEPRECATED).field("requests_per_read"),
    ignored("gets", Switch, DEPRECATED),
    ignored("skip-sanity-checks", Switch, DEPRECATED),
    ignored("ssl-handshake-offload", Switch, "a handshake does not block a thread for long"),
    ignored("ssl-use-ktls12", Switch, "the process itself encrypts"),
    ignored("tls-prefer-ocb-cipher", Switch, "there is no such cipher"),
    ignored("tls-ticket-key-seed-path", Text, "each process creates its own ticket keys"),
    ignored(
        "ssl-service-identity-authorization-log",
        Switch,
        "names are either enforced or ignored: --ssl-service-identity-authorization-enforce",
    ),
    refused("additional-ssl-service-identities", List, "a server's certificate is compared with one name"),
    refused("no-network", Switch, "the router would return random values: use a NullRoute"),
];
