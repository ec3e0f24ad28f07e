//! A slab engine of a few pages against a plain map: stores of all lengths, reads, pins, removals, amendments, joins, flushes, time, upkeep,
//! by two sessions in turn. What must hold: a key that is found has the value, flags, expiry and cas unique that were stored
//! last; nothing that was removed, flushed, or has expired comes back, nor what was lost; what was lost was counted as evicted; a refusal changes
//! nothing; a pinned value stays as it was; and when all is flushed, no item is left and no chunk is in use.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| guira_fuzz::cache::check(input));
