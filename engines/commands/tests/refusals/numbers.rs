//! Numbers in long values.

use super::asking::{Client, Delivery};
use guira_contract::{Engine, Session};
use guira_fleec::{FleecEngine, FleecOptions};
use guira_mica::{Fits, Log, MicaEngine, MicaOptions};
use guira_slab::{ChainedEngine, CuckooEngine, EngineOptions, SlabOptions};

const WRONG: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";

/// The reply to `incr` of a value.
fn incremented<S: Session>(client: &mut Client<S>, value: &[u8]) -> Vec<u8> {
    let store = [format!("set k 0 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat();
    assert_eq!(client.ask(&store, Delivery::Whole), b"STORED\r\n");
    client.ask(b"incr k 1\r\n", Delivery::Whole)
}

fn check<E: Engine>(engine: &E) {
    let mut client = Client::new(engine.session());
    let blanks = |count: usize| vec![b' '; count];
    let zeros = vec![b'0'; 40_000];
    let long: [(Vec<u8>, &[u8]); 7] = [
        // memcached keeps it in several chunks.
        ([b"9".to_vec(), blanks(900_000)].concat(), WRONG),
        ([b"9".to_vec(), blanks(500_000)].concat(), b"10\r\n"),
        ([blanks(300_000), b"7".to_vec()].concat(), b"8\r\n"),
        ([blanks(250), b"123456789".to_vec(), blanks(100)].concat(), b"123456790\r\n"),
        ([zeros.clone(), b"41".to_vec()].concat(), b"42\r\n"),
        ([zeros, blanks(1), b"41".to_vec()].concat(), b"1\r\n"),
        (blanks(300_000), WRONG),
    ];
    for (value, reply) in long {
        client.forget_calls();
        let found = incremented(&mut client, &value);
        assert_eq!(found, reply, "{} bytes: {}", value.len(), found.escape_ascii());
    }
}

#[test]
fn a_long_value_is_a_number_where_memcached_finds_one() {
    let engine = || EngineOptions::of(32 << 20);
    let slab = || SlabOptions { engine: engine(), ..SlabOptions::default() };
    check(&CuckooEngine::open(slab()).unwrap());
    check(&ChainedEngine::open(slab()).unwrap());
    check(&FleecEngine::open(FleecOptions { engine: engine(), ..FleecOptions::default() }).unwrap());
    let mica = || MicaOptions { engine: engine(), ..MicaOptions::default() };
    check(&MicaEngine::<Log>::open(mica()).unwrap());
    check(&MicaEngine::<Fits>::open(mica()).unwrap());
}
