//! Random requests to the server under test and to memcached: the replies agree.
//!
//! `GUIRA_DIFFERENTIAL_SEED` and `GUIRA_DIFFERENTIAL_COUNT` repeat one run; otherwise a few fixed seeds are taken.

use guira_tests::{Server, Setup, differential, skip};

const SEEDS: &[u64] = &[1, 2, 3, 4, 5, 6, 7, 8];

const COUNT: usize = 3000;

fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

#[test]
fn random_requests_are_answered_as_memcached_does() {
    let Some(peer) = Setup::new().start_peer() else {
        skip::say("memcached is not installed");
        return;
    };
    let server = Server::start();
    let seeds = number("GUIRA_DIFFERENTIAL_SEED").map_or_else(|| SEEDS.to_vec(), |seed| vec![seed]);
    let count = number("GUIRA_DIFFERENTIAL_COUNT").unwrap_or(COUNT);
    for seed in seeds {
        if let Err(report) = differential::compare(&server, &peer, seed, count) {
            panic!("{report}");
        }
    }
}
