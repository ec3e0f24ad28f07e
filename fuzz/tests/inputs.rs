//! Each target on its seeds, and on random inputs that are made from them: what `cargo fuzz` does for longer, and with a
//! look at which lines were reached.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use guira_harness::random::Random;

/// The longest random input.
const LONGEST: u64 = 2_000;

/// A law, and how many random inputs it is tried on: a second or two of them.
fn try_out(target: &str, law: fn(&[u8]), inputs: u64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seeds = seeds(&folder.join("seeds").join(target));
    let words =
        if seeds.is_empty() { Vec::new() } else { dictionary(&folder.join("dictionaries/memcache.dict")) };
    seeds.iter().for_each(|seed| check(law, seed, "a seed"));
    for number in 0..inputs {
        let mut random = Random::new(number);
        let mut input = match seeds.as_slice() {
            [] => Vec::new(),
            seeds => seeds[random.below(seeds.len() as u64) as usize].clone(),
        };
        if input.is_empty() || random.once_in(8) {
            let length = random.below(LONGEST);
            input = random.bytes(length as usize);
        }
        for _ in 0..random.below(6) {
            mutate(&mut input, &words, &mut random);
        }
        check(law, &input, &format!("input {number}"));
    }
}

/// Prints the input before the panic goes on, so that it can become a seed.
fn check(law: fn(&[u8]), input: &[u8], name: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| law(input))) {
        eprintln!("{name}: b\"{}\"", input.escape_ascii());
        resume_unwind(panic);
    }
}

/// Changes, removes, repeats or inserts a few bytes, or inserts a word of the protocol.
fn mutate(input: &mut Vec<u8>, words: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() as u64 + 1) as usize;
    let length = random.below(8).min((input.len() - at) as u64) as usize;
    match random.below(if words.is_empty() { 4 } else { 6 }) {
        0 => input[at..at + length].iter_mut().for_each(|byte| *byte = random.bits() as u8),
        1 => drop(input.drain(at..at + length)),
        2 => {
            let part = input[at..at + length].to_vec();
            let to = random.below(input.len() as u64 + 1) as usize;
            input.splice(to..to, part);
        }
        3 => {
            let bytes = random.bytes(length);
            input.splice(at..at, bytes);
        }
        _ => {
            let word = &words[random.below(words.len() as u64) as usize];
            input.splice(at..at, word.iter().copied());
        }
    }
}

fn seeds(folder: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder that is read").path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).expect("a seed is read")).collect()
}

/// The words of a dictionary of libFuzzer, one quoted on each line.
fn dictionary(file: &Path) -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(file).expect("the dictionary is read");
    let quoted = |line: &str| Some(line.split_once('"')?.1.rsplit_once('"')?.0.to_owned());
    let words: Vec<Vec<u8>> = text.lines().filter_map(quoted).map(|word| unescaped(&word)).collect();
    assert!(!words.is_empty(), "{} has no words", file.display());
    words
}

fn unescaped(word: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = word.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).expect("two digits");
                bytes.push(u8::from_str_radix(digits, 16).expect("two digits"));
                rest = after;
            }
            (b'\\', [escaped, after @ ..]) => {
                bytes.push(*escaped);
                rest = after;
            }
            _ => bytes.push(*first),
        }
    }
    bytes
}

#[test]
fn classic_line() {
    try_out("classic_line", guira_fuzz::laws::check_input, 100_000);
}

#[test]
fn meta_line() {
    try_out("meta_line", guira_fuzz::meta::check, 50_000);
}

#[test]
fn packets() {
    try_out("packets", guira_fuzz::packets::check, 300_000);
}

#[test]
fn datagrams() {
    try_out("datagrams", guira_fuzz::datagrams::check, 300_000);
}

#[test]
fn replies() {
    try_out("replies", guira_router::obey_laws_of_replies, 10_000);
}

#[test]
fn words() {
    try_out("words", guira_fuzz::words::check, 20_000);
}

#[test]
fn engine() {
    try_out("engine", guira_fuzz::cache::check, 500);
}

#[test]
fn traces() {
    try_out("traces", guira_fuzz::traces::check, 30_000);
}

#[test]
fn router_config() {
    try_out("router_config", guira_fuzz::router_config::check, 20_000);
}

#[test]
fn every_target_is_tried_out() {
    let this = include_str!("inputs.rs");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    for entry in std::fs::read_dir(folder).expect("the targets are here") {
        let name = entry.expect("a folder that is read").path();
        let name = name.file_stem().expect("a file").to_string_lossy().into_owned();
        assert!(this.contains(&format!("try_out(\"{name}\"")), "{name} has no test here");
    }
}
