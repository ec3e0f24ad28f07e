//! Meta commands, in two ways. The input as it stands must obey the laws of all lines. And a command that is made from the input
//! and is right by construction must be understood as it was meant: key, length, mode, the number of every flag, their order.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| guira_fuzz::meta::check(input));
