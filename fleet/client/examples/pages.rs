//! A page that is made of many items: what it needs is a graph, of which everything that does not depend on something else is asked for at once
//! (*Scaling Memcache at Facebook*, section 3.1).
//!
//! `cargo run --example pages -- SERVER…` stores the items of a page at these servers, and reads them in both ways: one after the other, and as the
//! graph allows.

use guira_client::pools::{Builder, Client, Error, Store};
use guira_sync::clock::Stopwatch;

/// What is known of an item: its value names the items that are needed next.
fn needs(value: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(value).split_whitespace().map(str::to_owned).collect()
}

/// The graph of a page: a user, whose friends have posts, which have comments. Each item with those that it names; 24 keys a batch in the mean.
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

/// Reads a page, so many keys at once: returns its items, and how many times it was waited for servers.
fn read(client: &Client, root: &str, at_once: usize) -> Result<(usize, usize), Error> {
    let (mut wanted, mut items, mut trips) = (vec![root.to_owned()], 0, 0);
    while !wanted.is_empty() {
        let mut next = Vec::new();
        for batch in wanted.chunks(at_once) {
            trips += 1;
            for found in client.get_many(batch) {
                // A real page would ask its database for what is missing.
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
