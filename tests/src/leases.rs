//! Leases under a race: readers that fill keys, and writers that delete them.

use crate::Server;
use guira_sync::atomic::{AtomicU64, Ordering};

/// Deletes that fall between a lease-get and its lease-set, in all.
const DELETES: u64 = 10_000;

/// Keys that all of them use.
const KEYS: usize = 4;

/// A database of one number for each key, which writers raise before they delete the key. Whoever reads a number from the cache must see one that was the
/// database's after the last delete that had been answered when it asked. `GUIRA_LEASE_DELETES` is how many deletes there are.
///
/// # Panics
/// If somebody sees an older one.
pub fn race_deletes(server: &Server) {
    let deletes = std::env::var("GUIRA_LEASE_DELETES").ok().and_then(|text| text.parse().ok());
    let deletes: u64 = deletes.unwrap_or(DELETES);
    let numbers: [AtomicU64; KEYS] = Default::default();
    // The number that every later read must at least see.
    let deleted: [AtomicU64; KEYS] = Default::default();
    let (done, filled, refused) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let more = || done.load(Ordering::Relaxed) < deletes;
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (numbers, deleted, done) = (&numbers, &deleted, &done);
            scope.spawn(move || {
                let mut client = server.connect();
                while more() {
                    for key in (writer..KEYS).step_by(2) {
                        let number = numbers[key].fetch_add(1, Ordering::SeqCst) + 1;
                        client.ask(format!("delete key{key}\r\n"));
                        deleted[key].store(number, Ordering::SeqCst);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        scope.spawn(|| get_without_leases(server, &deleted, more));
        for reader in 0..3 {
            let (numbers, deleted) = (&numbers, &deleted);
            let (filled, refused) = (&filled, &refused);
            scope.spawn(move || {
                let mut client = server.connect();
                let mut key = reader;
                while more() {
                    key = (key + 1) % KEYS;
                    let least = deleted[key].load(Ordering::SeqCst);
                    let line = client.ask(format!("lease-get key{key}\r\n"));
                    let words: Vec<_> = line.split(' ').collect();
                    let length: usize = words.last().and_then(|word| word.parse().ok()).expect("a length");
                    let value = client.take(length + 2);
                    client.hear("END\r\n");
                    match words[..] {
                        ["VALUE", ..] => {
                            let text = String::from_utf8_lossy(&value);
                            let seen: u64 = text.trim_end().parse().expect("a number");
                            assert!(seen >= least, "key{key}: {seen} is older than {least}");
                        }
                        ["LVALUE", _, "1", ..] => {}
                        ["LVALUE", _, token, ..] => {
                            let number = numbers[key].load(Ordering::SeqCst).to_string();
                            let set =
                                format!("lease-set key{key} {token} 0 0 {}\r\n{number}\r\n", number.len());
                            let counter = if client.ask(set) == "STORED" { filled } else { refused };
                            counter.fetch_add(1, Ordering::Relaxed);
                        }
                        _ => panic!("{line}"),
                    }
                }
            });
        }
    });
    let (filled, refused) = (filled.into_inner(), refused.into_inner());
    println!("{deletes} deletes, {filled} values stored, {refused} refused");
    assert!(filled > 0 && refused > 0, "{filled} stored, {refused} refused");
}

/// Who knows nothing of leases finds nothing older either, and no key that is to be filled.
fn get_without_leases(server: &Server, deleted: &[AtomicU64; KEYS], more: impl Fn() -> bool) {
    let mut client = server.connect();
    for key in (0..KEYS).cycle().take_while(|_| more()) {
        let least = deleted[key].load(Ordering::SeqCst);
        if let Some(value) = client.value(&format!("key{key}")) {
            let text = String::from_utf8_lossy(&value.data);
            let seen: u64 = text.parse().unwrap_or_else(|_| panic!("key{key} is {text:?}"));
            assert!(seen >= least, "key{key}: {seen} is older than {least}");
        }
    }
}
