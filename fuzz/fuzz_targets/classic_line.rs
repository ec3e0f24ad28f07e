//! Cuts and parses arbitrary bytes. What must hold: nothing panics; a line is all that comes before the first line end,
//! whatever follows it; the same line is understood in the same way twice and with either line end; keys have 1
//! to 250 bytes, lengths are at most the longest that may be announced, `noreply` is the last word or not there; a fault has an answer of the
//! protocol, and only what stores has data to pass over.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| guira_fuzz::laws::check_input(input));
