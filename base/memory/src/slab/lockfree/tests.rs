use super::*;
use crate::HugePages;
use crate::lasting::HandedBy;
use crate::slab::NoPages;
use guira_sync::words::store;

fn metadata_end(pages: u32) -> usize {
    LockFreeSlab::metadata_bytes(pages as usize).next_multiple_of(PAGE_BYTES) + PAGE_BYTES
}

fn slab(pages: u32, budget: usize, commit_pages: u32) -> LockFreeSlab {
    let bytes = metadata_end(pages) + pages as usize * PAGE_BYTES;
    slab_in(Arc::new(Region::anonymous(bytes, HugePages::No).unwrap()), pages, budget, commit_pages)
}

fn slab_in(region: Arc<Region>, pages: u32, budget: usize, commit_pages: u32) -> LockFreeSlab {
    let metadata = metadata_end(pages);
    LockFreeSlab::new(
        region,
        Arc::new(Budget::new(budget * PAGE_BYTES)),
        ClassTable::with_links(1.08, 24, 8),
        Offset::from_bytes(PAGE_BYTES as u64),
        Offset::from_bytes(metadata as u64),
        pages,
        commit_pages,
    )
}

fn all_free(slab: &LockFreeSlab) -> u64 {
    slab.classes().ids().map(|class| slab.free_chunks(class)).sum()
}

fn take_all(slab: &LockFreeSlab, class: ClassId) -> Vec<Offset> {
    let mut all = Vec::new();
    while slab.take(class, 50, &mut all) > 0 || slab.grow(class) {}
    all
}

#[test]
fn every_chunk_is_handed_out_once_and_comes_back() {
    let slab = slab(4, 3, 1);
    for size in [24, 100, 5_000, ClassTable::largest_chunk() - 8] {
        let class = slab.classes().class_for(size).unwrap();
        let geometry = *slab.classes().geometry(class);
        let mut all = take_all(&slab, class);
        assert_eq!(all.len() as u32, 3 * geometry.chunks);
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[1].bytes() - pair[0].bytes() >= geometry.chunk as usize));
        assert!(all.iter().all(|at| slab.class_at(*at) == Some(class)));
        assert_eq!(all_free(&slab), 0);
        all.iter().for_each(|at| slab.give(*at));
        assert_eq!(slab.free_chunks(class), u64::from(3 * geometry.chunks));
        assert_eq!(take_all(&slab, class).len(), all.len(), "they are handed out again");
        all.iter().for_each(|at| slab.give(*at));
        while let Some(held) = slab.hold_emptiest(class, 4, &[]) {
            let emptied = slab.empty(held).expect("all its chunks are free");
            assert!(slab.surrender(emptied));
        }
    }
}

#[test]
fn a_page_changes_its_class_when_all_its_chunks_are_free() {
    let slab = slab(2, 1, 1);
    let (small, large) = (slab.classes().class_for(24).unwrap(), slab.classes().class_for(9_000).unwrap());
    let chunks = take_all(&slab, small);
    assert!(!slab.grow(large));
    assert_eq!(slab.hold_emptiest(small, 8, &[]), None, "no page has free chunks");
    chunks[1..].iter().for_each(|at| slab.give(*at));
    let held = slab.hold_emptiest(small, 8, &[]).unwrap();
    assert_eq!(held.free as usize, chunks.len() - 1);
    assert_eq!(slab.occupied(&held), [chunks[0]]);
    let held = slab.empty(held).expect_err("one chunk is not free");
    let page = held.page();
    slab.put_back(held);
    assert_eq!(slab.hold_emptiest(small, 8, &[page]), None, "there is no other");
    slab.give(chunks[0]);
    let held = slab.hold_emptiest(small, 8, &[]).unwrap();
    let emptied = slab.empty(held).unwrap();
    slab.hand_over(emptied, large);
    assert_eq!((slab.pages_of(small), slab.pages_of(large)), (0, 1));
    assert!(take_all(&slab, small).is_empty());
    assert_eq!(take_all(&slab, large).len() as u32, slab.classes().geometry(large).chunks);
}

