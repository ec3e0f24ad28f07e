//! A page that consists of many items. The items form a graph; all items that do not depend on each
//! other are requested at once (*Scaling Memcache at Facebook*, section 3.1).
//!
//! `cargo run --example pages -- SERVER…` stores the items of a page at these servers, and reads
//! them in both ways: one after the other, and level by level.

use guira_client::pools::{Builder, Client, Error, Store};
use guira_sync::clock::Stopwatch;

/// The keys of further items, which the value of an item names.
fn needs(value: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(value).split_whitespace().map(str::to_owned).collect()
}

/// The graph of a page: a user, whose friends have posts, which have comments. Each item has the
/// keys that it names; a batch has 24 keys on average.
fn page(number: u64) -> Vec<(String, String)> {
    let key = |kind: &str, at: u64| format!("{kind}:{number}:{at}");
    let all =
        |kind: &str, range: std::ops::Range<u64>| range.map(|at| key(kind, at)).collect::<Vec<_>>().join(" ");
    let mut items = vec![(key("user", 0), all("friend", 0..12))];
    items.extend((0..12).map(|friend| (key("friend", friend), all("post", friend * 3..friend * 3 + 3))));
    items.extend((0..36).map(|post| {
        let comments = if post < 23 { all("comment", post * 2..post * 2 + 2) } else { String::new() };
        (key("post", post), comments)
    }));
    items.extend((0..46).map(|comment| (key("comment", comment), String::new())));
    items
}

/// Reads a page in batches of `at_once` keys: returns the number of items, and the number of round
/// trips.
fn read(client: &Client, root: &str, at_once: usize) -> Result<(usize, usize), Error> {
    let (mut wanted, mut items, mut trips) = (vec![root.to_owned()], 0, 0);
    while !wanted.is_empty() {
        let mut next = Vec::new();
        for batch in wanted.chunks(at_once) {
            trips += 1;
            for found in client.get_many(batch) {
                // A real page would read missing items from its database.
                if let Some(item) = found? {
                    items += 1;
                    next.extend(needs(&item.value));
                }
            }
        }
        wanted = next;
    }
    Ok((items, trips))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let servers: Vec<String> = std::env::args().skip(1).collect();
    let client = Client::new(&Builder::servers(&servers))?;
    let items = page(7);
    for (key, value) in &items {
        client.set(&Store::new(key.as_bytes(), value.as_bytes()).expiry(600))?;
    }
    for (how, at_once) in [("one by one", 1), ("as the graph allows", usize::MAX)] {
        let time = Stopwatch::start();
        let (items, trips) = read(&client, "user:7:0", at_once)?;
        let keys = items as f64 / trips as f64;
        println!(
            "{how}: {items} items, {trips} round trips, {keys:.1} keys in each, {:.2} ms",
            time.elapsed().as_secs_f64() * 1e3
        );
    }
    Ok(())
}
