//! More connections than there may be, and connections that say nothing.

use std::io::{Read, Write};
use std::time::Duration;

use guira_sync::clock::Stopwatch;
use guira_workload::Rng;

use crate::field::Field;
use crate::link::{Carrier, PATIENCE};

const REFUSALS: usize = 10;

const PAUSE: Duration = Duration::from_secs(4);

/// Added to the time after which a silent connection is closed: the server checks once a second,
/// and may be busy.
const IDLE_SLACK: Duration = Duration::from_secs(10);

/// Opens as many connections as the server allows (`most`), and some more, until the run ends.
pub(crate) fn rush(field: &Field, mut random: Rng, most: usize) {
    let mut counters = field.counters();
    while field.goes_on() {
        field.pause(PAUSE);
        let (mut held, mut refused) = (Vec::new(), 0);
        while field.goes_on() && refused < REFUSALS && held.len() < most + 200 {
            let Ok(mut plain) = field.addresses.raw(Carrier::plain(&mut random)) else {
                refused += 1;
                continue;
            };
            let mut answer = [0; 64];
            let said = plain.write_all(b"mn\r\n").and_then(|()| plain.read(&mut answer));
            match said {
                Ok(4) if answer.starts_with(b"MN\r\n") => held.push(plain),
                Ok(length) if answer[..length].starts_with(b"ERROR Too many open") => refused += 1,
                // A refusal may be lost if the connection is reset by what came after it.
                Ok(0) | Err(_) => refused += 1,
                Ok(length) => {
                    let text = String::from_utf8_lossy(&answer[..length]).into_owned();
                    field.fail(format!("{text:?} to a connection beyond the limit"));
                }
            }
        }
        counters.add("connections opened in a rush", held.len() as u64);
        counters.add("connections refused beyond the limit", refused as u64);
        if refused == 0 && field.goes_on() {
            field.fail(format!("{} connections, and none was refused of {most}", held.len()));
        }
        field.pause(Duration::from_millis(200));
    }
}

/// Says nothing, and must be sent away after `idle`.
pub(crate) fn idlers(field: &Field, mut random: Rng, idle: Duration) {
    let mut counters = field.counters();
    while field.goes_on() {
        // Those on this host's own sockets are left alone, as in memcached.
        let carriers = [Carrier::Tcp, Carrier::Tls];
        let carrier = |random: &mut Rng| carriers[random.below(2) as usize];
        let open = (0..5).filter_map(|_| field.addresses.open(carrier(&mut random)).ok());
        let mut open = open.collect::<Vec<_>>();
        let begin = Stopwatch::start();
        field.pause(idle);
        if !field.goes_on() {
            return;
        }
        for link in &mut open {
            let limit = idle + IDLE_SLACK;
            let left = limit.saturating_sub(begin.elapsed()).max(Duration::from_millis(1));
            if link.set_timeouts(left.min(PATIENCE)).is_err() {
                continue;
            }
            let read = link.read(&mut [0; 256]);
            if read.is_err_and(|error| crate::client::is_stall(&error)) {
                field.fail(format!("a silent connection is still open after {limit:?}"));
            } else {
                counters.one("silent connections sent away");
            }
        }
    }
}
