//! The protocol as bytes over a socket: one file per behaviour, one binary for all.
//!
//! Run against the law itself with `GUIRA_TEST_SERVER=memcached cargo test -p guira-tests`.
#![forbid(unsafe_code)]

mod add_replace_append_prepend;
mod advice;
mod arriving_values;
mod bad_input;
mod binary;
mod cache_memlimit;
mod cas_unique;
mod ceiling;
mod change_when_full;
mod connections;
mod delete;
mod differential;
mod expiry;
mod fairness;
mod flush_all;
mod get_and_set;
mod huge_values;
mod incr_decr;
mod key_limits;
mod large_values;
mod lists;
mod login;
mod logs;
mod meta_arithmetic;
mod meta_base64_keys;
mod meta_cas_override;
mod meta_debug;
mod meta_delete;
mod meta_get;
mod meta_noop_quiet;
mod meta_set;
mod meta_stale_win_recache;
mod mica_datagrams;
mod mica_rings;
mod multiget;
mod noreply;
mod numbers;
mod opaque;
mod pipelining;
mod policy;
mod rare_commands;
mod restart;
mod slow_reader;
mod stats;
mod stats_detail;
mod store_engine;
mod tls;
mod touch_and_gat;
mod udp;
mod unix_socket;
mod value_limits;
mod version_verbosity;
mod watch;
