//! A value of 100 MiB.

use guira_sync::atomic::{AtomicBool, Ordering};

use guira_tests::Setup;
use guira_tests::deadline::SetAtEnd;
use guira_tests::random::Random;

const LENGTH: usize = 100 << 20;

/// Random bytes, with its number in each block.
fn value() -> Vec<u8> {
    const BLOCK: usize = 256;
    let mut value = Random::new(1).bytes(BLOCK).repeat(LENGTH / BLOCK);
    for (number, block) in value.chunks_mut(BLOCK).enumerate() {
        block[..8].copy_from_slice(&(number as u64).to_le_bytes());
    }
    value
}

#[test]
fn a_value_of_100_mib_is_read_whole_under_full_write_load() {
    let server = Setup::new().max_item_mib(128).guira_argument("--memory=512MiB").start_guira();
    let value = value();
    let mut owner = server.connect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (mut client, stop) = (server.connect(), &stop);
            scope.spawn(move || {
                let mut round = 0u32;
                while !stop.load(Ordering::Relaxed) {
                    let data = vec![round as u8; 100 + (round % 7) as usize * 3000];
                    client.set(&format!("other-{writer}-{}", round % 20_000), &data);
                    round += 1;
                }
            });
        }
        let _end = SetAtEnd(&stop);
        for _ in 0..3 {
            // Young, so that it is read before an engine that evicts the oldest item has to.
            owner.set("huge", &value);
            owner.send("get huge\r\n");
            assert_eq!(owner.line(), format!("VALUE huge 0 {LENGTH}"));
            assert!(owner.take(LENGTH) == value, "the value was changed while it was sent");
            owner.hear("\r\nEND\r\n");
        }
    });
}
