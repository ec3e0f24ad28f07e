//! -o: memcached's list of further options.

use std::fmt::Write as _;

use guira_server::Size;

use crate::failure::Failure;
use crate::options::Told;

/// What an option of -o comes to here.
#[derive(Clone, Copy)]
enum Effect {
    /// It is set, from its value.
    Set(fn(&mut Told, &str) -> Result<(), String>),
    /// It is set; it has no value.
    Flag(fn(&mut Told)),
    /// Nothing, because of this; it may have a value.
    Nothing(&'static str),
    /// It is refused, because of this: whoever asks for it would miss it.
    Refused(&'static str),
}

/// An option of -o.
struct Extended {
    name: &'static str,
    effect: Effect,
    about: &'static str,
}

const fn set(
    name: &'static str,
    about: &'static str,
    effect: fn(&mut Told, &str) -> Result<(), String>,
) -> Extended {
    Extended { name, effect: Effect::Set(effect), about }
}

const fn flag(name: &'static str, about: &'static str, effect: fn(&mut Told)) -> Extended {
    Extended { name, effect: Effect::Flag(effect), about }
}

const fn nothing(name: &'static str, why: &'static str) -> Extended {
    Extended { name, effect: Effect::Nothing(why), about: "" }
}

const fn refused(name: &'static str, why: &'static str) -> Extended {
    Extended { name, effect: Effect::Refused(why), about: "" }
}

const INDEX: &str = "the index grows by itself";
const HASH: &str = "keys are hashed with a secret seed";
const POLICY: &str = "CLOCK evicts here; guira serve --policy seg-lru has segments to tune";
const MOVING: &str = "memory moves between classes by itself";
const LAYOUT: &str = "long items are kept in chunks of their own";
const CRAWLER: &str = "expired items are looked for in idle time";
const BUFFERS: &str = "replies have no objects";
const FLASH: &str = "items are kept in memory only";
const PROXY: &str = "this server is no proxy";

const OPTIONS: &[Extended] = &[
    flag("maxconns_fast", "immediately close new connections after limit (default: enabled)", |told| {
        told.beyond_max = Some("refuse".to_owned());
    }),
    flag("no_maxconns_fast", "let new connections wait after limit", |told| {
        told.beyond_max = Some("wait".to_owned());
    }),
    set(
        "idle_timeout",
        "timeout for idle connections, in seconds (default: 0, no timeout)",
        |told, value| {
            told.idle_timeout = Some(number(value)?);
            Ok(())
        },
    ),
    set("ssl_chain_cert", "certificate chain file in PEM format", |told, value| {
        keep(&mut told.tls_cert, value)
    }),
    set("ssl_key", "private key, if not part of the -ssl_chain_cert", |told, value| {
        keep(&mut told.tls_key, value)
    }),
    set(
        "ssl_verify_mode",
        "peer certificate verification: 0 none, 1 request, 2 and 3 require",
        |told, value| keep(&mut told.tls_verify, value),
    ),
    set("ssl_ciphers", "cipher suites to be used", |told, value| keep(&mut told.tls_ciphers, value)),
    set("ssl_ca_cert", "PEM format file of acceptable client CA's", |told, value| {
        keep(&mut told.tls_ca, value)
    }),
    flag("ssl_session_cache", "let clients resume sessions", |told| told.tls_resumption = Some(true)),
    set("ssl_min_version", "minimum protocol version: tlsv1.2 (2), tlsv1.3 (3)", |told, value| {
        keep(&mut told.tls_min_version, value)
    }),
    set("ssl_keyformat", "private key format: PEM (1)", |_, value| match value {
        "1" | "PEM" => Ok(()),
        _ => Err("only PEM (1) is known".to_owned()),
    }),
    nothing("ssl_wbuf_size", "what TLS holds back is bounded"),
    nothing("ssl_kernel_tls", "TLS is done by the server itself"),
    set(
        "read_buf_mem_limit",
        "megabytes for requests and replies under way (default: as suits -m)",
        |told, value| {
            let mebibytes: u32 = number(value)?;
            told.connection_memory = (mebibytes > 0).then_some(Size((mebibytes as usize) << 20));
            Ok(())
        },
    ),
    set("watcher_logbuf_size", "kilobytes kept for each watcher (default: 256)", |told, value| {
        told.watcher_buffer = Some(kilobytes(value)?);
        Ok(())
    }),
    set("worker_logbuf_size", "kilobytes kept for each worker's log (default: 64)", |told, value| {
        told.worker_log_buffer = Some(kilobytes(value)?);
        Ok(())
    }),
    nothing("track_sizes", "stats sizes always counts"),
    nothing("sock_cookie_id", "no socket is marked"),
    flag("relaxed_privileges", "answer debugtime and debugitem, for tests", |told| {
        told.test_commands = Some(true);
    }),
    nothing("hashpower", INDEX),
    nothing("no_hashexpand", INDEX),
    nothing("hash_algorithm", HASH),
    nothing("tail_repair_time", "no item is held by anybody"),
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
    nothing("modern", "there is nothing to choose"),
    nothing("no_modern", "there is nothing to choose"),
    nothing("resp_obj_mem_limit", BUFFERS),
    nothing("inline_ascii_resp", BUFFERS),
    nothing("no_inline_ascii_resp", BUFFERS),
    nothing("drop_privileges", "the service unit restricts system calls"),
    nothing("no_drop_privileges", "the service unit restricts system calls"),
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

fn keep(place: &mut Option<String>, value: &str) -> Result<(), String> {
    *place = Some(value.to_owned());
    Ok(())
}

fn kilobytes(value: &str) -> Result<Size, String> {
    number::<u32>(value).map(|kilobytes| Size(kilobytes as usize * 1024))
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("must be a number, not {value}"))
}

/// Reads all -o. What changes nothing is warned of.
pub(super) fn read(lists: &[String], warnings: &mut Vec<String>) -> Result<Told, Failure> {
    let mut told = Told::default();
    for option in lists.iter().flat_map(|list| list.split(',')).filter(|option| !option.is_empty()) {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let known = OPTIONS.iter().find(|known| known.name == name);
        let known = known.ok_or_else(|| Failure::Usage(format!("illegal suboption \"{option}\" of -o")))?;
        match (known.effect, value) {
            (Effect::Set(set), Some(value)) => {
                set(&mut told, value).map_err(|problem| Failure::Usage(format!("-o {name}: {problem}")))?;
            }
            (Effect::Set(_), None) => return Err(Failure::Usage(format!("missing {name} argument"))),
            (Effect::Flag(set), _) => set(&mut told),
            (Effect::Refused(why), _) => {
                return Err(Failure::Usage(format!("-o {name}: {why} (docs/drop-in.md)")));
            }
            (Effect::Nothing(why), _) => {
                let warning = format!("-o {name} changes nothing: {why} (docs/drop-in.md)");
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        }
    }
    Ok(told)
}

/// Every option, and whether it has an effect, none, or is refused, in the words of docs/drop-in.md.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    OPTIONS.iter().map(|option| match option.effect {
        Effect::Set(_) | Effect::Flag(_) => (option.name, "has an effect"),
        Effect::Nothing(_) => (option.name, "nothing"),
        Effect::Refused(_) => (option.name, "refused"),
    })
}

