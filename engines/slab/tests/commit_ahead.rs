//! What the system has to do for a store, in page faults: in a process of its own, since others would share its memory.

use guira_contract::suite::store;
use guira_contract::{CommitAhead, Control, Engine, Expiry, Pace, Session};
use guira_memory::{HugePages, MIB};
use guira_slab::{ChainedEngine, CuckooEngine, EngineOptions, SlabOptions};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

const BATCH: u64 = 32;
/// Batches that are stored before what comes next is committed, as by a thread that has other things to do.
const LATE: u64 = 16;

/// Page faults of this thread so far.
fn faults() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux tells");
    let (_, fields) = text.rsplit_once(')').expect("a name");
    fields.split_ascii_whitespace().nth(7).and_then(|field| field.parse().ok()).expect("a number")
}

fn options(memory: usize, huge_pages: HugePages) -> SlabOptions {
    let engine = EngineOptions { memory, huge_pages: Some(huge_pages), ..EngineOptions::default() };
    SlabOptions { engine, ..SlabOptions::default() }
}

/// Page faults of stores: of all, and of the batch that had most.
#[derive(Debug)]
struct Faults {
    all: u64,
    most: u64,
}

/// Fills an engine with small items, until `count` are stored.
fn fill<E: Engine>(engine: &E, count: u64, mut commit_ahead: impl FnMut()) -> Faults {
    let mut session = engine.session();
    let mut faulted = Faults { all: 0, most: 0 };
    commit_ahead();
    for batch in 0..count / BATCH {
        let keys: Vec<String> = (batch * BATCH..(batch + 1) * BATCH).map(|i| format!("key{i}")).collect();
        let before = faults();
        for key in keys {
            store(&mut session, key.as_bytes(), &[7; 24], 0, Expiry::Never, NOW).expect("memory");
        }
        let came = faults() - before;
        faulted = Faults { all: faulted.all + came, most: faulted.most.max(came) };
        session.quiesce();
        session.maintain(NOW, Pace::Busy, 32);
        if batch % LATE == 0 {
            commit_ahead();
        }
    }
    faulted
}

fn stores_cause_no_page_faults<E: Engine>(open: impl Fn(SlabOptions) -> E) {
    for huge_pages in [HugePages::Requested, HugePages::No] {
        let engine = open(options(192 * MIB, huge_pages));
        let slots = engine.stats().index_slots;
        let count = 960_000;
        let faults = fill(&engine, count, || while engine.commit_ahead() == CommitAhead::Committed {});
        let stats = engine.stats();
        assert_eq!((stats.items, stats.evictions), (count, 0));
        assert!(
            stats.index_slots > 2 * slots,
            "{huge_pages:?}: the table has grown from {slots} only to {stats:?}"
        );
        // Lists of the process become longer.
        assert!(faults.all < 100 && faults.most < 16, "{huge_pages:?}: {faults:?}");
    }
}

#[test]
fn stores_cause_no_page_faults_if_memory_is_committed_ahead() {
    stores_cause_no_page_faults(|options| CuckooEngine::open(options).expect("address space"));
    stores_cause_no_page_faults(|options| ChainedEngine::open(options).expect("address space"));
}

#[test]
fn what_is_committed_ahead_stays_below_the_ceiling_and_is_used_in_the_end() {
    let memory = 80 * MIB;
    let count_of = |is_helped: bool| {
        let engine = CuckooEngine::open(options(memory, HugePages::Requested)).expect("address space");
        fill(&engine, 1_800_000, || {
            while is_helped && engine.commit_ahead() == CommitAhead::Committed {
                assert!(engine.stats().memory_used <= memory as u64, "{:?}", engine.stats());
            }
        });
        let stats = engine.stats();
        assert!(stats.evictions > 0 && stats.memory_used <= memory as u64, "{stats:?}");
        stats.items
    };
    let (alone, helped) = (count_of(false), count_of(true));
    assert!(helped * 100 >= alone * 99, "{helped} items fit in place of {alone}");
}
