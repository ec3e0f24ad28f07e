//! The options of `guira router`, one row each, with mcrouter's names and those of `guira serve` as aliases. The command
//! line, its help, the notes about options without effect, and docs/reference/router-options.md follow from the rows.

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No value.
    Switch,
    Whole,
    Text,
    /// May be given several times, each time with several, separated by commas.
    List,
    /// May be left out.
    Mode,
}

/// The effect of an option.
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
    pub(crate) alias: Option<&'static str>,
    pub(crate) kind: Kind,
    pub(crate) default: &'static str,
    pub(crate) effect: Effect,
    pub(crate) about: &'static str,
}

use Effect::{Nothing, Refused, Used};
use Kind::{List, Mode, Switch, Text, Whole};

impl Row {
    const fn new(section: &'static str, long: &'static str, kind: Kind, about: &'static str) -> Self {
        Row { section, long, short: None, alias: None, kind, default: "", effect: Used, about }
    }

    const fn short(self, short: char) -> Self {
        Row { short: Some(short), ..self }
    }

    const fn alias(self, alias: &'static str) -> Self {
        Row { alias: Some(alias), ..self }
    }

    const fn default(self, default: &'static str) -> Self {
        Row { default, ..self }
    }

    const fn is(self, effect: Effect) -> Self {
        Row { effect, ..self }
    }
}

const CONFIG: &str = "Configuration";
const CLIENTS: &str = "Clients";
const SERVERS: &str = "Servers";
const DELETES: &str = "Deletes that fail";
const PROCESS: &str = "Process";

const NO_LIMIT: Effect = Nothing("this limit does not exist");
const NO_FILES: Effect = Nothing("statistics are not written to files: use stats");
const NO_FIBERS: Effect = Nothing("the router has no fibers");

const fn ignored(long: &'static str, kind: Kind, effect: Effect) -> Row {
    Row::new("Options of mcrouter without effect", long, kind, "").is(effect)
}

const fn refused(long: &'static str, kind: Kind, effect: Effect) -> Row {
    Row::new("Options of mcrouter that are refused", long, kind, "").is(effect)
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
        .alias("default-route")
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
    Row::new(CONFIG, "service-name", Text, "the name of this router's service").default("unknown"),
    Row::new(CONFIG, "router-name", Text, "the name of this router").default("unknown"),
    Row::new(CLIENTS, "port", List, "TCP ports to listen on, on all addresses").short('p').alias("ports"),
    Row::new(
        CLIENTS,
        "listen",
        List,
        "addresses to listen on: IP:PORT, [v6]:PORT or unix:PATH; with the prefix btls: for TLS, or mtls: for TLS with client certificates",
    ),
    Row::new(CLIENTS, "udp", List, "addresses for gets in datagrams: IP:PORT or [v6]:PORT"),
    Row::new(CLIENTS, "unix-domain-sock", Text, "a UNIX socket to listen on"),
    Row::new(CLIENTS, "ssl-port", List, "TCP ports to listen on with TLS, on all addresses")
        .alias("ssl-ports"),
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
        .alias("workers")
        .default("1"),
    Row::new(
        CLIENTS,
        "connection-limit",
        Whole,
        "maximum clients; 0 or 1, as in mcrouter: as many as there are descriptors",
    )
    .alias("max-conns")
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
    ),
    Row::new(SERVERS, "server-timeout-ms", Whole, "time limit for a server's reply")
        .short('t')
        .alias("server-timeout")
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
    .default("3"),
    Row::new(
        SERVERS,
        "maximum-soft-tkos",
        Whole,
        "maximum servers marked as failed by timeouts at the same time; 0: no limit",
    )
    .default("40"),
    Row::new(SERVERS, "probe-timeout-initial-ms", Whole, "time until a failed server is probed")
        .short('r')
        .default("10000"),
    Row::new(SERVERS, "probe-timeout-max-ms", Whole, "maximum time between two probes").default("60000"),
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
    .default(guira_names::SRV_HOLD_DOWN_MS),
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
    Row::new(PROCESS, "log-path", Text, "a file for the log, instead of standard error").short('L'),
    Row::new(PROCESS, "verbosity", Whole, "log level, up to 2").short('v').default("0"),
    Row::new(PROCESS, "pid-file", Text, "a file for the process id").short('P').alias("pidfile"),
    Row::new(PROCESS, "help", Switch, "print this help and exit").short('h'),
    Row::new(PROCESS, "version", Switch, "print the version and exit").short('V'),
    ignored("stats-root", Text, NO_FILES),
    ignored("stats-logging-interval", Whole, NO_FILES),
    ignored("debug-fifo-root", Text, Nothing("there are no debug fifos: use tcpdump")),
    ignored("fibers-max-pool-size", Whole, NO_FIBERS),
    ignored("fibers-stack-size", Whole, NO_FIBERS),
    ignored("fibers-debug-record-stack-size", Switch, NO_FIBERS),
    ignored("fibers-record-stack-size-every", Whole, NO_FIBERS),
    ignored("fibers-pool-resize-period-ms", Whole, NO_FIBERS),
    ignored("fibers-use-guard-pages", Switch, NO_FIBERS),
    ignored("rss-limit-mb", Whole, Nothing("buffers are bounded; limit the process by its cgroup")),
    ignored("thread-affinity", Switch, Nothing("each thread has its own connections")),
    ignored("keepalive-cnt", Whole, Nothing("the system's defaults apply")),
    ignored("keepalive-idle", Whole, Nothing("the system's defaults apply")),
    ignored("keepalive-interval", Whole, Nothing("the system's defaults apply")),
    ignored("max-global-outstanding-reqs", Whole, NO_LIMIT),
    ignored("num-listening-sockets", Whole, Nothing("one socket is enough")),
    ignored("reconfiguration-jitter-ms", Whole, Nothing("there is no jitter")),
    ignored("ssl-handshake-offload", Switch, Nothing("a handshake does not block a thread for long")),
    ignored("enable-ssl-tfo", Switch, Nothing("TCP fast open is not used")),
    ignored("tls-prefer-ocb-cipher", Switch, Nothing("there is no such cipher")),
    ignored("tls-ticket-key-seed-path", Text, Nothing("each process creates its own ticket keys")),
    ignored(
        "ssl-service-identity-authorization-log",
        Switch,
        Nothing("names are either enforced or ignored: --ssl-service-identity-authorization-enforce"),
    ),
    refused("allow-only-gets", Switch, Refused("use an OperationSelectorRoute in the configuration")),
    refused(
        "listen-sock-fd",
        Whole,
        Refused("sockets are accepted only from a service manager (LISTEN_FDS)"),
    ),
    refused(
        "additional-ssl-service-identities",
        List,
        Refused("a server's certificate is compared with one name"),
    ),
    refused("ssl-use-ktls12", Switch, Refused("the process itself does TLS")),
];
