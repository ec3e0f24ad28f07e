//! MICA's claims.

use super::{Answer, Row, row};

/// Four figures, as they are filed: uniform 50 and 95 % get, skewed 50 and 95 %.
fn four(answer: Answer<'_>, mark: &str) -> Option<([f64; 4], String)> {
    let found = answer.after(mark)?;
    let text = found.map(|figure: f64| format!("{figure:.2}")).join(" / ");
    Some((found, text))
}

fn least(figures: [f64; 4]) -> f64 {
    figures.into_iter().fold(f64::MAX, f64::min)
}

fn most(figures: [f64; 4]) -> f64 {
    figures.into_iter().fold(f64::MIN, f64::max)
}

pub(super) const ROWS: &[Row] = &[
    row("I1", "mica-paths", "tiny items, M/s a core", "4.1-4.8", |answer| {
        let (memory, text) = four(answer, "shared memory")?;
        let (kernel, kernel_text) = four(answer, "kernel UDP")?;
        let text = format!("shared memory {text}; kernel UDP {kernel_text}");
        Some((text, vec![least(memory) >= 4.1, least(kernel) >= 4.1]))
    }),
    row("I2", "mica-paths", "over the best other engine on the same path", "4-13.5 ×", |answer| {
        let (memory, text) = four(answer, "shared memory")?;
        Some((text, vec![most(memory) >= 4.0]))
    }),
    row("I3", "mica-inside", "penalty of skew: skewed ÷ uniform", "at least 0.86", |answer| {
        let [half] = answer.after("on one core")?;
        let [two] = answer.after("partitions,")?;
        Some((format!("{half:.2} on one core, {two:.2} on two"), vec![half >= 0.86, two >= 0.86]))
    }),
    row("I4", "mica-paths", "share of bare packet I/O", "82-100 %", |answer| {
        let [low, high] = answer.after("shared memory")?;
        let [kernel_low, kernel_high] = answer.after("kernel UDP")?;
        let text =
            format!("shared memory {low:.0}-{high:.0} %, kernel UDP {kernel_low:.0}-{kernel_high:.0} %");
        Some((text, vec![high >= 82.0, kernel_high >= 82.0]))
    }),
    row("I5", "mica-paths", "small items, M/s a core", "3.5-4.0", |answer| {
        let (memory, text) = four(answer, "shared memory")?;
        let (kernel, kernel_text) = four(answer, "kernel UDP")?;
        let text = format!("shared memory {text}; kernel UDP {kernel_text}");
        Some((text, vec![least(memory) >= 3.5, least(kernel) >= 3.5]))
    }),
    row("I6", "mica-paths", "large items: more puts are faster", "12.6-14.6 M/s against 8.6-9.4", |answer| {
        let (memory, text) = four(answer, "shared memory")?;
        let (kernel, kernel_text) = four(answer, "kernel UDP")?;
        let faster = |figures: [f64; 4]| figures[0] > figures[1] && figures[2] > figures[3];
        let text = format!("shared memory {text}; kernel UDP {kernel_text}");
        Some((text, vec![faster(memory), faster(kernel)]))
    }),
    row("I7", "mica-inside", "store ÷ cache semantics", "minor difference", |answer| {
        let (inside, text) = four(answer, "tiny items:")?;
        Some((text, vec![least(inside) >= 0.9]))
    }),
    row("I8", "mica-spread", "burst of the busiest core grows under skew", "10.2 → 17.3", |answer| {
        let [uniform, skewed] = answer.after("busier worker")?;
        Some((format!("{uniform:.1} → {skewed:.1}"), vec![skewed >= 1.2 * uniform]))
    }),
    row("I9", "mica-model", "cache hits under skew (model)", "67.8 → 77.8 %", |answer| {
        let [uniform] = answer.after("of requests")?;
        let [skewed] = answer.after("are uniform,")?;
        Some((format!("{uniform:.1} → {skewed:.1} %"), vec![skewed > uniform]))
    }),
    row(
        "I10",
        "mica-inside",
        "without network, M/s a core",
        "8.5-10.9; skewed faster; EREW and CREW alike",
        |answer| {
            let (erew, text) = four(answer, "M/s:")?;
            let (crew, crew_text) = four(answer, "CREW")?;
            let alike = erew.iter().zip(crew).all(|(erew, crew)| (crew / erew - 1.0).abs() <= 0.1);
            let skewed = erew[2] > erew[0] && erew[3] > erew[1];
            Some((format!("{text}; CREW {crew_text}"), vec![least(erew) >= 8.5, skewed, alike]))
        },
    ),
    row("I11", "mica-paths", "median latency", "24-52 µs", |answer| {
        let [memory] = answer.after("shared memory")?;
        let [kernel] = answer.after("kernel UDP")?;
        Some((
            format!("shared memory {memory:.0} µs, kernel UDP {kernel:.0} µs"),
            vec![memory <= 52.0, kernel <= 52.0],
        ))
    }),
    row("I12", "mica-model", "16 cores, skewed (model)", "scales", |answer| {
        let [cores] = answer.after("lets all do")?;
        Some((format!("{cores:.1} × one core"), vec![cores >= 8.0]))
    }),
    row("I13", "mica-model", "throughput grows with ports", "2-8 ports", |_| {
        Some(("no ports to count with".to_owned(), Vec::new()))
    }),
    row(
        "I14",
        "mica-inside",
        "CREW and CRCW ÷ EREW",
        "CREW ahead only for skewed reads, CRCW never",
        |answer| {
            let (crew, text) = four(answer, "CREW")?;
            let (crcw, crcw_text) = four(answer, "CRCW")?;
            let only_skewed_reads = crew[3] > 1.0 && crew[..3].iter().all(|ratio| *ratio <= 1.0);
            Some((format!("{text}; {crcw_text}"), vec![only_skewed_reads, most(crcw) <= 1.0]))
        },
    ),
    row("I15", "mica-spread", "direction by the server ÷ by the client", "40.0-44.1 %", |answer| {
        let [uniform, skewed] = answer.after("to direct:")?;
        Some((format!("{uniform:.0} %, skewed {skewed:.0} %"), vec![uniform >= 40.0, skewed >= 40.0]))
    }),
    row("I16", "mica-inside", "another engine, partitioned, ÷ MICA", "0.08-0.27", |answer| {
        let (other, text) = four(answer, "its own keys:")?;
        Some((text, vec![most(other) < 1.0, most(other) <= 0.3]))
    }),
    row("I17", "mica-paths", "the same engine, off the kernel's sockets", "1.85 ×", |answer| {
        let [times] = answer.after("shared memory is")?;
        Some((format!("{times:.1} ×"), vec![times >= 1.8]))
    }),
    row(
        "I18",
        "mica-model",
        "Zipf 0.99: hottest key ÷ mean, hottest of 16 partitions (model)",
        "9.3 × 10^6, +53 %",
        |answer| {
            let [key] = answer.after("is asked for")?;
            let [partition] = answer.after("gets")?;
            let text = format!("{key:.2} × 10^6, {partition:+.0} %");
            Some((text, vec![(key - 9.3).abs() < 0.1, (50.0..=129.0).contains(&partition)]))
        },
    ),
    row("I19", "mica-model", "requests that a client makes, M/s a core", "> 3.3", |answer| {
        let [one] = answer.after("one core makes")?;
        Some((format!("{one:.1}"), vec![one > 3.3]))
    }),
    row(
        "I20",
        "mica-model",
        "bulk chaining: items in main buckets, buckets a lookup (model)",
        "95 %, close to 1",
        |answer| {
            let [main] = answer.after("")?;
            let [buckets] = answer.after("looks at")?;
            Some((format!("{main:.1} %, {buckets:.3}"), vec![main >= 95.0, buckets < 1.1]))
        },
    ),
    row("I21", "mica-model", "scan against stale offsets, buckets a second (model)", "64", |answer| {
        let [looks] = answer.after("buckets need")?;
        Some((format!("{looks:.0}"), vec![looks <= 64.0]))
    }),
];
