//! The options of `guira router`, one row each: mcrouter's names, and those of `guira serve` beside them. The command line, its help, the notes
//! about options without effect, and docs/reference/router-options.md follow from the rows.

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// There is none.
    Switch,
    Whole,
    Text,
    /// May be given several times, each time with several, separated by commas.
    List,
    /// May be left out.
    Mode,
}

/// What becomes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Used,
    /// It is accepted, and changes nothing, for this reason.
    Nothing(&'static str),
    /// The router cannot do what it promises.
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

const NO_LIMIT: Effect = Nothing("requests are not limited so yet");
const NO_FILES: Effect = Nothing("statistics are not written to files: use stats");
const NO_FIBERS: Effect = Nothing("there are no fibers here");

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
        "check the configuration, print what is wrong or doubtful, and exit with 1 or 0 (`run`: go on if it is right)",
    ),
    Row::new(CONFIG, "route-prefix", Text, "where keys without a prefix go: /region/cluster/")
        .short('R')
        .alias("default-route")
        .default("/././"),
    Row::new(
        CONFIG,
        "send-invalid-route-to-default",
        Switch,
        "send keys whose prefix is unknown where keys without one go",
    ),
    Row::new(
        CONFIG,
        "disable-reload-configs",
        Switch,
        "do not watch the configuration's files; SIGHUP still reads them again",
    ),
    Row::new(
        CONFIG,
        "file-observer-poll-period-ms",
        Whole,
        "how often files are looked at, beside the system's own notices",
    )
    .default("100"),
    Row::new(CONFIG, "file-observer-sleep-before-update-ms", Whole, "wait for so long after a change")
        .default("1000"),
    Row::new(CONFIG, "reconfiguration-delay-ms", Whole, "and for so long in addition").default("1000"),
    Row::new(
        CONFIG,
        "config-dump-root",
        Text,
        "a folder for the last good configuration, which is used at a start when the source is unreadable or wrong",
    ),
    Row::new(CONFIG, "service-name", Text, "the service that this router belongs to").default("unknown"),
    Row::new(CONFIG, "router-name", Text, "the name of this router").default("unknown"),
    Row::new(CLIENTS, "port", List, "TCP ports to listen on, on all addresses").short('p').alias("ports"),
    Row::new(
        CLIENTS,
        "listen",
        List,
        "addresses to listen on: IP:PORT, [v6]:PORT or unix:PATH; with btls: in front for TLS, or mtls: for TLS with client certificates",
    ),
    Row::new(CLIENTS, "udp", List, "addresses to take gets in datagrams at: IP:PORT or [v6]:PORT"),
    Row::new(CLIENTS, "unix-domain-sock", Text, "a UNIX socket to listen on"),
    Row::new(CLIENTS, "ssl-port", List, "TCP ports to listen on with TLS, on all addresses")
        .alias("ssl-ports"),
    Row::new(
        CLIENTS,
        "server-pem-cert-path",
        Text,
        "PEM file of the certificate that clients are shown; without it, that of --pem-cert-path",
    ),
    Row::new(CLIENTS, "server-pem-key-path", Text, "PEM file of its key, which may be in the same file"),
    Row::new(
        CLIENTS,
        "server-pem-ca-path",
        Text,
        "PEM file of the authorities that certificates of clients are checked against, if they present any",
    ),
    Row::new(CLIENTS, "ssl-require-peer-certs", Switch, "refuse clients with TLS that present none"),
    Row::new(
        CLIENTS,
        "cluster-nodes",
        List,
        "the routers that `config get cluster` tells of, HOST:PORT each, where a name stands for all its addresses; without it, this one's own addresses",
    ),
    Row::new(CLIENTS, "num-proxies", Text, "threads, or auto: one for each processor")
        .alias("workers")
        .default("1"),
    Row::new(
        CLIENTS,
        "connection-limit",
        Whole,
        "clients at most; 0 or 1, as in mcrouter: as many as there are descriptors for",
    )
    .alias("max-conns")
    .default("65536"),
    Row::new(
        CLIENTS,
        "max-client-outstanding-reqs",
        Whole,
        "requests of one client that are under way at once",
    )
    .default("1024"),
    Row::new(
        CLIENTS,
        "connection-memory",
        Text,
        "what requests in part and replies that are not taken may hold, as 64MiB; without it, a quarter of the machine's memory, or of what its container may have, at most 1GiB",
    ),
    Row::new(
        CLIENTS,
        "proxy-max-inflight-requests",
        Whole,
        "requests of a thread that are under way at once, a get of several keys being one: beyond that, clients are not read; 0: without limit",
    )
    .default("0"),
    Row::new(
        CLIENTS,
        "proxy-max-throttled-requests",
        Whole,
        "clients of a thread that wait so; requests of others fail at once as busy; 0: without limit",
    )
    .default("0"),
    Row::new(
        CLIENTS,
        "enable-flush-cmd",
        Switch,
        "pass flush_all on to all servers of the configuration; without it, clients are told that it is disabled",
    ),
    Row::new(
        CLIENTS,
        "big-value-split-threshold",
        Whole,
        "split values that are longer, in bytes, as by a BigValueRoute in front of each route; 0: never",
    )
    .default("0"),
    Row::new(
        CLIENTS,
        "big-value-batch-size",
        Whole,
        "pieces of a value that are asked for at once; 0: all of them",
    )
    .default("10"),
    Row::new(
        CLIENTS,
        "big-value-hide-reply-flag",
        Switch,
        "do not show clients the flag of items whose value is split",
    ),
    Row::new(
        CLIENTS,
        "disable-miss-on-get-errors",
        Switch,
        "tell clients of gets that failed, instead of a miss",
    ),
    Row::new(SERVERS, "server-timeout-ms", Whole, "how long a server may take")
        .short('t')
        .alias("server-timeout")
        .default("1000"),
    Row::new(
        SERVERS,
        "within-cluster-timeout-ms",
        Whole,
        "the same, for servers of the router's own cluster; 0: as the pool says",
    )
    .default("0"),
    Row::new(
        SERVERS,
        "cross-cluster-timeout-ms",
        Whole,
        "the same, for servers of other clusters of its region; 0: as the pool says",
    )
    .default("0"),
    Row::new(
        SERVERS,
        "cross-region-timeout-ms",
        Whole,
        "the same, for servers of other regions; 0: as the pool says",
    )
    .default("0"),
    Row::new(
        SERVERS,
        "timeouts-until-tko",
        Whole,
        "timeouts in a row until a server is taken out of service",
    )
    .default("3"),
    Row::new(
        SERVERS,
        "maximum-soft-tkos",
        Whole,
        "servers that may be out of service for timeouts at once; 0: any number",
    )
    .default("40"),
    Row::new(SERVERS, "probe-timeout-initial-ms", Whole, "when such a server is tried again")
        .short('r')
        .default("10000"),
    Row::new(SERVERS, "probe-timeout-max-ms", Whole, "at the latest, after some attempts").default("60000"),
    Row::new(SERVERS, "disable-tko-tracking", Switch, "never take servers out of service"),
    Row::new(
        SERVERS,
        "reset-inactive-connection-interval",
        Whole,
        "milliseconds after which an unused connection is closed; 0: never",
    )
    .default("60000"),
    Row::new(
        SERVERS,
        "target-max-inflight-requests",
        Whole,
        "requests of a thread that one server has not answered, with those below; others fail at once; 0: without limit",
    )
    .default("0"),
    Row::new(SERVERS, "target-max-pending-requests", Whole, "added to target-max-inflight-requests")
        .default("100000"),
    Row::new(
        SERVERS,
        "dns-server",
        Text,
        "IP:PORT of the DNS server that is asked for names, instead of those in /etc/resolv.conf",
    ),
    Row::new(
        SERVERS,
        "etcd",
        List,
        "http:// or https://HOST:PORT of the members of etcd, where pools are kept that configurations call etcd:NAME",
    ),
    Row::new(SERVERS, "etcd-prefix", Text, "what the keys of etcd begin with").default("/guira/"),
    Row::new(
        SERVERS,
        "etcd-ca-cert",
        Text,
        "PEM file of the authorities that certificates of etcd are checked against; without it, those that browsers know",
    ),
    Row::new(SERVERS, "etcd-cert", Text, "PEM file of the certificate that etcd is shown"),
    Row::new(SERVERS, "etcd-key", Text, "PEM file of its key"),
    Row::new(SERVERS, "etcd-login-file", Text, "log in to etcd as the first line of this file says, USER:PASSWORD"),
    Row::new(
        SERVERS,
        "srv-hold-down-ms",
        Whole,
        "how long a server is kept that the SRV record of its pool does not have any more",
    )
    .default(guira_names::SRV_HOLD_DOWN_MS),
    Row::new(
        SERVERS,
        "enable-qos",
        Switch,
        "mark packets to servers (DSCP), as `qos` of their pool says; without it, they are not marked",
    ),
    Row::new(SERVERS, "default-qos-class", Whole, "the class of pools that name none, 0 to 4").default("0"),
    Row::new(SERVERS, "default-qos-path", Whole, "the path of pools that name none, 0 to 3").default("0"),
    Row::new(
        SERVERS,
        "pem-cert-path",
        Text,
        "PEM file of the certificate that servers with TLS are shown; without it, none",
    ),
    Row::new(SERVERS, "pem-key-path", Text, "PEM file of its key, which may be in the same file"),
    Row::new(
        SERVERS,
        "ssl-verify-peers",
        Switch,
        "check certificates of servers against --pem-ca-path; otherwise any is accepted",
    ),
    Row::new(SERVERS, "pem-ca-path", Text, "PEM file of the authorities for that"),
    Row::new(
        SERVERS,
        "ssl-service-identity",
        Text,
        "the name that servers are asked for (SNI), instead of the host of each",
    ),
    Row::new(
        SERVERS,
        "ssl-service-identity-authorization-enforce",
        Switch,
        "the certificate must have that name",
    ),
    Row::new(SERVERS, "ssl-connection-cache", Switch, "resume TLS sessions that servers gave tickets for"),
    Row::new(
        PROCESS,
        "admin",
        Text,
        "serve metrics, readiness and a page for people over HTTP: IP:PORT or [v6]:PORT, a PORT of this host only, or unix:PATH",
    ),
    Row::new(
        PROCESS,
        "admin-token-file",
        Text,
        "let only those see metrics who show the token in this file (Authorization: Bearer …)",
    ),
    Row::new(
        DELETES,
        "async-dir",
        Text,
        "the folder that deletes are logged in which could not be delivered, before they are acknowledged; it has to be there",
    )
    .short('a')
    .default("/var/spool/mcrouter"),
    Row::new(DELETES, "asynclog-disable", Switch, "do not log them: clients are told the failure"),
    Row::new(
        DELETES,
        "use-asynclog-version2",
        Switch,
        "log them in version AS2.0, with the name of their pool, by which they find servers that have taken the place of others",
    ),
    Row::new(
        DELETES,
        "asynclog-sync",
        Text,
        "never: an acknowledged delete survives the end of the router, however it ends; always: it is on the disk, and survives a crash of the machine",
    )
    .default("never"),
    Row::new(
        DELETES,
        "asynclog-replay-rate",
        Whole,
        "logged deletes that are delivered in a second, once their servers are back; 0: they are left to others",
    )
    .default("10000"),
    Row::new(PROCESS, "log-path", Text, "a file for the log, instead of standard error").short('L'),
    Row::new(PROCESS, "verbosity", Whole, "more of the log, up to 2").short('v').default("0"),
    Row::new(PROCESS, "pid-file", Text, "a file for the number of the process").short('P').alias("pidfile"),
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
    ignored("thread-affinity", Switch, Nothing("each thread has connections of its own")),
    ignored("keepalive-cnt", Whole, Nothing("the system's defaults hold")),
    ignored("keepalive-idle", Whole, Nothing("the system's defaults hold")),
    ignored("keepalive-interval", Whole, Nothing("the system's defaults hold")),
    ignored("max-global-outstanding-reqs", Whole, NO_LIMIT),
    ignored("num-listening-sockets", Whole, Nothing("one socket is enough")),
    ignored("reconfiguration-jitter-ms", Whole, Nothing("there is no jitter")),
    ignored("ssl-handshake-offload", Switch, Nothing("a handshake does not stop a thread for long")),
    ignored("enable-ssl-tfo", Switch, Nothing("TCP fast open is not used")),
    ignored("tls-prefer-ocb-cipher", Switch, Nothing("there is no such cipher here")),
    ignored("tls-ticket-key-seed-path", Text, Nothing("keys of tickets are made by each process")),
    ignored(
        "ssl-service-identity-authorization-log",
        Switch,
        Nothing("names are enforced, or not looked at: --ssl-service-identity-authorization-enforce"),
    ),
    refused("allow-only-gets", Switch, Refused("use an OperationSelectorRoute in the configuration")),
    refused(
        "listen-sock-fd",
        Whole,
        Refused("sockets are taken over from a service manager (LISTEN_FDS) only"),
    ),
    refused(
        "additional-ssl-service-identities",
        List,
        Refused("the certificate of a server is compared with one name"),
    ),
    refused("ssl-use-ktls12", Switch, Refused("TLS stays in this process")),
];
