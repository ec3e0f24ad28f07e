//! The laws are those of `guira_fuzz::datagrams`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| guira_fuzz::datagrams::check(input));
