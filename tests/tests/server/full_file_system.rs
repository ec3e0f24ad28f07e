//! A region whose file system fills up, or loses the file: the server makes do with what there is, refuses, or says why it dies.

use guira_tests::deadline::PATIENCE;
use guira_tests::mounted::Mounted;
use guira_tests::scratch::Scratch;
use guira_tests::server::{engines, guira, refused_guira, spawn, wait_for, wait_for_log};
use guira_tests::{Client, Server, Setup};
use rustix::fs::{SeekFrom, seek};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Mebibytes of the file system of a region.
const ROOM: usize = 40;

fn arguments(region: &str) -> [&str; 6] {
    ["--memory", "32MiB", "--max-item-size", "512KiB", "--region", region]
}

fn start(engine: &'static str, region: &str) -> Server {
    arguments(region).into_iter().fold(Setup::new().engine(engine), Setup::guira_argument).start_guira()
}

/// Stores `count` items of 900 bytes; what finds no room is refused, or something else goes.
fn store(client: &mut Client, name: &str, count: usize) {
    let value = "x".repeat(900);
    client.send_many((0..count).map(|number| format!("set {name}{number} 0 0 900 noreply\r\n{value}\r\n")));
    client.sync();
}

fn stat(client: &mut Client, name: &str) -> u64 {
    client.stats("")[name].parse().unwrap()
}

#[test]
fn a_server_makes_do_with_what_its_file_system_has() {
    for engine in engines() {
        let Some(mounted) = Mounted::new(ROOM) else { return };
        let path = mounted.file("region");
        let region = path.to_str().unwrap();
        let mut server = start(engine, region);
        mounted.take(20);
        let mut client = server.connect();
        store(&mut client, "early", 24_000);
        server.expect_running();
        assert!(stat(&mut client, "region_no_room") > 0, "{engine}");
        let used = stat(&mut client, "memory_used");
        assert!(used > 16 << 20, "{engine}: {used} bytes are used");
        wait_for_log(|| server.log(), "is full: items");
        // What others leave is used.
        mounted.give();
        let mut rounds = 0;
        wait_for("memory to be used that was not there before", || {
            rounds += 1;
            store(&mut client, &format!("late{rounds}-"), 2000);
            (stat(&mut client, "memory_used") > used + (2 << 20)).then_some(())
        });
        let items = stat(&mut client, "curr_items");
        client.abandon();
        server.stop("TERM");
        let server = start(engine, region);
        let mut client = server.connect();
        assert_eq!(stat(&mut client, "curr_items"), items, "{engine}");
    }
}

/// A server that runs makes do with what there is, and so does the one that takes over from it.
#[test]
fn a_server_is_taken_over_from_where_its_file_system_is_full() {
    for engine in engines() {
        let Some(mounted) = Mounted::new(ROOM) else { return };
        let (path, scratch) = (mounted.file("region"), Scratch::new());
        let region = path.to_str().unwrap();
        let takeover = format!("--takeover={}", scratch.file("takeover").display());
        let start = || {
            let setup =
                arguments(region).into_iter().fold(Setup::new().engine(engine), Setup::guira_argument);
            setup.guira_argument(&takeover).start_guira()
        };
        let first = start();
        let mut client = first.connect();
        store(&mut client, "early", 100);
        client.abandon();
        mounted.take_all();
        let second = start();
        first.wait();
        let mut client = second.connect();
        assert_eq!(stat(&mut client, "curr_items"), 100, "{engine}");
    }
}

/// Which of the blocks that a file holds anything of.
#[derive(Clone, Copy, Debug)]
enum Block {
    First,
    Last,
}

