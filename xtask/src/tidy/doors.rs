//! Seeds, threads, locks, sockets and files come from one module each, so that loom or a simulator can exchange them. Tests may
//! use std's. Clocks are banned by clippy (`clippy.toml`).

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
    tests: Tests,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tests {
    Included,
    /// Tests run on the system, and may use std's.
    Exempt,
}

const PRODUCT: &[&str] = &["base/", "engines/", "node/", "fleet/"];
/// `base/world` stands in for std.
const SYNC: &[&str] = &["base/sync/", "base/world/"];
/// A filter, inherited listeners, scratch folders and a forked Python process are not simulated.
const HOST: &[&str] = &[
    "base/sync/",
    "base/sandbox/",
    "base/transport/src/inherited.rs",
    "base/memory/src/scratch.rs",
    "engines/contract/src/suite/scratch.rs",
    "fleet/python/",
];
const TRANSPORT: &[&str] = &["base/transport/", "base/world/"];
/// Files of Regions, and facts about the machine, belong to base.
const FILE_USERS: &[&str] = &["base/serving/", "base/web/", "node/", "fleet/"];

const DOORS: &[Door] = &[
    Door {
        module: "std::sync",
        names: &["atomic"],
        instead: "guira_sync::atomic",
        owners: SYNC,
        holds: &[""],
        tests: Tests::Included,
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
        tests: Tests::Exempt,
    },
    Door {
        module: "std::sync",
        names: &["mpsc"],
        instead: "guira_sync::channel",
        owners: SYNC,
        holds: PRODUCT,
        tests: Tests::Exempt,
    },
    Door {
        module: "std",
        names: &["thread"],
        instead: "guira_sync::thread",
        owners: SYNC,
        holds: PRODUCT,
        tests: Tests::Exempt,
    },
    Door {
        module: "std::hash",
        names: &["RandomState"],
        instead: "guira_sync::random",
        owners: SYNC,
        holds: PRODUCT,
        tests: Tests::Exempt,
    },
    Door {
        module: "std::process",
        names: &["id"],
        instead: "guira_sync::host",
        owners: HOST,
        holds: PRODUCT,
        tests: Tests::Exempt,
    },
    Door {
        module: "std::os::unix::process",
        names: &["parent_id"],
        instead: "guira_sync::host",
        owners: HOST,
        holds: PRODUCT,
        tests: Tests::Exempt,
    },
    Door {
        module: "rustix::process",
        names: &["getrlimit"],
        instead: "guira_sync::host",
        owners: HOST,
        holds: PRODUCT,
        tests: Tests::Exempt,
    },
    Door {
        module: "rustix::thread",
        names: &["gettid"],
        instead: "guira_sync::host",
        owners: HOST,
        holds: PRODUCT,
        tests: Tests::Exempt,
    },
    Door {
        module: "rustix::system",
        names: &["uname"],
        instead: "guira_sync::host",
        owners: HOST,
        holds: PRODUCT,
        tests: Tests::Exempt,
    },
    Door {
        module: "std::net",
        names: &["Shutdown", "TcpListener", "TcpStream", "ToSocketAddrs", "UdpSocket"],
        instead: "guira_transport::net",
        owners: TRANSPORT,
        holds: PRODUCT,
        tests: Tests::Exempt,
    },
    Door {
        module: "std::os::unix",
        names: &["net"],
        instead: "guira_transport::net",
        owners: TRANSPORT,
        holds: PRODUCT,
        tests: Tests::Exempt,
    },
    Door {
        module: "rustix",
        names: &["event", "net"],
        instead: "guira_transport",
        // A terminal has no place in a simulated region.
        owners: &["base/transport/", "fleet/top/src/terminal.rs", "fleet/upstream/src/keepalive.rs"],
        holds: PRODUCT,
        tests: Tests::Exempt,
    },
    Door {
        module: "std",
        names: &["fs"],
        instead: "guira_disk",
        owners: &[],
        holds: FILE_USERS,
        tests: Tests::Exempt,
    },
    Door {
        module: "std::os::unix",
        names: &["fs"],
        instead: "guira_disk",
        owners: &[],
        holds: FILE_USERS,
        tests: Tests::Exempt,
    },
];

/// Methods of a path that look at the system's files.
const OF_PATHS: [&str; 5] = [".exists()", ".try_exists()", ".canonicalize()", ".read_dir()", ".read_link()"];

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let doors = sources.iter().flat_map(|source| DOORS.iter().flat_map(move |door| door.check(source)));
    doors.chain(sources.iter().flat_map(check_paths)).collect()
}

fn check_paths(source: &Source) -> Vec<Finding> {
    if !FILE_USERS.iter().any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    let tests = source.tests();
    let is_test = |at| tests.iter().any(|(start, end)| (*start..=*end).contains(&at));
    let found = OF_PATHS.iter().flat_map(|method| source.code.match_indices(method));
    let finding = |(at, method)| {
        let what = format!("{method} of a path looks at the system's files");
        Finding::new(&source.path, source.line_at(at), what, "use guira_disk")
    };
    found.filter(|(at, _)| !is_test(*at)).map(finding).collect()
}

impl Door {
    fn check(&self, source: &Source) -> Vec<Finding> {
        let within = |folders: &[&str]| folders.iter().any(|folder| source.path.starts_with(folder));
        if !within(self.holds) || within(self.owners) {
            return Vec::new();
        }
        let prefix = format!("{}::", self.module);
        let tests = if self.tests == Tests::Exempt { source.tests() } else { Vec::new() };
        let is_test = |at| tests.iter().any(|(start, end)| (*start..=*end).contains(&at));
        let found = source.code.match_indices(&prefix).filter(|(at, _)| !is_test(*at)).flat_map(|(at, _)| {
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
        assert_eq!(findings("node/tests/a.rs", "use std::thread;"), Vec::<String>::new());
        let test = "#[cfg(test)]\nmod tests {\n    use std::thread;\n}";
        assert_eq!(findings("node/a.rs", test), Vec::<String>::new());
    }

    #[test]
    fn paths_do_not_look_at_the_systems_files() {
        let found = findings("fleet/a.rs", "if path.exists() { guira_disk::exists(&path) }");
        assert_eq!(found, [".exists() of a path looks at the system's files"]);
        assert_eq!(findings("fleet/tests/a.rs", "path.exists()"), Vec::<String>::new());
        assert_eq!(findings("lab/a.rs", "path.exists()"), Vec::<String>::new());
    }

    #[test]
    fn atomics_come_from_one_place_everywhere() {
        let content = concat!("use std::sync::", "atomic::AtomicU64;");
        assert_eq!(findings("lab/a.rs", content), [concat!("std::sync::", "atomic is used directly")]);
        assert_eq!(findings("base/sync/a.rs", content), Vec::<String>::new());
    }
}
