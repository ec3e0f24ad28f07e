//! Meta commands, in two ways. The input as it stands must obey the laws of all lines. And a command that is made from the input
//! and is right by construction must be understood as it was meant: key, length, mode, the number of every flag, their order.
#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use guira_fuzz::{laws, meta};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    laws::check_input(input);
    if let Ok(request) = meta::Request::arbitrary_take_rest(Unstructured::new(input)) {
        request.check();
    }
});
