//! MemC3's claims.

use super::{Row, row};

pub(super) const ROWS: &[Row] = &[
    row("M1", "memc3-threads", "lookups of the bare index", "5 M/s on 1 thread", |answer| {
        let [one] = answer.after("the paper's table")?;
        Some((format!("{one:.2} M/s"), vec![one >= 4.0]))
    }),
    row("M2", "memc3-factors", "all optimisations over chaining", "about 3 ×", |answer| {
        let [lookups] = answer.after("")?;
        let [mixed] = answer.after("M/s),")?;
        Some((format!("{lookups:.1} × lookups, {mixed:.1} × at 90/10"), vec![lookups >= 2.5, mixed >= 2.5]))
    }),
    row(
        "M3",
        "memc3-factors",
        "single steps",
        "huge pages, integer keys and tags speed up, cuckoo alone slows down, a second path repairs 90/10",
        |answer| {
            let [pages] = answer.after("huge pages")?;
            let [keys] = answer.after("integer keys")?;
            let [cuckoo] = answer.after("cuckoo without tags")?;
            let [tags] = answer.after("; tags")?;
            let [_, paths] = answer.after("2 paths")?;
            let text = format!("{pages:+} %, {keys:+} %, {tags:+} %; {cuckoo:+} %; {paths:+} % at 90/10");
            Some((text, vec![pages > 0.0, keys > 0.0, tags > 0.0, cuckoo < 0.0, paths > 0.0]))
        },
    ),
    row(
        "M4",
        "memc3-threads",
        "lookups over chaining under a global lock",
        "15 × with 6 threads; bucket locks 5-6 ×; huge pages and keys < 1.8 ×",
        |answer| {
            let [whole] = answer.after("2 threads:")?;
            let [keys] = answer.after("alone")?;
            let [locks] = answer.after("bucket-locked cuckoo")?;
            let text = format!("{whole:.1} ×, {locks:.1} ×, {keys:.1} × with 2 threads");
            Some((text, vec![whole >= 15.0 / 6.0 * 2.0, whole > locks && locks > keys]))
        },
    ),
    row("M5", "memc3-threads", "scaling with threads", "linear to 6; chaining never scales", |answer| {
        let [table] = answer.after("the paper's table ×")?;
        let [chaining] = answer.after("chaining ×")?;
        let text = format!("second thread × {table:.2}; chaining × {chaining:.2}");
        Some((text, vec![table >= 1.7, chaining < 1.1]))
    }),
    row("M6", "memc3-items", "metadata of an item", "index 9.7 B; eviction 1 bit", |answer| {
        let [index] = answer.after("index:")?;
        let [bits] = answer.after("eviction:")?;
        Some((format!("index {index:.1} B; eviction {bits} bits"), vec![index <= 9.7, bits <= 1.0]))
    }),
    row("M7", "memc3-fill", "chaining, filled to its limit", "13.33 B/key", |answer| {
        let [bytes] = answer.after("")?;
        Some((format!("{bytes:.2} B/key"), vec![(bytes - 13.33).abs() < 0.05]))
    }),
    row(
        "M8",
        "memc3-fill",
        "load of a full cuckoo table, 1 to 4 paths",
        "90.84 / 92.78 / 94.48 / 95.19 %",
        |answer| {
            let ours: [f64; 4] = answer.after("load")?;
            let theirs = [90.84, 92.78, 94.48, 95.19];
            let near = ours.iter().zip(theirs).all(|(ours, theirs)| (ours - theirs).abs() <= 1.1);
            let [one, two, three, four] = ours;
            Some((format!("{one:.2} / {two:.2} / {three:.2} / {four:.2} %"), vec![near]))
        },
    ),
    row(
        "M9",
        "memc3-fill",
        "displacements per insert, 2 paths",
        "< 0.1 up to 80 %, < 0.4 when full",
        |answer| {
            let [_, until] = answer.after("paths:")?;
            let [_, full] = answer.after("filled;")?;
            Some((format!("{until:.3}, {full:.3}"), vec![until < 0.1, full < 0.4]))
        },
    ),
    row(
        "M10",
        "memc3-references",
        "items that a lookup touches",
        "0.03 on a miss, 1.03 on a hit",
        |answer| {
            let [miss] = answer.after("then")?;
            let [hit] = answer.after("miss and")?;
            Some((
                format!("{miss:.4}, {hit:.4}"),
                vec![(miss - 0.03).abs() < 0.005, (hit - 1.03).abs() < 0.03],
            ))
        },
    ),
    row("M11", "memc3-counters", "8192 version counters suffice", "retries negligible", |answer| {
        let [retries] = answer.after("counters")?;
        Some((format!("{retries:.1} retries in a million lookups"), vec![retries < 1000.0]))
    }),
    row(
        "M12",
        "memc3-items",
        "items in 1 GB, CLOCK + cuckoo and LRU + chaining",
        "13.42 M, 9.59 M",
        |answer| {
            let [_, _, _, _, clock] = answer.after("CLOCK + cuckoo")?;
            let [_, _, _, _, lru] = answer.after("LRU + chaining")?;
            Some((format!("{clock:.2} M, {lru:.2} M"), vec![clock >= 13.42 && clock > lru]))
        },
    ),
    row(
        "M13",
        "memc3-items",
        "more items in the same memory",
        "CLOCK + cuckoo +30 %, cuckoo +7 %",
        |answer| {
            let [clock] = answer.after("as memcached,")?;
            let [cuckoo] = answer.after("; LRU + cuckoo")?;
            let more = |factor: f64| (factor - 1.0) * 100.0;
            let text = format!("{:+.0} %, {:+.0} %", more(clock), more(cuckoo));
            Some((text, vec![clock >= 1.295, cuckoo >= 1.065]))
        },
    ),
    row(
        "M14",
        "memc3-items",
        "hit ratio at 1 GB, CLOCK + cuckoo and LRU + chaining",
        "85.32 %, 83.20 %",
        |answer| {
            let clock: [f64; 5] = answer.after("CLOCK + cuckoo")?;
            let lru: [f64; 5] = answer.after("LRU + chaining")?;
            let text = format!("{:.2} %, {:.2} %", clock[4], lru[4]);
            Some((text, vec![clock[4] > lru[4], (clock[4] - 85.32).abs() < 2.0]))
        },
    ),
    row(
        "M15",
        "memc3-cache",
        "cache that holds everything",
        "30 M/s at 16 threads; LRU does not scale",
        |answer| {
            let [clock_one, _, clock_two] = answer.after("CLOCK + cuckoo")?;
            let [lru_one, _, lru_two] = answer.after("LRU + chaining")?;
            let (clock, lru) = (clock_two / clock_one, lru_two / lru_one);
            let text = format!("{clock_two:.2} M/s at 2 (× {clock:.2}); LRU × {lru:.2}");
            Some((text, vec![clock_two >= 30.0 / 16.0 * 2.0, clock > lru, lru < 1.2]))
        },
    ),
    row("M16", "memc3-cache", "cache of a tenth of the working set", "peak 4.5 M/s", |answer| {
        let [_, _, two] = answer.after("CLOCK + cuckoo")?;
        Some((format!("{two:.2} M/s at 2 threads"), vec![two >= 4.5]))
    }),
    row(
        "M17",
        "memc3-cache",
        "whole cache over memcached's default",
        "3-10 × throughput, hit ratio not worse",
        |answer| {
            let [all] = answer.after("2 threads:")?;
            let [small] = answer.after("batches),")?;
            let [ours, theirs] = answer.after("hits")?;
            let text = format!("{all:.2} × and {small:.2} ×; {ours:.1} against {theirs:.1} %");
            Some((text, vec![all >= 3.0, small >= 3.0, ours >= theirs]))
        },
    ),
    row("M18", "memc3-network", "server over the network, over memcached", "almost 3 ×", |answer| {
        let [times] = answer.after("CPU second (")?;
        Some((format!("{times:.2} ×"), vec![times >= 2.8]))
    }),
];
