//! Replies of servers to a router. What must hold: each request is answered once at most, in order, by what belongs to it and to no other key;
//! the replies mean the same in whatever pieces they come.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| guira_router::obey_laws_of_replies(input));
