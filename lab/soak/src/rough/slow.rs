//! Connections that send a byte now and then, and those that have said all and wait for the answers.

use std::io::{Read, Write};
use std::time::Duration;

use guira_workload::Rng;

use crate::client::{Wire, is_stall};
use crate::field::{Counters, Field};
use crate::link::{Carrier, Link, PATIENCE};

const CONNECTIONS: usize = 24;

/// Between two bytes of one connection.
const PAUSE: Duration = Duration::from_millis(15);

/// A conversation, and what must come back.
const SCRIPT: &str = "set slow 5 0 3 noreply\r\nabc\r\nversion\r\nms slow-m 4 T0\r\nwxyz\r\nmn\r\n";

/// Speaks slowly until the run ends.
pub(crate) fn run(field: &Field, mut random: Rng) {
    let mut counters = field.counters();
    while field.goes_on() {
        let links = (0..CONNECTIONS).filter_map(|_| field.addresses.open(Carrier::random(&mut random)).ok());
        let mut links = links.collect::<Vec<_>>();
        for byte in SCRIPT.as_bytes() {
            links.retain_mut(|link| link.write_all(&[*byte]).and_then(|()| link.flush()).is_ok());
            if !field.goes_on() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        for link in links {
            listen(field, link, &mut counters);
        }
        half_closed(field, &mut random, &mut counters);
    }
}

fn listen(field: &Field, link: Link, counters: &mut Counters<'_>) {
    let mut wire = Wire::new(link);
    let mut expect = |right: &[&str]| match wire.line() {
        Ok(line) if right.iter().any(|right| line.starts_with(right)) => true,
        Ok(line) => {
            // A refused connection gets an error first.
            if !line.starts_with("ERROR Too many open") {
                counters.one("wrong answers");
                field.fail(format!("{line:?} instead of {right:?} to a slow client"));
            }
            false
        }
        Err(error) => {
            if is_stall(&error) {
                field.fail("a slow client got no answer");
            }
            false
        }
    };
    if expect(&["VERSION "]) && expect(&["HD", "SERVER_ERROR out of memory"]) && expect(&["MN"]) {
        counters.one("slow conversations");
    }
}

/// Sends requests, shuts down its sending side, and must still get all answers, then the end of the
/// stream.
fn half_closed(field: &Field, random: &mut Rng, counters: &mut Counters<'_>) {
    for _ in 0..20 {
        let count = 1 + random.below(300) as usize;
        let Ok(mut plain) = field.addresses.raw(Carrier::plain(random)) else { continue };
        let answers = plain.write_all("mn\r\n".repeat(count).as_bytes()).and_then(|()| {
            plain.end_of_sending()?;
            plain.set_timeouts(PATIENCE)?;
            let mut answers = Vec::new();
            plain.read_to_end(&mut answers)?;
            Ok(answers)
        });
        match answers {
            Ok(answers) if answers == "MN\r\n".repeat(count).as_bytes() => {
                counters.one("half-closed connections")
            }
            Ok(answers) if answers.starts_with(b"ERROR Too many open") => {}
            Ok(answers) => {
                counters.one("wrong answers");
                let length = answers.len();
                field.fail(format!("{length} bytes to {count} mn on a half-closed connection"));
            }
            Err(error) if is_stall(&error) => field.fail("a half-closed connection is not closed"),
            // Refused with a reset.
            Err(_) => {}
        }
    }
}
