use super::*;

const CHUNKS: [usize; 6] = [64, 100, 128, 1000, 1200, 4096];
const CAPACITY: f64 = 1.2e6;

fn division() -> Division {
    Division::new(1 << 20, &CHUNKS)
}

/// The hash of a key: they are spread over all.
fn hash(key: u64) -> u64 {
    (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn stored(weight: u32) -> What {
    What::Stored { weight, expires: u32::MAX }
}

/// A division and the server that it learns from: a cache that keeps items of each size for so many stores of any key.
struct Served {
    division: Division,
    /// When each key was used last, in requests.
    used: std::collections::HashMap<u64, u64>,
    requests: u64,
    uses: Vec<ChunkUse>,
    capacity: f64,
    state: u64,
}

impl Served {
    fn new() -> Self {
        let uses = CHUNKS.map(|chunk| ChunkUse { chunk, items: 1, hits: 0 }).to_vec();
        let division = division();
        Served { division, used: Default::default(), requests: 0, uses, capacity: CAPACITY, state: 1 }
    }

    fn see(&mut self, key: u64, what: What) {
        if hash(key) < self.division.threshold() {
            self.division.see(Observed { key: b"", hash: hash(key), what }, Seconds(1));
        }
    }

    /// A key is read, and stored if it was not used within the last `kept` requests.
    fn ask(&mut self, key: u64, weight: u32, kept: u64) {
        self.requests += 1;
        let last = self.used.insert(key, self.requests);
        if last.is_some_and(|last| self.requests - last <= kept) {
            let size = self.uses.iter_mut().find(|size| size.chunk >= weight as usize).unwrap();
            size.hits += 1;
            self.see(key, What::Hit { weight, expires: u32::MAX });
        } else {
            self.see(key, What::Miss);
            self.see(key, stored(weight));
        }
        if self.requests.is_multiple_of(1000) {
            self.pulse();
        }
    }

    fn pulse(&mut self) {
        self.division.count_uses(&self.uses);
        let now = Seconds((self.requests / 1000) as u32 + 1);
        let busy = Duration::from_secs(1000 * self.requests);
        self.division.pulse(Pulse { now, busy, capacity: self.capacity, ..Pulse::default() });
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % below
    }

    /// Draws by Zipf's law with an exponent of 1 from `keys`.
    fn zipf(&mut self, keys: u64) -> u64 {
        let unit = self.random(1 << 30) as f64 / f64::from(1 << 30);
        (keys as f64).powf(unit) as u64
    }

    /// A key of either size by Zipf's law.
    fn ask_for_either_size(&mut self) {
        let key = self.zipf(100_000);
        let (key, weight) = if key.is_multiple_of(2) { (key, 90) } else { (LONG | key, 900) };
        self.ask(key, weight, 3000);
    }

    /// For how long items of about `bytes` should stay beside those of 90.
    fn stays(&self, bytes: usize) -> f64 {
        let weights = self.division.weights();
        let of = |bytes| weights.iter().find(|one| one.upto >= bytes).map(|one| one.weight);
        of(90).unwrap() / of(bytes).unwrap()
    }
}

const LONG: u64 = 1 << 40;

#[test]
fn bands_go_to_the_first_chunk_that_is_larger_by_a_third() {
    assert_eq!(bands_of(&CHUNKS), [100, 1000, 4096]);
    assert_eq!(bands_of(&[64]), [64]);
    assert_eq!(bands_of(&[64, 65, 66]), [66]);
}

#[test]
fn where_nothing_is_read_again_nothing_is_concluded() {
    let mut served = Served::new();
    for key in 0..100_000 {
        served.ask(key, 90, 5000);
    }
    assert_eq!(served.division.weights(), []);
}

#[test]
fn where_everything_has_room_all_sizes_stay_alike() {
    let mut served = Served::new();
    for _ in 0..20 {
        // What is written again and again is what fills the cache.
        for key in 0..2000 {
            served.ask(key, 90, u64::MAX);
            served.see(key, stored(90));
            if key % 10 == 0 {
                served.ask(LONG | key, 900, u64::MAX);
            }
        }
    }
    assert!((served.stays(900) - 1.0).abs() < 0.01, "{}", served.stays(900));
}

#[test]
fn shorter_items_stay_longer_where_keys_of_all_sizes_are_read_alike() {
    let mut served = Served::new();
    for _ in 0..200_000 {
        served.ask_for_either_size();
    }
    let stays = served.stays(900);
    assert!((0.04..0.3).contains(&stays), "{stays}");
}

#[test]
fn what_is_never_read_again_stays_for_a_shorter_time_than_what_is() {
    let mut served = Served::new();
    for number in 0..200_000 {
        served.ask(number, 90, 3000);
        if number % 10 == 0 {
            // Read again when the cache has been filled once and a half.
            served.ask(LONG | (number / 10 % 1000), 900, 3000);
        }
    }
    assert!(served.stays(900) > 2.0, "{}", served.stays(900));
}

#[test]
fn long_items_that_are_read_all_the_time_stay_though_none_of_them_is_sampled() {
    let mut served = Served::new();
    let sampled = |key: u64| hash(LONG | key) < u64::MAX / 8;
    for number in 0..300_000 {
        let key = if number % 4 == 0 { served.zipf(100_000) } else { LONG / 2 + number };
        served.ask(key, 90, 3000);
        if number % 10 == 0 {
            // Only the server's own counts have these.
            let key = served.random(100);
            let size = served.uses.iter_mut().find(|size| size.chunk >= 900).unwrap();
            if !sampled(key) {
                size.hits += 1;
            }
        }
    }
    let uncounted = {
        let mut served = Served::new();
        for number in 0..300_000 {
            let key = if number % 4 == 0 { served.zipf(100_000) } else { LONG / 2 + number };
            served.ask(key, 90, 3000);
        }
        served.stays(900)
    };
    assert!(served.stays(900) > 2.0 * uncounted, "{} and {uncounted}", served.stays(900));
}

#[test]
fn a_size_that_is_no_longer_read_gives_way_within_four_fills() {
    // A server counts hits by 32: there have to be many.
    let mut served = Served { capacity: 4.0 * CAPACITY, ..Served::new() };
    for _ in 0..400_000 {
        let key = served.zipf(120_000);
        served.ask(key, 90, 12_000);
        let key = served.zipf(120_000);
        served.ask(LONG | key, 900, 12_000);
    }
    let before = served.stays(900);
    let fills = served.division.clock.now();
    while served.division.clock.now() < fills + 4.0 {
        let key = served.zipf(120_000);
        served.ask(LONG | key, 900, 12_000);
    }
    let after = served.stays(900);
    assert!(after > 3.0 * before, "{before} and {after}");
}

#[test]
fn counts_of_a_class_that_was_missing_are_not_counted_twice() {
    let mut served = Served::new();
    for _ in 0..60_000 {
        let key = served.zipf(30_000);
        served.ask(key, 90, 3000);
    }
    let hits = |served: &Served| served.division.bands[0].hits;
    let (uses, before) = (served.uses.clone(), hits(&served));
    assert!(before > 100.0);
    served.division.count_uses(&uses);
    served.division.count_uses(&[]);
    served.division.count_uses(&uses);
    // A thread that is late.
    let late: Vec<_> = uses.iter().map(|one| ChunkUse { hits: one.hits / 2, ..*one }).collect();
    served.division.count_uses(&late);
    served.division.count_uses(&uses);
    assert_eq!(hits(&served), before);
}

#[test]
fn a_key_that_is_asked_for_again_before_it_is_stored_is_missed_once_and_one_that_is_changed_is_hit() {
    let mut served = Served::new();
    let hits = |served: &Served| served.division.seen.hits;
    served.pulse();
    let sampled = served.division.bands[0].threshold();
    let key = (0..).find(|key| hash(*key) < sampled).unwrap();
    served.see(key, stored(90));
    (0..5).for_each(|_| served.see(key, What::Miss));
    assert_eq!(hits(&served), 1.0);
    served.see(key, What::Updated { weight: 90, expires: u32::MAX });
    assert_eq!(hits(&served), 2.0);
}

#[test]
fn a_key_whose_item_has_become_longer_counts_among_the_longer_ones() {
    let mut served = Served::new();
    served.pulse();
    let key = (0..).find(|key| hash(*key) < served.division.bands[0].threshold()).unwrap();
    served.see(key, stored(90));
    served.see(key, What::Updated { weight: 900, expires: u32::MAX });
    let (row, way) = served.division.find(hash(key), Seconds(1)).unwrap();
    assert_eq!((served.division.slots[row][way].band, served.division.seen.hits), (1, 1.0));
}

#[test]
fn what_was_concluded_is_forgotten_where_nothing_is_read_any_more() {
    let mut served = Served::new();
    for _ in 0..200_000 {
        served.ask_for_either_size();
    }
    let before = served.stays(900);
    for key in 0..1_000_000 {
        served.ask(1 << 50 | key, 90, 3000);
    }
    let after = served.stays(900);
    assert!(before < 0.3 && (0.8..1.3).contains(&after), "{before} and {after}");
}

#[test]
fn time_goes_as_the_engine_counts_it() {
    let mut served = Served::new();
    let mut bytes = 0;
    for second in 1..200 {
        for key in 0..100 {
            let key = second * 100 + key;
            served.see(key, stored(90));
        }
        // Three times as much as the sample says.
        bytes += 3 * 100 * 90;
        let now = Seconds(second as u32);
        let busy = Duration::from_secs(1000 * second);
        served.division.pulse(Pulse { now, busy, capacity: CAPACITY, stored: bytes, ..Pulse::default() });
    }
    let fills = served.division.clock.now() / (bytes as f64 / CAPACITY);
    assert!((0.8..1.2).contains(&fills), "{fills}");
}

#[test]
fn what_has_expired_or_was_deleted_is_not_known_any_more() {
    let mut served = Served::new();
    served.see(1, What::Stored { weight: 90, expires: 10 });
    served.see(2, stored(90));
    served.see(2, What::Deleted);
    let mut finds = |key, second| served.division.find(hash(key), Seconds(second)).is_some();
    assert!(finds(1, 9) && !finds(1, 10) && !finds(2, 9));
}

#[test]
fn fewer_keys_are_sampled_where_there_is_no_memory_for_more_and_short_ones_least() {
    let mut tight = Division::new(Division::LEAST_BUDGET, &CHUNKS);
    let pulse = |second| Pulse {
        now: Seconds(second),
        busy: Duration::from_secs(1_000_000 * u64::from(second)),
        capacity: 1e8,
        ..Pulse::default()
    };
    let uses = CHUNKS.map(|chunk| ChunkUse { chunk, items: 1, hits: 0 });
    for second in 1..10 {
        tight.count_uses(&uses);
        tight.pulse(pulse(second));
        for key in 0..50_000 {
            let key = u64::from(second) << 32 | key;
            if hash(key) < tight.threshold() {
                tight.see(Observed { key: b"", hash: hash(key), what: stored(4000) }, Seconds(1));
            }
        }
    }
    assert!(tight.each_place(|_, _| ()) < tight.slots.len() * WAYS);
    let units: Vec<f64> = tight.bands.iter().map(|band| band.unit).collect();
    assert!(units[0] > 9.0 * units[1] && units[2] > 10.0, "{units:?}");
    // Sizes that nothing is stored of are not asked for.
    let all = tight.threshold();
    tight.count_uses(&uses[..3]);
    assert!(tight.threshold() < all / 4);
}

#[test]
fn fewer_requests_are_looked_at_where_there_is_no_time_for_more() {
    let mut busy = division();
    let mut second = 0;
    let mut round = |busy: &mut Division, requests: u64, milliseconds: u64| {
        second += 1;
        let busy_for = Duration::from_millis(milliseconds * u64::from(second));
        busy.pulse(Pulse { now: Seconds(second), busy: busy_for, capacity: 9000.0, ..Pulse::default() });
        for key in 0..requests {
            if hash(key) < busy.threshold() {
                busy.see(Observed { key: b"", hash: hash(key), what: stored(90) }, Seconds(1));
            }
        }
    };
    (0..10).for_each(|_| round(&mut busy, 50_000, 100));
    assert!(busy.threshold() <= u64::MAX >> 4, "{:x}", busy.threshold());
    // And more again where there is.
    (0..30).for_each(|_| round(&mut busy, 50, 1000));
    assert!(busy.threshold() > u64::MAX >> 2, "{:x}", busy.threshold());
}

#[test]
fn it_keeps_to_its_memory() {
    for budget in [Division::LEAST_BUDGET, 1 << 20, 3 << 20] {
        assert!(Division::new(budget, &CHUNKS).bytes() <= budget, "{budget}");
    }
}
