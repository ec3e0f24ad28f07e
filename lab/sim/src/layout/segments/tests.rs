//! What becomes of single items.

use guira_contract::Spec;

use super::super::Layout;
use super::super::item::{NEVER, Object};
use super::log::{Queue, group_of};
use super::{Options, Segments};

/// Four items of 248 bytes with their headers fill a segment of 1,024 bytes, all but the 32 that are left over.
const ITEM: Object = Object { bytes: 240, expires: NEVER };

/// A cache with room for about `segments` segments of 1 KiB.
fn open(segments: u64, text: &str) -> Segments {
    let spec = Spec::parse(&format!("segments:segment_kib=1,{text}")).unwrap();
    Segments::open(segments * 1024 + 1024, 10_000, Options::read(&spec).unwrap()).unwrap()
}

fn queue(segments: &Segments, id: u32) -> Option<Queue> {
    segments.held[id as usize].map(|held| segments.queue_of(&held))
}

#[test]
fn what_is_new_is_evicted_first_in_first_out_and_what_was_read_twice_moves_to_main() {
    let mut cache = open(32, "");
    for id in 0..8 {
        cache.store(id, ITEM, 0);
    }
    for id in [0, 0, 1, 5, 5, 5] {
        assert!(cache.read(id, 0));
    }
    let mut next = 8;
    while queue(&cache, 7).is_some() {
        cache.store(next, ITEM, 0);
        next += 1;
    }
    let held: Vec<u32> = (0..8).filter(|&id| queue(&cache, id).is_some()).collect();
    assert_eq!(held, [0, 5], "1 was read only once");
    assert_eq!(
        [0, 5, next - 1].map(|id| queue(&cache, id)),
        [Some(Queue::Main), Some(Queue::Main), Some(Queue::Small)]
    );
    assert_eq!(cache.moved(), 2 * 248);
}

#[test]
fn what_is_stored_again_soon_after_it_was_evicted_comes_into_main() {
    let mut cache = open(32, "");
    let mut next = 0;
    while queue(&cache, 0).is_some() || next == 0 {
        cache.store(next, ITEM, 0);
        next += 1;
    }
    cache.store(0, ITEM, 0);
    assert_eq!((queue(&cache, 0), queue(&cache, next - 1)), (Some(Queue::Main), Some(Queue::Small)));
}

#[test]
fn merging_keeps_the_items_with_the_most_reads_for_each_byte() {
    for (rank, kept) in [("density", [true, false]), ("frequency", [false, true])] {
        let mut cache = open(32, &format!("merge=2,keep_pct=25,rank={rank}"));
        // In main: a small item that is read twice, and one twice as long that is read three times. A quarter of two
        // segments is 512 bytes, and the long one takes them nearly all.
        let long = Object { bytes: 480, expires: NEVER };
        cache.write(0, ITEM, (Queue::Main, 0), 2);
        cache.write(1, long, (Queue::Main, 0), 3);
        cache.write(2, ITEM, (Queue::Main, 0), 0);
        for id in 3..7 {
            cache.write(id, ITEM, (Queue::Main, 0), 0);
        }
        assert!(cache.evict_main(0));
        assert_eq!([0, 1].map(|id| queue(&cache, id).is_some()), kept, "{rank}");
        assert!((2..7).all(|id| queue(&cache, id).is_none()), "nobody has read them");
        assert!(cache.held.iter().flatten().all(|held| held.reads == 1), "reads are halved");
    }
}

#[test]
fn what_expires_together_is_freed_together_and_nothing_is_copied() {
    let mut cache = open(64, "");
    for id in 0..40 {
        let expires = if id % 2 == 0 { 10 } else { NEVER };
        cache.store(id, Object { expires, ..ITEM }, 0);
        assert!(cache.read(id, 0) && cache.read(id, 0));
    }
    let before = cache.usage(9);
    assert_eq!(before.dead, 0.0);
    assert!((0..40).all(|id| cache.read(id, 10) == (id % 2 == 1)));
    let after = cache.usage(10);
    assert_eq!((after.dead, cache.moved()), (0.0, 0));
    // An item that expires takes 252 bytes, and 256 with what aligns it: four fill a segment.
    assert_eq!(after.free - before.free, 5.0 * (1024.0 + super::DESCRIPTOR as f64));
}