#[test]
fn of_several_pages_the_emptiest_is_held_and_the_others_still_serve() {
    let slab = slab(3, 3, 1);
    let class = slab.classes().class_for(1_000).unwrap();
    let all = take_all(&slab, class);
    let per_page = slab.classes().geometry(class).chunks as usize;
    for (page, count) in [1, 7, 3].into_iter().enumerate() {
        all[page * per_page..][..count].iter().for_each(|at| slab.give(*at));
    }
    let held = slab.hold_emptiest(class, 8, &[]).unwrap();
    assert_eq!((held.free, slab.page_at(all[per_page])), (7, Some(held.page)));
    let mut out = Vec::new();
    assert_eq!(slab.take(class, 100, &mut out), 4, "those of the other two");
    slab.put_back(held);
    assert_eq!(slab.take(class, 100, &mut out), 7);
}

#[test]
fn pages_committed_together_are_paid_for_together() {
    let slab = slab(16, 11, 8);
    let class = slab.classes().class_for(1_000).unwrap();
    assert!(slab.grow(class));
    assert_eq!((slab.budget.used() / PAGE_BYTES, slab.pool_size()), (8, 7));
    for _ in 1..11 {
        assert!(slab.grow(class));
    }
    assert!(!slab.grow(class));
    assert_eq!((slab.budget.used() / PAGE_BYTES, slab.pool_size()), (11, 0));
}