/// Changes a bit of a block: of what is known of items, or of items.
fn damage(path: &Path, which: Block) {
    const BLOCK: u64 = 256 << 10;
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = vec![0; BLOCK as usize];
    let mut holds_anything = |block: &u64| {
        file.read_exact_at(&mut bytes, block * BLOCK).unwrap();
        bytes.iter().position(|byte| *byte != 0).map(|at| block * BLOCK + at as u64)
    };
    // The sums lie behind the last whole block. Most of the file is a hole, which takes long to read.
    let end = file.metadata().unwrap().len() / BLOCK;
    let mut blocks = Vec::new();
    let mut from = BLOCK;
    while let Ok(data) = seek(&file, SeekFrom::Data(from)) {
        from = seek(&file, SeekFrom::Hole(data)).unwrap();
        blocks.extend((data / BLOCK..from.div_ceil(BLOCK)).filter(|block| *block < end));
    }
    let at = match which {
        Block::First => blocks.iter().find_map(&mut holds_anything),
        Block::Last => blocks.iter().rev().find_map(&mut holds_anything),
    };
    let at = at.unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn what_was_damaged_has_room_though_the_file_system_is_full() {
    for (engine, which) in
        engines().into_iter().flat_map(|engine| [(engine, Block::First), (engine, Block::Last)])
    {
        let Some(mounted) = Mounted::new(ROOM) else { return };
        let path = mounted.file("region");
        let region = path.to_str().unwrap();
        let server = start(engine, region);
        let mut client = server.connect();
        store(&mut client, "early", 20_000);
        client.abandon();
        server.stop("TERM");
        damage(&path, which);
        let mut server = start(engine, region);
        let mut client = server.connect();
        assert_eq!(stat(&mut client, "region_damaged_blocks"), 1, "{engine} {which:?}");
        mounted.take_all();
        store(&mut client, "late", 40_000);
        server.expect_running();
        client.exchange("mn\r\n", "MN\r\n");
    }
}

#[test]
fn a_server_that_would_find_no_room_says_how_much_it_needs() {
    let Some(mounted) = Mounted::new(ROOM) else { return };
    let path = mounted.file("region");
    let region = path.to_str().unwrap();
    let refused = || {
        let own = [&["serve", "--listen", "127.0.0.1:0"][..], &arguments(region)].concat();
        let (code, errors) = refused_guira(&own);
        assert_eq!(code, Some(1), "{errors}");
        assert!(errors.contains("has room for") && errors.contains("but the region needs up to"), "{errors}");
    };
    mounted.take(30);
    refused();
    mounted.give();
    let server = start("memc3", region);
    let mut client = server.connect();
    client.set("key", "value");
    client.exchange("cache_memlimit 100\r\n", "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n");
    client.abandon();
    server.stop("TERM");
    // The items that are there are not what it is refused for.
    mounted.take(30);
    refused();
    mounted.give();
    start("memc3", region).connect().expect_value("key", "value");
}

#[test]
fn a_file_that_was_copied_without_its_zeroes_gets_its_room_back() {
    for engine in engines() {
        let scratch = Scratch::new();
        let [path, copy] = ["region", "copy"].map(|name| scratch.path().join(name));
        let region = path.to_str().unwrap();
        let server = start(engine, region);
        let mut client = server.connect();
        (0..10).for_each(|number| client.set(&format!("zeroes{number}"), vec![0; 300_000]));
        client.abandon();
        server.stop("TERM");
        let copied = Command::new("cp").arg("--sparse=always").args([&path, &copy]).status();
        assert!(copied.is_ok_and(|status| status.success()));
        fs::rename(&copy, &path).unwrap();
        let taken = || fs::metadata(&path).unwrap().blocks() * 512;
        assert!(taken() < 2_900_000, "{engine}: {} bytes", taken());
        let server = start(engine, region);
        assert!(taken() > 2_900_000, "{engine}: {} bytes", taken());
        server.connect().expect_value("zeroes9", vec![0; 300_000]);
    }
}

#[test]
fn a_server_whose_region_is_cut_says_what_it_dies_of() {
    let scratch = Scratch::new();
    let path = scratch.path().join("region");
    let mut command = guira(["serve", "--listen", "127.0.0.1:0", "--memory", "32MiB", "--region"]);
    command.arg(&path);
    let mut server = spawn(command);
    let address = server.wait_for_address("", PATIENCE).unwrap();
    let mut client = std::net::TcpStream::connect(address).unwrap();
    let region = File::options().write(true).open(&path).unwrap();
    // What it commits ahead just then makes the file longer again.
    let status = wait_for("its end", || {
        region.set_len(0).unwrap();
        // Whatever it says to that, if anything.
        let _ = std::io::Write::write_all(&mut client, b"set key 0 0 5\r\nvalue\r\nget key\r\n");
        server.wait(Duration::from_millis(100)).ok()
    });
    let errors = server.errors();
    let own = format!("killed by SIGBUS: the region {} could not be read or written", path.display());
    assert!(errors.contains(&own), "{errors}");
    assert_eq!(status.signal(), Some(7), "{status}");
}