/// The options that have an effect, for -h.
pub(super) fn help() -> String {
    let mut text = String::new();
    for option in OPTIONS.iter().filter(|option| !option.about.is_empty()) {
        let label = format!("{}:", option.name);
        let _ = writeln!(text, "   - {label:<21} {}", option.about);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(list: &str) -> Result<(Told, Vec<String>), String> {
        let mut warnings = Vec::new();
        let told = read(&[list.to_owned()], &mut warnings).map_err(|error| error.to_string())?;
        Ok((told, warnings))
    }

    #[test]
    fn options_with_an_effect_are_set_and_others_are_warned_of_once() {
        let (told, warnings) =
            read_one("idle_timeout=5,hashpower=20,no_maxconns_fast,hashpower=21,modern").unwrap();
        assert_eq!((told.idle_timeout, told.beyond_max.as_deref()), (Some(5), Some("wait")));
        assert_eq!(warnings.len(), 2, "{warnings:?}");
    }

    #[test]
    fn what_memcached_takes_for_its_crawler_buffers_and_sizes_is_taken() {
        let (told, warnings) =
            read_one("lru_crawler_sleep=100,lru_crawler_tocrawl=0,read_buf_mem_limit=16,track_sizes")
                .unwrap();
        assert_eq!((told.connection_memory, warnings.len()), (Some(Size(16 << 20)), 3));
    }

    #[test]
    fn bad_options_are_refused_by_name() {
        assert!(read_one("nonsense").unwrap_err().contains("illegal suboption \"nonsense\""));
        assert!(
            read_one("ext_path=/x:1m").unwrap_err().contains("-o ext_path: items are kept in memory only")
        );
        assert!(read_one("modern,proxy_config=x").unwrap_err().contains("no proxy"));
        assert!(read_one("idle_timeout").unwrap_err().contains("missing idle_timeout"));
        assert!(read_one("idle_timeout=x").unwrap_err().contains("must be a number"));
    }
}
