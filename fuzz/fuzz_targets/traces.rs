//! The laws are those of `guira_fuzz::traces`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| guira_fuzz::traces::check(input));
