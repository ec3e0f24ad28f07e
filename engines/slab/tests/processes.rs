//! A Region goes from one process to the next, or does not.

use guira_contract::suite::{store, value_of};
use guira_contract::{Control, Engine, Expiry, Opened, Opening, Pace, Session};
use guira_memory::RegionPlace;
use guira_slab::EngineOptions;
use guira_slab::{CuckooEngine, OpenError, SlabOptions};
use guira_sync::clock::Seconds;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

const NOW: Seconds = Seconds(100);
const UNIX: u64 = 1_700_000_000;
const ITEMS: u64 = 50_000;
/// Tells a process of this test what it is for: `keep FILE` or `close FILE`.
const ROLE: &str = "GUIRA_TEST_ROLE";

fn open(place: &RegionPlace) -> Result<Opened<CuckooEngine>, OpenError> {
    CuckooEngine::open_lasting(
        SlabOptions { engine: EngineOptions::of(16 << 20), ..SlabOptions::default() },
        place,
        UNIX,
    )
}

fn name(i: u64) -> Vec<u8> {
    format!("key-{i}").into_bytes()
}

/// What the other process does: it fills the Region, and keeps it open or closes it.
fn serve(role: &str, place: &RegionPlace) {
    let engine = open(place).expect("the region can be used").engine;
    let mut session = engine.session();
    for i in 0..ITEMS {
        store(&mut session, &name(i), &i.to_le_bytes(), 0, Expiry::Never, NOW).expect("there is memory");
        session.maintain(NOW, Pace::Busy, 8);
        session.quiesce();
    }
    drop(session);
    if role == "close" {
        engine.close(NOW, b"from another process").expect("nobody uses it");
        println!("\ndone");
        return;
    }
    println!("\ndone");
    // Until it is killed, or whoever started it is gone.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Another process, which has done its work.
struct Other {
    child: Child,
    _output: BufReader<ChildStdout>,
}

impl Other {
    fn start(role: &str, place: &RegionPlace) -> Self {
        let this = std::env::current_exe().expect("the test is a file");
        let mut command = Command::new(this);
        command.args(["--exact", "a_region_goes_from_one_process_to_the_next", "--nocapture"]);
        command.env(ROLE, format!("{role} {place}")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        while line.trim() != "done" {
            line.clear();
            assert_ne!(output.read_line(&mut line).expect("it is text"), 0, "it has ended");
        }
        Other { child, _output: output }
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is ours");
    }
}

#[test]
fn a_region_goes_from_one_process_to_the_next() {
    if let Ok(role) = std::env::var(ROLE) {
        let (role, path) = role.split_once(' ').expect("a role and a file");
        return serve(role, &RegionPlace::at(path));
    }
    let shared = PathBuf::from("/dev/shm");
    let folder = if shared.is_dir() { shared } else { std::env::temp_dir() };
    let path = folder.join(format!("guira-test-{}-processes", std::process::id()));
    let place = RegionPlace::at(&path);

    let mut other = Other::start("close", &place);
    assert!(other.child.wait().expect("it is ours").success());
    // In this process the Region lies at another address.
    let Opened { engine, opening, notes, .. } = open(&place).expect("the other has left it");
    assert_eq!(
        (opening, notes.as_slice()),
        (Opening::Restored { items: ITEMS }, b"from another process".as_slice())
    );
    let mut session = engine.session();
    for i in 0..ITEMS {
        let item = value_of(&mut session, &name(i), NOW).unwrap_or_else(|| panic!("item {i} is lost"));
        assert_eq!(item.value, i.to_le_bytes());
    }
    drop(session);
    engine.close(NOW, b"").expect("nobody uses it");

    let other = Other::start("keep", &place);
    assert!(matches!(open(&place), Err(OpenError::Region { .. })), "the other is using it");
    other.kill();
    let opened = open(&place).expect("the lock went with the other");
    assert!(matches!(opened.opening, Opening::Emptied(_)), "{}", opened.opening);
    assert_eq!(opened.engine.stats().items, 0);
    let _ = std::fs::remove_file(path);
}
