//! memcached's options, one row each: its flags, and the words of its -o. What a row sets is an option of [`guira_server::OPTIONS`], in
//! whose units the value is rewritten. The command line, -h, and the warnings follow from the rows; what each comes to is also said in
//! docs/guide/replacing-memcached.md, which is compared with them.

use guira_server::Size;

/// What becomes of an option's value: another text, of which an empty one stands for the default; or what is wrong with it.
pub(super) type Rewrite = fn(&str) -> Result<String, String>;

/// What an option comes to here.
#[derive(Clone, Copy)]
pub(super) enum Effect {
    /// It sets this option to what becomes of its value.
    Sets(&'static str, Rewrite),
    /// It sets this option to this; it has no value.
    SetsTo(&'static str, &'static str),
    /// It has a value, which is read elsewhere in this module, for this option if it is named.
    Read(Option<&'static str>, Rewrite),
    /// It has no value; whether it is given is looked at elsewhere in this module.
    Seen,
    /// Nothing, for this reason; it may have a value.
    Nothing(&'static str),
    /// It is refused, for this reason: the server cannot do what it promises.
    Refused(&'static str),
}

impl Effect {
    pub(super) fn has_value(self) -> bool {
        matches!(self, Effect::Sets(..) | Effect::Read(..) | Effect::Nothing(_))
    }

    /// The option of `guira serve` that it is about.
    pub(super) fn option(self) -> Option<&'static str> {
        match self {
            Effect::Sets(option, _) | Effect::SetsTo(option, _) => Some(option),
            Effect::Read(option, _) => option,
            _ => None,
        }
    }
}

/// A flag. A line break in `about` is one in -h.
pub(super) struct Flag {
    pub(super) short: Option<char>,
    pub(super) long: &'static str,
    pub(super) value_name: &'static str,
    pub(super) effect: Effect,
    pub(super) about: &'static str,
}

pub(super) struct Word {
    pub(super) name: &'static str,
    pub(super) effect: Effect,
    pub(super) about: &'static str,
}

use Effect::{Nothing, Read, Refused, Seen, Sets, SetsTo};

const fn flag(
    short: char,
    long: &'static str,
    value_name: &'static str,
    effect: Effect,
    about: &'static str,
) -> Flag {
    Flag { short: Some(short), long, value_name, effect, about }
}

const fn word(name: &'static str, effect: Effect, about: &'static str) -> Word {
    Word { name, effect, about }
}

const fn nothing(name: &'static str, why: &'static str) -> Word {
    Word { name, effect: Nothing(why), about: "" }
}

const fn refused(name: &'static str, why: &'static str) -> Word {
    Word { name, effect: Refused(why), about: "" }
}

/// The flag without a long name.
pub(super) const DELIMITER: &str = "delimiter";

pub(super) const FLAGS: &[Flag] = &[
    flag(
        'p',
        "port",
        "num",
        Read(Some("listen"), integer),
        "TCP port to listen on (default: 11211, -1 takes a free one)",
    ),
    flag('U', "udp-port", "num", Read(Some("udp"), integer), "UDP port to listen on (default: 0, off)"),
    flag(
        's',
        "unix-socket",
        "file",
        Read(Some("listen"), same),
        "UNIX socket to listen on (disables network support)",
    ),
    flag(
        'a',
        "unix-mask",
        "mask",
        Sets("unix-mode", given),
        "access mask for UNIX socket, in octal (default: 700)",
    ),
    flag('A', "enable-shutdown", "", SetsTo("enable-shutdown", "true"), "enable the \"shutdown\" command"),
    flag(
        'l',
        "listen",
        "addr",
        Read(Some("listen"), same),
        "interface to listen on (default: all); a list, with\nnotls: btls: mtls: (with -Z),\nproto[ascii|binary|negotiating]: and tag[NAME]: before\nan address",
    ),
    flag('d', "daemon", "", Seen, "run as a daemon"),
    flag('r', "enable-coredumps", "", Seen, "maximize core file limit"),
    flag('u', "user", "user", Read(Some("user"), same), "assume identity of <user> (only when run as root)"),
    flag(
        'm',
        "memory-limit",
        "num",
        Sets("memory", mebibytes),
        "memory of the whole process in megabytes (default: 64)",
    ),
    flag(
        'M',
        "disable-evictions",
        "",
        SetsTo("disable-evictions", "true"),
        "return error on memory exhausted instead of evicting",
    ),
    flag('k', "lock-memory", "", SetsTo("lock-memory", "true"), "lock down all paged memory"),
    flag('L', "enable-largepages", "", SetsTo("huge-pages", "true"), "ask for large memory pages"),
    flag(
        'f',
        "slab-growth-factor",
        "num",
        Sets("growth-factor", given),
        "chunk size growth factor (default: 1.06)",
    ),
    flag(
        'n',
        "slab-min-size",
        "bytes",
        Sets("smallest-item", given),
        "min space used for key+value+flags (default: 16)",
    ),
    flag(
        'e',
        "memory-file",
        "file",
        Read(Some("region"), same),
        "mmap a file for item memory: restartable cache (stop\nwith SIGUSR1)",
    ),
    flag(
        'c',
        "conn-limit",
        "num",
        Sets("max-connections", given),
        "max simultaneous connections (default: 1024)",
    ),
    flag('v', "verbose", "", Seen, "verbose (-vv more so)"),
    flag('h', "help", "", Seen, "print this help and exit"),
    flag('i', "license", "", Seen, "print the license and exit"),
    flag('V', "version", "", Seen, "print version and exit"),
    flag('P', "pidfile", "file", Read(None, same), "save PID in <file>"),
    flag(
        'D',
        DELIMITER,
        "char",
        Sets("prefix-delimiter", first_letter),
        "delimiter between key prefixes and the rest, for\n\"stats detail\" (default: \":\"), which is then on",
    ),
    flag('t', "threads", "num", Sets("workers", threads), "number of threads to use (default: 4)"),
    flag('R', "max-reqs-per-event", "num", Nothing("connections always take turns"), ""),
    flag(
        'C',
        "disable-cas",
        "",
        SetsTo("disable-cas", "true"),
        "do without cas uniques: 0 is shown, and cas stores nothing",
    ),
    flag(
        'b',
        "listen-backlog",
        "num",
        Sets("backlog", backlog),
        "set the backlog queue limit (default: 1024)",
    ),
    flag(
        'B',
        "protocol",
        "name",
        Sets("protocol", given),
        "protocol - one of ascii, binary, or auto (default)",
    ),
    flag(
        'I',
        "max-item-size",
        "num",
        Sets("max-item-size", item_size),
        "max item size (default: 1m, min: 1k, max: 1024m)",
    ),
    flag(
        'S',
        "enable-sasl",
        "",
        Seen,
        "SASL authentication (PLAIN, binary protocol), with the\nusers of -Y or MEMCACHED_SASL_PWDB",
    ),
    flag('Z', "enable-ssl", "", Seen, "TLS, with the certificate of -o ssl_chain_cert"),
    flag('F', "disable-flush-all", "", SetsTo("disable-flush-all", "true"), "disable flush_all command"),
    flag(
        'X',
        "disable-dumping",
        "",
        SetsTo("disable-dumping", "true"),
        "disable stats cachedump, stats detail and lru_crawler\nmetadump and mgdump",
    ),
    flag('W', "disable-watch", "", SetsTo("disable-watch", "true"), "disable watch commands (live logging)"),
    flag(
        'Y',
        "auth-file",
        "file",
        Sets("auth-file", given),
        "text protocol authentication: lines of user:pass",
    ),
    flag('N', "napi-ids", "num", Nothing("connections are dealt out in turn"), ""),
    Flag {
        short: None,
        long: "test-commands",
        value_name: "",
        effect: SetsTo("test-commands", "true"),
        about: "answer debugtime and debugitem, for tests of clients",
    },
    Flag {
        short: None,
        long: "takeover",
        value_name: "path",
        effect: Sets("takeover", given),
        about: "take over from the server that was started with the same path, and wait for a successor",
    },
    flag('o', "extended", "", Read(None, same), "comma separated list of extended options"),
];

const INDEX: &str = "the index grows automatically";
const HASH: &str = "keys are hashed with a secret seed";
const POLICY: &str =
    "the server chooses the eviction policy; guira serve --policy seg-lru has segments to tune";
const MOVING: &str = "memory moves between classes automatically";
const LAYOUT: &str = "long items are kept in chunks of their own";
const CRAWLER: &str = "the crawler removes expired items in idle time";
const BUFFERS: &str = "replies have no objects";
const FLASH: &str = "items are kept in memory only";
const PROXY: &str = "this server is not a proxy";

pub(super) const WORDS: &[Word] = &[
    word(
        "maxconns_fast",
        SetsTo("beyond-max", "refuse"),
        "immediately close new connections after limit (default: enabled)",
    ),
    word("no_maxconns_fast", SetsTo("beyond-max", "wait"), "let new connections wait after limit"),
    word(
        "idle_timeout",
        Sets("idle-timeout", number),
        "timeout for idle connections, in seconds (default: 0, no timeout)",
    ),
    word("ssl_chain_cert", Sets("tls-cert", given), "certificate chain file in PEM format"),
    word("ssl_key", Sets("tls-key", given), "private key, if not part of the -ssl_chain_cert"),
    word(
        "ssl_verify_mode",
        Sets("tls-verify", given),
        "peer certificate verification: 0 none, 1 request, 2 and 3 require",
    ),
    word("ssl_ciphers", Sets("tls-ciphers", given), "cipher suites to be used"),
    word("ssl_ca_cert", Sets("tls-ca", given), "PEM format file of acceptable client CA's"),
    word("ssl_session_cache", SetsTo("tls-resumption", "true"), "let clients resume sessions"),
    word(
        "ssl_min_version",
        Sets("tls-min-version", given),
        "minimum protocol version: tlsv1.2 (2), tlsv1.3 (3)",
    ),
    word("ssl_keyformat", Read(None, key_format), "private key format: PEM (1)"),
    nothing("ssl_wbuf_size", "what TLS holds back is bounded"),
    nothing("ssl_kernel_tls", "the server itself does TLS"),
    word(
        "read_buf_mem_limit",
        Sets("connection-memory", connection_memory),
        "megabytes for requests and replies in progress (default: derived from -m)",
    ),
    word(
        "watcher_logbuf_size",
        Sets("watcher-buffer", kilobytes),
        "kilobytes kept for each watcher (default: 256)",
    ),
    word(
        "worker_logbuf_size",
        Sets("worker-log-buffer", kilobytes),
        "kilobytes kept for each worker's log (default: 64)",
    ),
    nothing("track_sizes", "stats sizes always counts"),
    nothing("sock_cookie_id", "no socket is marked"),
    word("relaxed_privileges", SetsTo("test-commands", "true"), "answer debugtime and debugitem, for tests"),
    nothing("hashpower", INDEX),
    nothing("no_hashexpand", INDEX),
    nothing("hash_algorithm", HASH),
    nothing("tail_repair_time", "no client holds an item"),
    nothing("slab_reassign", MOVING),
    nothing("no_slab_reassign", MOVING),
    nothing("slab_automove", MOVING),
    nothing("no_slab_automove", MOVING),
    nothing("slab_automove_ratio", MOVING),
    nothing("slab_automove_window", MOVING),
    nothing("slab_automove_freeratio", MOVING),
    nothing("slab_sizes", LAYOUT),
    nothing("slab_chunk_max", LAYOUT),
    nothing("no_chunked_items", LAYOUT),
    nothing("lru_crawler", CRAWLER),
    nothing("no_lru_crawler", CRAWLER),
    nothing("lru_crawler_sleep", CRAWLER),
    nothing("lru_crawler_tocrawl", CRAWLER),
    nothing("lru_maintainer", POLICY),
    nothing("no_lru_maintainer", POLICY),
    nothing("hot_lru_pct", POLICY),
    nothing("warm_lru_pct", POLICY),
    nothing("hot_max_factor", POLICY),
    nothing("warm_max_factor", POLICY),
    nothing("temporary_ttl", POLICY),
    nothing("modern", "there is only one mode"),
    nothing("no_modern", "there is only one mode"),
    nothing("resp_obj_mem_limit", BUFFERS),
    nothing("inline_ascii_resp", BUFFERS),
    nothing("no_inline_ascii_resp", BUFFERS),
    word(
        "drop_privileges",
        SetsTo("system-calls", "listed"),
        "refuse system calls that the server does not need",
    ),
    word("no_drop_privileges", SetsTo("system-calls", "all"), "refuse no system calls (default)"),
    refused("ext_path", FLASH),
    refused("ext_page_size", FLASH),
    refused("ext_wbuf_size", FLASH),
    refused("ext_threads", FLASH),
    refused("ext_io_depth", FLASH),
    refused("ext_item_size", FLASH),
    refused("ext_item_age", FLASH),
    refused("ext_low_ttl", FLASH),
    refused("ext_drop_unread", FLASH),
    refused("ext_recache_rate", FLASH),
    refused("ext_compact_under", FLASH),
    refused("ext_drop_under", FLASH),
    refused("ext_max_frag", FLASH),
    refused("ext_max_sleep", FLASH),
    refused("proxy_config", PROXY),
    refused("proxy_arg", PROXY),
    refused("proxy_uring", PROXY),
    refused("proxy_memprofile", PROXY),
];

fn same(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

fn given(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { same(text) }
}

fn integer(text: &str) -> Result<String, String> {
    text.parse::<i32>().map(|number| number.to_string()).map_err(|error| error.to_string())
}

fn mebibytes(text: &str) -> Result<String, String> {
    let mebibytes: usize =
        text.trim().parse().map_err(|_| format!("-m must be a number of MiB, not {text}"))?;
    Ok(Size(mebibytes.saturating_mul(1 << 20)).to_string())
}

fn kilobytes(text: &str) -> Result<String, String> {
    whole(text).map(|kilobytes| Size(kilobytes as usize * 1024).to_string())
}

/// In MiB; nothing for 0, which is the default.
fn connection_memory(text: &str) -> Result<String, String> {
    let mebibytes = whole(text)?;
    Ok(if mebibytes == 0 { String::new() } else { Size((mebibytes as usize) << 20).to_string() })
}

/// The number of bytes, or of K or M.
fn item_size(text: &str) -> Result<String, String> {
    let (number, unit) = match text.trim().char_indices().last() {
        Some((at, 'k' | 'K')) => (&text.trim()[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text.trim()[..at], 1 << 20),
        _ => (text.trim(), 1),
    };
    let bytes: usize =
        number.parse().map_err(|_| format!("-I must be a number with k, m or no unit, not {text}"))?;
    Ok(Size(bytes.saturating_mul(unit)).to_string())
}

/// As the system reads it: a negative one is as many as it allows.
fn backlog(text: &str) -> Result<String, String> {
    let backlog: i32 = text.parse().map_err(|error: std::num::ParseIntError| error.to_string())?;
    Ok(u32::try_from(backlog).unwrap_or(i32::MAX as u32).to_string())
}

fn threads(text: &str) -> Result<String, String> {
    match text {
        "0" => Err("-t: the number of threads must be greater than 0".to_owned()),
        text => given(text),
    }
}

fn first_letter(text: &str) -> Result<String, String> {
    Ok(text.chars().take(1).collect())
}

fn whole(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("must be a number, not {text}"))
}

fn number(text: &str) -> Result<String, String> {
    whole(text).map(|number| number.to_string())
}

fn key_format(text: &str) -> Result<String, String> {
    match text {
        "1" | "PEM" => same(text),
        _ => Err("only PEM (1) is supported".to_owned()),
    }
}
