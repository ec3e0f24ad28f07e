//! The laws are those of `guira_fuzz::packets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| guira_fuzz::packets::check(input));
