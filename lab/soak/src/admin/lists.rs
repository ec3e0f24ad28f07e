//! Long lists and logs for clients that read slowly, or go away.

use std::time::Duration;

use guira_workload::Rng;

use super::wire;
use crate::client::is_stall;
use crate::field::{Counters, Field};
use crate::link::Carrier;

/// Lists all keys, again and again.
pub(crate) fn dumps(field: &Field, mut random: Rng) {
    let mut counters = field.counters();
    while field.goes_on() {
        let (request, end, begin) = match random.below(4) {
            0 => ("lru_crawler mgdump all\r\n", "EN", "mg "),
            1 => ("stats cachedump 5 0\r\n", "END", "ITEM "),
            _ => ("lru_crawler metadump all\r\n", "END", "key="),
        };
        dump(field, &mut random, &mut counters, [request, end, begin]);
        field.pause(Duration::from_millis(random.below(200)));
    }
}

fn dump(field: &Field, random: &mut Rng, counters: &mut Counters<'_>, [request, end, begin]: [&str; 3]) {
    let Some(mut wire) = wire(field, Carrier::random(random)) else { return };
    if wire.send(request.as_bytes()).is_err() {
        return;
    }
    let stays = if random.below(2) == 0 { u64::MAX } else { random.below(2000) };
    let slow = random.below(3) == 0;
    let mut count = 0;
    while count < stays && field.goes_on() {
        match wire.log_line() {
            Ok(line) if line == end => {
                counters.add("keys listed", count);
                counters.one("lists of all keys read to the end");
                return;
            }
            Ok(line) if line.starts_with(begin) || line == "OK" => count += 1,
            Ok(line) if line.starts_with("BUSY") || line.starts_with("ERROR Too many open") => return,
            Ok(line) => {
                field.fail(format!("{line:?} in a list of keys"));
                return;
            }
            Err(error) => {
                if is_stall(&error) {
                    field.fail("a list of keys does not go on");
                }
                // The server may close a connection that is too slow.
                counters.one("lists of all keys cut by the server");
                return;
            }
        }
        if slow && count % 500 == 0 {
            field.pause(Duration::from_millis(100));
        }
    }
    counters.one("lists of all keys left");
}

pub(crate) fn watchers(field: &Field, mut random: Rng) {
    let mut counters = field.counters();
    const KINDS: [&str; 6] =
        ["fetchers", "mutations", "evictions", "connevents", "deletions", "fetchers mutations"];
    while field.goes_on() {
        let Some(mut wire) = wire(field, Carrier::random(&mut random)) else { continue };
        let kinds = KINDS[random.below(6) as usize];
        if wire.send(format!("watch {kinds}\r\n").as_bytes()).is_err() {
            continue;
        }
        match wire.log_line() {
            Ok(line) if line == "OK" => {}
            Ok(line) if line.starts_with("WATCHER_") || line.starts_with("ERROR Too many open") => continue,
            Ok(line) => {
                field.fail(format!("{line:?} to watch"));
                return;
            }
            Err(_) => continue,
        }
        counters.one("watchers");
        let slow = random.below(2) == 0;
        // Perhaps no event of the watched kinds happens.
        let _ = wire.link().set_timeouts(Duration::from_millis(500));
        for count in 0..random.below(20_000) {
            let Ok(line) = wire.log_line() else { break };
            if !line.starts_with("ts=") && !line.starts_with("skipped=") && !line.starts_with("[overflowed") {
                field.fail(format!("{line:?} to a watcher of {kinds}"));
            }
            if !field.goes_on() {
                return;
            }
            counters.one("lines of the log watched");
            if slow && count % 100 == 0 {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}
