//! Traces in every format, plain or compressed. What must hold: reading ends; it comes to the same twice; keys are such as the protocol allows;
//! a trace whose broken lines are skipped begins with the requests that come before the first broken one, and no more lines are skipped than
//! the input can have.

use std::io::Cursor;

use guira_workload::trace::{Broken, FORMATS, Format, Key, Request, Trace};

/// A line may stand for billions of requests, and a compressed input for gigabytes.
const REQUESTS_MAX: usize = 20_000;

/// The requests up to the first error, how many were skipped, and whether all was read.
fn read(input: &[u8], format: Option<Format>, broken: Broken) -> (Vec<Request>, u64, bool) {
    let Ok(trace) = Trace::new(Cursor::new(input.to_vec()), format) else {
        return (Vec::new(), 0, true);
    };
    let mut trace = trace.on_broken(broken);
    let mut requests = Vec::new();
    while requests.len() < REQUESTS_MAX {
        match trace.next() {
            Some(Ok(request)) => requests.push(request),
            Some(Err(error)) => {
                assert!(!error.to_string().is_empty() && trace.next().is_none(), "an error is the end");
                return (requests, trace.skipped().0, true);
            }
            None => return (requests, trace.skipped().0, true),
        }
    }
    (requests, trace.skipped().0, false)
}

fn check_request(request: &Request) {
    if let Key::Text(key) = &request.key {
        assert!((1..=250).contains(&key.len()));
        assert!(key.iter().all(|&byte| byte > b' ' && byte != 0x7f));
    }
    assert_eq!(request.key.id(), request.key.clone().id());
}

/// Checks that the laws hold for `input`.
pub fn check(input: &[u8]) {
    let Some((&first, input)) = input.split_first() else { return };
    // One more than there are formats: guessed.
    let format = FORMATS.get(usize::from(first) % (FORMATS.len() + 1)).map(|(format, ..)| *format);
    let refused = read(input, format, Broken::Refuse);
    assert_eq!(refused, read(input, format, Broken::Refuse));
    assert_eq!(refused.1, 0);
    let skipping = read(input, format, Broken::Skip);
    assert!(skipping.0.starts_with(&refused.0));
    skipping.0.iter().for_each(check_request);
    let is_plain = !input.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    assert!(!is_plain || skipping.1 <= input.len() as u64);
}
