//! What tasks see of the world.

use crate::{good, of};
use guira_world::lock::{Condvar, Mutex, OnceLock, RwLock};
use guira_world::net::set_host;
use guira_world::scheduler::{call_after, current_process, freeze, is_dead, kill, record, start};
use guira_world::thread::{Builder, park_timeout, scope, sleep, spawn, yield_now};
use guira_world::time::{self, set_wall};
use guira_world::{Options, Outcome, run};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

const SEEDS: u64 = 200;

/// Four tasks that count together, with a yield point within the critical section.
fn counting() -> (u32, Vec<u32>) {
    let (count, order) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(Vec::new())));
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let (count, order) = (count.clone(), order.clone());
            spawn(move || {
                for _ in 0..10 {
                    let mut count = count.lock();
                    let before = *count;
                    yield_now();
                    *count = before + 1;
                    drop(count);
                    order.lock().push(number);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let order = std::mem::take(&mut *order.lock());
    let count = *count.lock();
    (count, order)
}

#[test]
fn a_lock_excludes_whatever_the_order() {
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..SEEDS {
        let (count, order) = good(seed, counting);
        assert_eq!(count, 40, "seed {seed}");
        orders.insert(order);
    }
    assert!(orders.len() > 100, "seeds make different orders: {}", orders.len());
}

#[test]
fn the_same_seed_makes_the_same_run() {
    for seed in 0..20 {
        let [one, two]: [Outcome<_>; 2] = [run(of(seed), counting), run(of(seed), counting)];
        assert_eq!((one.digest, one.time, one.steps), (two.digest, two.time, two.steps), "seed {seed}");
        assert_eq!(one.result, two.result);
    }
    assert_ne!(run(of(1), counting).digest, run(of(2), counting).digest);
}

#[test]
fn waits_end_by_time_and_time_costs_nothing() {
    for seed in 0..SEEDS {
        good(seed, || {
            let begin = time::now();
            sleep(Duration::from_secs(60));
            park_timeout(Duration::from_secs(60));
            let mutex = Mutex::new(());
            drop(Condvar::new().wait_timeout(mutex.lock(), Duration::from_secs(60)));
            let passed = time::now() - begin;
            assert!((180..181).contains(&passed.as_secs()), "{passed:?}");
        });
    }
}

#[test]
fn a_notification_reaches_a_thread_that_waits() {
    for seed in 0..SEEDS {
        good(seed, || {
            let shared = Arc::new((Mutex::new(false), Condvar::new()));
            let other = shared.clone();
            let thread = spawn(move || {
                let mut is_set = other.0.lock();
                while !*is_set {
                    is_set = other.1.wait(is_set);
                }
            });
            yield_now();
            *shared.0.lock() = true;
            shared.1.notify_one();
            thread.join().unwrap();
            assert!(time::now() < Duration::from_secs(1));
        });
    }
}

#[test]
fn readers_share_a_lock_and_a_writer_is_alone() {
    for seed in 0..SEEDS {
        good(seed, || {
            let shared = Arc::new(RwLock::new((0, 0)));
            let threads: Vec<_> = (0..4)
                .map(|number| {
                    let shared = shared.clone();
                    spawn(move || {
                        for _ in 0..10 {
                            if number == 0 {
                                let mut pair = shared.write();
                                pair.0 += 1;
                                yield_now();
                                pair.1 += 1;
                            } else {
                                let pair = shared.read();
                                yield_now();
                                assert_eq!(pair.0, pair.1);
                            }
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}

#[test]
fn a_value_is_made_once_and_waited_for() {
    for seed in 0..SEEDS {
        good(seed, || {
            let once = Arc::new(OnceLock::new());
            let makers: Vec<_> = (0..3)
                .map(|number| {
                    let once = once.clone();
                    spawn(move || {
                        *once.get_or_init(|| {
                            yield_now();
                            number
                        })
                    })
                })
                .collect();
            let value = *once.wait();
            makers.into_iter().for_each(|maker| assert_eq!(maker.join().unwrap(), value));
        });
    }
}

#[test]
fn a_killed_process_does_nothing_more_and_drops_nothing() {
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            record(1);
            panic!("a killed process drops nothing");
        }
    }
    for seed in 0..SEEDS {
        good(seed, || {
            let count = Arc::new(Mutex::new(0));
            let other = count.clone();
            let process = start("victim", move || {
                let _loud = Loud;
                loop {
                    *other.lock() += 1;
                    sleep(Duration::from_millis(1));
                }
            });
            sleep(Duration::from_millis(20));
            kill(process);
            assert!(is_dead(process));
            let after = *count.lock();
            assert!(after > 10);
            sleep(Duration::from_secs(1));
            assert_eq!(*count.lock(), after);
        });
    }
}

#[test]
fn a_frozen_process_goes_on_later() {
    for seed in 0..SEEDS {
        good(seed, || {
            let count = Arc::new(Mutex::new(0));
            let other = count.clone();
            let process = start("frozen", move || {
                loop {
                    *other.lock() += 1;
                    sleep(Duration::from_millis(1));
                }
            });
            sleep(Duration::from_millis(20));
            freeze(process, Duration::from_secs(5));
            let before = *count.lock();
            sleep(Duration::from_secs(4));
            assert_eq!(*count.lock(), before);
            sleep(Duration::from_secs(2));
            assert!(*count.lock() > before + 500);
        });
    }
}

#[test]
fn threads_of_a_scope_borrow_and_have_ended_after_it() {
    for seed in 0..SEEDS {
        good(seed, || {
            let (sum, numbers) = (Mutex::new(0), vec![1, 2, 3]);
            let joined = scope(|scope| {
                for number in &numbers {
                    let sum = &sum;
                    scope.spawn(move || {
                        sleep(Duration::from_millis(10));
                        *sum.lock() += number;
                    });
                }
                scope.spawn(|| numbers.len()).join().unwrap()
            });
            assert_eq!((joined, sum.into_inner()), (3, 6));
        });
    }
}

#[test]
fn tasks_that_wait_for_each_other_are_named() {
    let outcome = run(of(3), || {
        let (one, two) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let (first, second) = (one.clone(), two.clone());
        let thread = Builder::new().name("other".to_owned()).spawn(move || {
            let _two = second.lock();
            sleep(Duration::from_millis(1));
            let _one = first.lock();
        });
        let _one = one.lock();
        sleep(Duration::from_millis(1));
        let _two = two.lock();
        thread.unwrap().join().unwrap();
    });
    assert!(outcome.result.is_none());
    assert_eq!(outcome.stuck, ["main", "other"]);
}

#[test]
fn a_panic_is_reported_and_joined() {
    let outcome = run(of(1), || {
        call_after(Duration::from_secs(1), || record(7));
        let thread = Builder::new().name("bad".to_owned()).spawn(|| panic!("why")).unwrap();
        sleep(Duration::from_secs(2));
        thread.join().is_err()
    });
    assert_eq!(outcome.result, Some(true));
    assert_eq!(outcome.panics, [("bad".to_owned(), "why".to_owned())]);
}

#[test]
fn the_time_of_a_run_ends() {
    let options = Options { end: Duration::from_secs(10), ..of(1) };
    let outcome = run(options, || {
        loop {
            sleep(Duration::from_secs(1));
        }
    });
    assert_eq!(outcome.result, None::<()>);
    assert!((10..12).contains(&outcome.time.as_secs()));
}

#[test]
fn the_wall_clock_of_one_host_jumps_and_drifts() {
    let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
    good(1, move || {
        set_host(current_process(), one);
        let (wall, now) = (time::wall(), time::now());
        set_wall(other, 1_000_000, 0);
        assert_eq!(time::wall() - wall, time::now() - now, "it is another host's");
        set_wall(one, -5_000, 100_000);
        assert_eq!(time::wall() + Duration::from_secs(5) - wall, time::now() - now);
        sleep(Duration::from_secs(10));
        let passed = (time::now() - now).as_secs_f64();
        let shown = time::wall().as_secs_f64() - wall.as_secs_f64() + 5.0;
        assert!((shown - passed * 1.1).abs() < 0.01, "{shown} s in {passed} s: a tenth more");
        set_wall(one, 5_000, 0);
        let before = time::wall();
        sleep(Duration::from_secs(1));
        let shown = (time::wall() - before).as_secs_f64();
        assert!((shown - 1.0).abs() < 0.01, "{shown} s in a second: it has no drift any more");
        // A process that has begun elsewhere reads its own host's clock.
        set_host(current_process(), other);
        assert!(time::wall() > wall + Duration::from_secs(1_000));
    });
}
