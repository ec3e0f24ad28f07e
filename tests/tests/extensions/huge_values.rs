//! A value of 100 MiB.

use guira_sync::atomic::{AtomicBool, Ordering};

use guira_tests::deadline::SetAtEnd;
use guira_tests::{Setup, skip};

const LENGTH: usize = 100 << 20;

/// Every 8 bytes say where they stand.
fn value() -> Vec<u8> {
    (0..LENGTH as u64 / 8).flat_map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect()
}

#[test]
fn a_value_of_100_mib_is_read_whole_under_full_write_load() {
    if std::env::var("GUIRA_TEST_SERVER").as_deref() == Ok("memcached") {
        return skip::say("memory for values of 100 MiB is given by a flag that only guira has");
    }
    let server = Setup::new().max_item_mib(128).guira_argument("--memory=512MiB").start();
    let value = value();
    let mut owner = server.connect();
    owner.set("huge", &value);
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
            owner.send("get huge\r\n");
            assert_eq!(owner.line(), format!("VALUE huge 0 {LENGTH}"));
            assert!(owner.take(LENGTH) == value, "the value was changed while it was sent");
            owner.hear("\r\nEND\r\n");
        }
    });
}
