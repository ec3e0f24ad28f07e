//! FLeeC's claims.

use super::{Row, row};

pub(super) const ROWS: &[Row] = &[
    row("F1", "fleec-skew", "over memcached at Zipf 0.5, 0.99, 1.5", "above at every exponent", |answer| {
        let [low, _, middle, _, high] = answer.after("server:")?;
        let text = format!("{low:.2} ×, {middle:.2} ×, {high:.2} ×");
        Some((text, vec![low > 1.0 && middle > 1.0 && high > 1.0]))
    }),
    row(
        "F2",
        "fleec-contention",
        "over a twin with locks (MemCLOCK), 99 % reads",
        "6 × on very high contention, 1.2 × on medium",
        |answer| {
            let [_, _, one_key] = answer.after("one key, 99 % reads: with")?;
            let [_, _, zipf] = answer.after("Zipf 0.99, 99 % reads: with")?;
            let text = format!("{one_key:.2} × on one key, {zipf:.2} × at Zipf 0.99");
            Some((text, vec![one_key >= 6.0, zipf >= 1.2]))
        },
    ),
    row("F3", "fleec-skew", "latency over memcached's", "down to a sixth", |answer| {
        let [low, _, middle, _, high] = answer.after("half of the reads")?;
        let [_, _, tail] = answer.after("one in a hundred")?;
        let least = low.min(middle).min(high);
        Some((format!("median down to {least:.2}; p99 at 0.99 {tail:.2}"), vec![least <= 0.17, tail < 1.0]))
    }),
    row(
        "F4",
        "fleec-parked",
        "MemCLOCK: blocking buckets, same eviction",
        "throughput like memcached's; blocked by stalled threads",
        |answer| {
            let [_, _, middle] = answer.after("CPU second:")?;
            let [_, _, memclock, fleec] = answer.after("of 4 cases:")?;
            let text = format!(
                "fleec {middle:.2} × memclock over loopback; a stalled thread stalls memclock in {memclock} of 4 cases, fleec in {fleec}"
            );
            Some((text, vec![middle > 1.2, fleec < memclock && fleec == 0.0]))
        },
    ),
    row(
        "F5",
        "fleec-hits",
        "hit ratio of a value for each bucket, against LRU",
        "no significant loss",
        |answer| {
            let [median, near, all, worst] = answer.after("bucket-clock 2:")?;
            let text = format!(
                "{median:.1} points less in the median; within one point at {near} of {all} sizes, at worst {worst:.1}"
            );
            Some((text, vec![median <= 0.5, near >= 0.95 * all]))
        },
    ),
    row(
        "F6",
        "fleec-drivers",
        "what drives contention",
        "item size, access frequency, network bandwidth",
        |answer| {
            let [_, small] = answer.after("memclock: 16 bytes")?;
            let [_, large] = answer.after("16384 bytes")?;
            let [slow] = answer.after("50:")?;
            let [fast] = answer.after("400:")?;
            let text = format!(
                "waits in a million {small:.0} → {large:.0} from 16 B to 16 KiB; {slow:.0} → {fast:.0} from 50 to 400 thousand requests a second"
            );
            Some((text, vec![large > 2.0 * small, fast > 2.0 * slow]))
        },
    ),
];
