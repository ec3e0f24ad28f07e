//! Racy copies against a plain vector, one thread. What must hold: after any copies in, at any alignment and length, what is
//! copied out is what the vector holds, bytes outside a run are kept, and a run equals some bytes exactly when the
//! vector says so; bytes past the end never do.

use arbitrary::{Arbitrary, Unstructured};
use guira_sync::atomic::AtomicU64;
use guira_sync::words::{WORD, copy_in, copy_out, equal};

/// Enough for both ways in which bytes are copied: blocks of 512 and more have their own.
const WORDS_MAX: usize = 200;

#[derive(Arbitrary, Debug)]
enum Op {
    /// Copies so many bytes in, each a little larger than the one before.
    In { start: u16, length: u16, first: u8 },
    /// Copies out.
    Out { start: u16, length: u16 },
    /// Compares with what is there, one byte of it changed perhaps.
    Equal { start: u16, length: u16, changed: Option<(u16, u8)> },
    /// Compares with other bytes.
    Other { start: u16, bytes: Vec<u8> },
}

#[derive(Arbitrary, Debug)]
struct Input {
    words: u8,
    ops: Vec<Op>,
}

/// A run that lies in `all` bytes.
fn run(start: u16, length: u16, all: usize) -> std::ops::Range<usize> {
    let start = usize::from(start) % (all + 1);
    start..start + usize::from(length) % (all - start + 1)
}

fn step(op: Op, words: &[AtomicU64], model: &mut [u8]) {
    match op {
        Op::In { start, length, first } => {
            let run = run(start, length, model.len());
            let bytes: Vec<u8> = (0..run.len()).map(|i| first.wrapping_add(i as u8)).collect();
            copy_in(words, run.start, &bytes);
            model[run].copy_from_slice(&bytes);
        }
        Op::Out { start, length } => {
            let run = run(start, length, model.len());
            let mut out = vec![0xa5; run.len()];
            copy_out(words, run.start, &mut out);
            assert!(out == model[run.clone()], "bytes {run:?} came out wrong");
        }
        Op::Equal { start, length, changed } => {
            let run = run(start, length, model.len());
            let mut bytes = model[run.clone()].to_vec();
            if let Some((at, change)) = changed.filter(|_| !bytes.is_empty()) {
                let at = usize::from(at) % bytes.len();
                bytes[at] ^= change;
            }
            assert_eq!(equal(words, run.start, &bytes), bytes == model[run.clone()], "bytes {run:?}");
        }
        Op::Other { start, bytes } => {
            let start = usize::from(start);
            let expected = model.get(start..start + bytes.len()).is_some_and(|there| there == bytes);
            assert_eq!(equal(words, start, &bytes), expected, "{} bytes from {start}", bytes.len());
        }
    }
}

/// Does to the words and to the vector what `input` says.
pub fn check(input: &[u8]) {
    let Ok(input) = Input::arbitrary_take_rest(Unstructured::new(input)) else { return };
    let count = usize::from(input.words) % WORDS_MAX;
    let words: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
    let mut model = vec![0; count * WORD];
    for op in input.ops {
        step(op, &words, &mut model);
    }
    let mut all = vec![0xa5; model.len()];
    copy_out(&words, 0, &mut all);
    assert!(all == model, "bytes outside the runs were changed");
}
