//! Connections that request gigabytes and never read their replies.

use std::io::Write;
use std::time::Duration;

use guira_workload::Rng;

use crate::client::Client;
use crate::field::Field;
use crate::link::{Carrier, Link, PATIENCE};
use crate::speech::{Request, Speech, Verb};

/// The values that each request names, and their length.
const VALUES: usize = 4;
const LENGTH: usize = 900_000;

/// How long a round of them lasts.
const HOLD: Duration = Duration::from_secs(4);

/// Sends requests until the run ends, over `connections` connections at a time.
pub(crate) fn run(field: &Field, mut random: Rng, connections: usize) {
    let mut counters = field.counters();
    while field.goes_on() {
        // They may be evicted or flushed.
        let Some(mut client) = Client::open(field, Carrier::Tcp, Speech::Text) else { return };
        let set = |number| Request {
            verb: Verb::Set,
            name: format!("greedy-{number}").into_bytes(),
            value: vec![b'g'; LENGTH],
            flags: 0,
            ttl: 0,
        };
        for number in 0..VALUES {
            // Without them the replies are shorter, which is another kind of load.
            let _ = client.call(&[set(number)]);
        }
        drop(client);
        let mut links = Vec::new();
        for _ in 0..connections {
            let Ok(mut link) = field.addresses.open(Carrier::random(&mut random)) else { continue };
            send_requests(&mut link, &mut random);
            links.push(link);
            counters.one("connections that never read");
        }
        field.pause(HOLD);
        for link in links {
            match link {
                Link::Plain(plain) if random.below(2) == 0 => plain.reset(),
                other => drop(other),
            }
        }
        field.pause(Duration::from_millis(300));
    }
}

/// Sends requests until the server accepts no more.
fn send_requests(link: &mut Link, random: &mut Rng) {
    let names = (0..VALUES).map(|number| format!(" greedy-{number}")).collect::<String>();
    let question = match random.below(3) {
        0 => format!("get{}\r\n", names.repeat(20)),
        1 => (0..VALUES).map(|number| format!("mg greedy-{number} v\r\n")).collect::<String>().repeat(10),
        _ => "stats\r\nstats settings\r\nget none\r\n".to_owned(),
    };
    if link.set_timeouts(Duration::from_millis(20)).is_err() {
        return;
    }
    // Gigabytes: a question is for up to 72 MB.
    for _ in 0..2000 {
        if link.write_all(question.as_bytes()).is_err() {
            break;
        }
    }
    // The connection is dropped next, so a failure does not matter.
    let _ = link.set_timeouts(PATIENCE);
}