#[test]
fn a_value_that_fits_is_stored_over_the_one_before_and_a_longer_one_leaves_it_dead() {
    let mut cache = open(64, "");
    cache.store(0, ITEM, 0);
    cache.store(1, ITEM, 0);
    let free = cache.usage(0).free;
    for bytes in [240, 100, 240, 7] {
        cache.store(0, Object { bytes, ..ITEM }, 0);
        let usage = cache.usage(0);
        assert_eq!((usage.free, usage.dead), (free, 0.0));
        assert_eq!(usage.live, f64::from(bytes) + 8.0 + 248.0);
    }
    cache.store(0, Object { bytes: 241, ..ITEM }, 0);
    assert_eq!((cache.usage(0).dead, cache.usage(0).rounding), (248.0, 7.0));
    cache.store(0, Object { bytes: 241, expires: 100 }, 0);
    assert_eq!(cache.usage(0).dead, 248.0 + 256.0, "it belongs to another group now");
    cache.remove(0, 0);
    assert!(!cache.read(0, 0) && cache.read(1, 0));
}

#[test]
fn an_item_longer_than_a_segment_has_one_to_itself_and_others_go_on_where_they_were() {
    let mut cache = open(64, "");
    let long = Object { bytes: 5000, expires: NEVER };
    cache.store(1, ITEM, 0);
    let free = cache.usage(0).free;
    cache.store(0, long, 0);
    let taken = long.item_bytes().next_multiple_of(8) + super::DESCRIPTOR;
    assert_eq!(free - cache.usage(0).free, taken as f64);
    cache.store(2, ITEM, 0);
    let segment = |cache: &Segments, id: usize| cache.held[id].map(|held| held.place.segment);
    assert!(segment(&cache, 1) == segment(&cache, 2) && segment(&cache, 0) != segment(&cache, 1));
    cache.remove(0, 0);
    assert_eq!((cache.usage(0).dead, cache.usage(0).free), (0.0, free - 248.0), "it is freed at once");
}

#[test]
fn what_does_not_fit_goes_on_in_the_next_segment_and_goes_when_either_part_does() {
    let mut cache = open(64, "");
    let item = Object { bytes: 588, ..ITEM };
    // 600 bytes, and 424 of the second; 176 and a link of 16 bytes come after.
    for id in 0..2 {
        cache.store(id, item, 0);
    }
    let held = cache.held[1].unwrap();
    assert_eq!(held.rest.map(|rest| rest.segment), Some(held.place.segment + 1));
    assert_eq!((cache.usage(0).live, cache.usage(0).rounding, cache.usage(0).dead), (1200.0, 16.0, 0.0));
    cache.evict_small(0);
    assert!([0, 1].iter().all(|&id| !cache.read(id, 0)), "the first part of 1 was there");
    assert_eq!(cache.usage(0).dead, 192.0, "the rest of 1 lies in a segment that is still written to");
    cache.store(2, item, 0);
    cache.store(3, item, 0);
    cache.remove(3, 0);
    assert_eq!(cache.usage(0).live, 600.0);
}

#[test]
fn what_expires_or_is_removed_makes_room_before_anything_is_evicted() {
    let mut cache = open(32, "");
    // Of each four items of a segment one stays.
    let is_short = |id: u32| !id.is_multiple_of(4);
    for id in 0..80 {
        cache.store(id, Object { expires: if is_short(id) { 65 } else { 100 }, ..ITEM }, 0);
    }
    assert!((0..80).filter(|&id| !is_short(id)).all(|id| cache.read(id, 64)));
    for id in 100..148 {
        cache.store(id, ITEM, 99);
    }
    assert!((0..80).all(|id| cache.read(id, 99) != is_short(id)), "what is alive was copied");
    assert!((100..148).all(|id| cache.read(id, 99)));
    assert!(cache.moved() > 0);
}

#[test]
fn groups_are_powers_of_two_of_the_seconds_that_items_live() {
    let group = |expires| group_of(expires, 100);
    assert_eq!([NEVER, 101, 102, 103, 104, u32::MAX - 1].map(group), [0, 2, 3, 3, 4, 33]);
}
