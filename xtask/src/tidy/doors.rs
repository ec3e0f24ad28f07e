//! Time, randomness, threads, locks, sockets and files come from one module each, so that loom or a simulator can exchange
//! them. Clocks are banned by clippy (`clippy.toml`).

use super::{Finding, Source};

/// Something of std that one crate hands to all others.
struct Door {
    module: &'static str,
    /// The first names after the module.
    names: &'static [&'static str],
    instead: &'static str,
    /// Folders that may use it directly.
    owners: &'static [&'static str],
    /// Folders for which the rule holds.
    holds: &'static [&'static str],
}

const PRODUCT: &[&str] = &["base/", "engines/", "node/", "fleet/"];
const SYNC: &[&str] = &["base/sync/"];

const DOORS: &[Door] = &[
    Door {
        module: "std::sync",
        names: &["atomic"],
        instead: "guira_sync::atomic",
        owners: SYNC,
        holds: &[""],
    },
    Door {
        module: "std::sync",
        names: &[
            "Barrier",
            "Condvar",
            "LazyLock",
            "Mutex",
            "MutexGuard",
            "Once",
            "OnceLock",
            "RwLock",
            "RwLockReadGuard",
            "RwLockWriteGuard",
        ],
        instead: "guira_sync::lock",
        owners: SYNC,
        holds: PRODUCT,
    },
    Door {
        module: "std::sync",
        names: &["mpsc"],
        instead: "guira_sync::channel",
        owners: SYNC,
        holds: PRODUCT,
    },
    Door { module: "std", names: &["thread"], instead: "guira_sync::thread", owners: SYNC, holds: PRODUCT },
];

/// Checks Rust files.
pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    sources.iter().flat_map(|source| DOORS.iter().flat_map(|door| door.check(source))).collect()
}

impl Door {
    fn check(&self, source: &Source) -> Vec<Finding> {
        let within = |folders: &[&str]| folders.iter().any(|folder| source.path.starts_with(folder));
        if !within(self.holds) || within(self.owners) {
            return Vec::new();
        }
        let prefix = format!("{}::", self.module);
        let found = source.code.match_indices(&prefix).flat_map(|(at, _)| {
            let names = first_names(&source.code[at + prefix.len()..]);
            names.into_iter().filter(|name| self.names.contains(name)).map(move |name| (at, name))
        });
        let finding = |(at, name)| {
            let what = format!("{}::{name} is used directly", self.module);
            Finding::new(&source.path, source.line_at(at), what, format!("use {}", self.instead))
        };
        found.map(finding).collect()
    }
}

/// The names behind a module: one, or those in braces.
fn first_names(code: &str) -> Vec<&str> {
    let Some(list) = code.strip_prefix('{') else { return vec![name(code)] };
    let (mut depth, mut names, mut is_begin) = (1, Vec::new(), true);
    for (at, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => is_begin = true,
            _ if is_begin && !character.is_whitespace() => {
                names.push(name(&list[at..]));
                is_begin = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

/// The name at the begin of a text.
fn name(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_alphanumeric() && character != '_');
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, content: &str) -> Vec<String> {
        check(&[Source::new(path, content)]).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn doors_are_used_in_the_product() {
        let found = findings("node/a.rs", "use std::sync::{Arc, Mutex};\nuse std::{io, thread};");
        assert_eq!(found, ["std::sync::Mutex is used directly", "std::thread is used directly"]);
        assert_eq!(findings("node/a.rs", "std::thread::spawn(f);"), ["std::thread is used directly"]);
        let nested = "use std::{io::{self, Read}, sync::Arc};";
        assert_eq!(findings("node/a.rs", nested), Vec::<String>::new());
        assert_eq!(findings("lab/a.rs", "use std::sync::Mutex;"), Vec::<String>::new());
        assert_eq!(findings("base/sync/a.rs", "use std::thread;"), Vec::<String>::new());
    }

    #[test]
    fn atomics_come_from_one_place_everywhere() {
        let content = concat!("use std::sync::", "atomic::AtomicU64;");
        assert_eq!(findings("lab/a.rs", content), [concat!("std::sync::", "atomic is used directly")]);
        assert_eq!(findings("base/sync/a.rs", content), Vec::<String>::new());
    }
}
