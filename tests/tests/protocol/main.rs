//! The protocol as bytes over a socket, with each engine and with memcached: one file per behaviour.
//!
//! Run against the law itself with `GUIRA_TEST_SERVER=memcached cargo test -p guira-tests --test protocol`.
#![forbid(unsafe_code)]

mod add_replace_append_prepend;
mod arriving_values;
mod bad_input;
mod binary;
mod cache_memlimit;
mod cas_unique;
mod change_when_full;
mod connections;
mod delete;
mod differential;
mod expiry;
mod flush_all;
mod get_and_set;
mod incr_decr;
mod key_limits;
mod large_values;
mod lists;
mod login;
mod meta_arithmetic;
mod meta_base64_keys;
mod meta_cas_override;
mod meta_debug;
mod meta_delete;
mod meta_get;
mod meta_noop_quiet;
mod meta_set;
mod meta_stale_win_recache;
mod multiget;
mod noreply;
mod numbers;
mod opaque;
mod pipelining;
mod rare_commands;
mod rounds;
mod slow_reader;
mod stats;
mod stats_detail;
mod touch_and_gat;
mod udp;
mod unix_socket;
mod value_limits;
mod version_verbosity;
mod watch;
