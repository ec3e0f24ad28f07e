//! The laws are those of `guira_fuzz::words`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| guira_fuzz::words::check(input));
