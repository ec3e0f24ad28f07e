//! The laws are those of `guira_fuzz::router_config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| guira_fuzz::router_config::check(input));