/// Threads allocate chunks, mark them, check the mark, and free them, while another moves pages between the classes.
#[test]
fn threads_never_share_a_chunk() {
    const ROUNDS: u32 = 3_000;
    let slab = slab(6, 6, 2);
    let classes: Vec<ClassId> =
        [24, 600, 9_000].iter().map(|size| slab.classes().class_for(*size).unwrap()).collect();
    let mover_stops = guira_sync::atomic::AtomicBool::new(false);
    guira_sync::thread::scope(|scope| {
        let workers: Vec<_> = (1..=3u64)
            .map(|thread| {
                let (slab, classes) = (&slab, &classes);
                scope.spawn(move || {
                    let mut held: Vec<Offset> = Vec::new();
                    for round in 0..ROUNDS {
                        let class = classes[(round as usize * 7 + thread as usize) % classes.len()];
                        let before = held.len();
                        if slab.take(class, 5, &mut held) == 0 {
                            slab.grow(class);
                        }
                        held[before..].iter().for_each(|at| store(slab.region.word(*at), thread << 32));
                        if held.len() > 40 || round % 50 == 49 {
                            for at in held.drain(..) {
                                assert_eq!(guira_sync::words::load(slab.region.word(at)), thread << 32);
                                slab.give(at);
                            }
                        }
                    }
                    held.into_iter().for_each(|at| slab.give(at));
                })
            })
            .collect();
        let (slab, classes, stops) = (&slab, &classes, &mover_stops);
        let mover = scope.spawn(move || {
            let mut moved = 0;
            // It may run only when the others have finished: then it can move a page for sure.
            while !stops.load(Ordering::Relaxed) || moved == 0 {
                for (from, to) in [(0, 1), (1, 2), (2, 0)] {
                    match slab.hold_emptiest(classes[from], 2, &[]).map(|held| slab.empty(held)) {
                        Some(Ok(emptied)) => {
                            slab.hand_over(emptied, classes[to]);
                            moved += 1;
                        }
                        Some(Err(held)) => slab.put_back(held),
                        None => {}
                    }
                }
            }
            moved
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        mover_stops.store(true, Ordering::Relaxed);
        assert!(mover.join().unwrap() > 0);
    });
    let chunks: u64 = classes
        .iter()
        .map(|class| slab.pages_of(*class) * u64::from(slab.classes().geometry(*class).chunks))
        .sum();
    assert_eq!(all_free(&slab), chunks, "all have come back");
}

/// Another allocator in the same Region, restored.
fn again(slab: &LockFreeSlab, budget: usize, commit_pages: u32) -> Result<LockFreeSlab, NoPages> {
    let other = slab_in(slab.region.clone(), slab.page_count, budget, commit_pages);
    other.restore(slab.touched(), HandedBy::File)?;
    Ok(other)
}

#[test]
fn allocated_chunks_stay_allocated_when_memory_is_restored() {
    for (commit_pages, again_pages) in [(1, 1), (4, 4), (4, 1), (1, 4)] {
        let slab = slab(12, 12, commit_pages);
        let classes = [24, 600, 9_000].map(|size| slab.classes().class_for(size).unwrap());
        let mut kept = Vec::new();
        for class in classes {
            assert!(slab.grow(class) && slab.grow(class));
            let mut all = take_all_there_is(&slab, class);
            // One page is full, the other in part.
            let free = all.split_off(all.len() * 3 / 4);
            free.into_iter().for_each(|at| slab.give(at));
            kept.push(all);
        }
        let emptied = slab.hold_emptiest(classes[1], 8, &[]).unwrap();
        slab.occupied(&emptied).into_iter().for_each(|at| {
            slab.give(at);
            kept[1].retain(|other| *other != at);
        });
        slab.release(slab.empty(emptied).unwrap());
        assert_eq!(slab.pool_size(), 1 + u64::from(slab.touched().paid));
        slab.settle();
        assert_eq!(slab.touched().pages, 6);

        let other = again(&slab, 12, again_pages).unwrap();
        assert_eq!(other.budget.used(), slab.budget.used());
        assert_eq!(other.pool_size(), u64::from(slab.touched().paid));
        for (class, kept) in classes.into_iter().zip(&mut kept) {
            assert_eq!(other.pages_of(class), slab.pages_of(class));
            assert_eq!(other.free_chunks(class), slab.free_chunks(class));
            let chunks = other.pages_of(class) as usize * other.classes().geometry(class).chunks as usize;
            kept.extend(take_all_there_is(&other, class));
            kept.sort_unstable();
            kept.dedup();
            assert_eq!(kept.len(), chunks, "each is handed out once");
        }
        while other.grow(classes[0]) {}
        assert_eq!(other.touched(), Touched { pages: 12, paid: 0 });
        assert_eq!(other.classes().ids().map(|class| other.pages_of(class)).sum::<u64>(), 12);
        kept.iter().flatten().for_each(|at| other.give(*at));
    }
}

fn take_all_there_is(slab: &LockFreeSlab, class: ClassId) -> Vec<Offset> {
    let mut all = Vec::new();
    while slab.take(class, 50, &mut all) > 0 {}
    all
}

#[test]
fn unclaimed_chunks_are_freed() {
    let slab = slab(2, 2, 1);
    let class = slab.classes().class_for(1_000).unwrap();
    let all = take_all(&slab, class);
    let mut handed = slab.handed_out();
    let outside = [all[0].plus(8), Offset::from_bytes(8), slab.pages.plus(2 * PAGE_BYTES)];
    assert!(outside.into_iter().all(|at| handed.claim(at).is_none()));
    let chunks = slab.classes().geometry(class).chunks;
    let behind = slab.pages.plus(slab.classes().geometry(class).start_of(chunks));
    assert_eq!(handed.claim(behind), None, "beyond the chunks of the page");
    for at in &all[..7] {
        assert_eq!((handed.claim(*at), handed.claim(*at)), (Some(class), None), "once only");
    }
    handed.disclaim(all[3]);
    assert!(!handed.is_claimed(all[3]) && handed.is_claimed(all[2]));
    handed.unclaimed().for_each(|at| slab.give(at));
    assert_eq!(slab.free_chunks(class), all.len() as u64 - 6);
    assert_eq!(slab.handed_out().claim(all[3]), None, "it is free");
    let mut again = take_all_there_is(&slab, class);
    again.extend(all[..3].iter().chain(&all[4..7]));
    again.sort_unstable();
    assert_eq!(again, all);
}

#[test]
fn pages_that_cannot_be_are_refused() {
    let slab = slab(4, 4, 1);
    let class = slab.classes().class_for(5_000).unwrap();
    assert!(slab.grow(class) && slab.grow(class));
    assert!(again(&slab, 4, 1).is_ok());
    let words = [
        (slab.descriptor(PageId(1)), 255),
        (slab.descriptor(PageId(1)), (u64::from(class.0) + 1) | (1 << 40)),
        (slab.descriptor(PageId(0)), 1 << 9),
        (slab.bitmap(PageId(1), 0), u64::MAX),
    ];
    for (word, is) in words {
        let was = guira_sync::words::load(word);
        store(word, is);
        assert_eq!(again(&slab, 4, 1).err(), Some(NoPages), "{is:x}");
        store(word, was);
    }
    let other = slab_in(slab.region.clone(), 4, 4, 1);
    for touched in
        [Touched { pages: 5, paid: 0 }, Touched { pages: 2, paid: 3 }, Touched { pages: 2, paid: u32::MAX }]
    {
        assert_eq!(other.restore(touched, HandedBy::File), Err(NoPages), "{touched:?}");
    }
    // A chunk may be freed late, when its page has no class any more.
    store(slab.descriptor(PageId(1)), LISTED);
    assert_eq!(again(&slab, 4, 1).unwrap().pages_of(class), 1);
}
