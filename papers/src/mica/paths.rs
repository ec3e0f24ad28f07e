//! I1, I2, I4, I5, I6, I7, I11 and I17: servers behind the same network paths, one worker on one core and the client on the other.

use std::time::Duration;

use super::echo::{self, Echo};
use super::inside::{ENGINES, label};
use super::net::{Came, Client, How, Path, Remote, Server, highest};
use super::{Ask, Data, LARGE, SKEWED, SMALL, TINY, loads, near};
use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Answer, Outcome, Table, answer, percent, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mica-paths",
    claims: &["I1", "I2", "I4", "I5", "I6", "I7", "I11", "I17"],
    about: "Servers behind the same paths of datagrams: shared memory and the kernel's UDP",
    run,
};

const MICA: usize = 0;
const STORE: usize = 3;
const MEMC3: usize = 4;
/// The engines that are compared, of [`ENGINES`].
const COMPARED: [usize; 6] = [MICA, STORE, MEMC3, 5, 6, 7];

fn arguments(engine: usize, memory: &str) -> Vec<String> {
    let (name, access) = ENGINES[engine];
    let mut all = vec!["--engine".to_owned(), name.to_owned(), "--memory".to_owned(), memory.to_owned()];
    if let Some(access) = access {
        all.extend(["--access".to_owned(), access.to_owned()]);
    }
    all
}

/// One point: a load on a path.
#[derive(Debug, Clone, Copy)]
struct Point {
    path: Path,
    per_datagram: u16,
}

const POINTS: [Point; 3] = [
    Point { path: Path::Ring, per_datagram: 1 },
    Point { path: Path::Kernel, per_datagram: 1 },
    Point { path: Path::Kernel, per_datagram: 16 },
];

fn how(context: &Context, point: Point) -> How {
    let duration = Duration::from_millis(context.scale.pick(500, 50));
    How { per_datagram: point.per_datagram, rate: None, duration }
}

/// Millions of requests per second at each point and load: by point, then by load, then by run.
type Rates = Vec<Vec<Vec<Came>>>;

fn mean(runs: &[Came], of: fn(&Came) -> f64) -> Figure {
    Figure::of(&runs.iter().map(of).collect::<Vec<_>>())
}

fn rate(runs: &[Came]) -> Figure {
    mean(runs, |came| came.per_s / 1e6)
}

fn measure(context: &Context, engine: usize, data: Data, keys: u32) -> Result<Rates, Failure> {
    let server = Server::start(context, &arguments(engine, context.scale.pick("3GiB", "128MiB")), 1)?;
    let spent = || server.processor_s();
    Client::new(server.connect(Path::Ring)?, how(context, POINTS[0]))?.fill(data, keys)?;
    let mut rates = vec![vec![Vec::new(); 4]; POINTS.len()];
    for run in 0..context.runs {
        for (number, point) in POINTS.iter().enumerate() {
            let mut client = Client::new(server.connect(point.path)?, how(context, *point))?;
            for (load, ask) in loads(data, keys).iter().enumerate() {
                let came = client.ask(ask, how(context, *point), context.seed + u64::from(run), &spent)?;
                rates[number][load].push(came);
            }
        }
    }
    Ok(rates)
}

/// Rates past the kernel's network stack at both ends of a veth pair.
struct Bypassed {
    mode: &'static str,
    /// By load, then by run.
    rates: Vec<Vec<Came>>,
    /// Of bare echoes, by run, each measured right before the loads of the same run.
    bare: Vec<f64>,
}

impl Bypassed {
    fn bare(&self) -> Figure {
        Figure::of(&self.bare)
    }

    /// What the server answers of what bare echoes come to, by load.
    fn shares(&self) -> Vec<Figure> {
        let share = |runs: &Vec<Came>| {
            let shares = runs.iter().zip(&self.bare).map(|(came, bare)| 100.0 * came.per_s / 1e6 / bare);
            Figure::of(&shares.collect::<Vec<_>>())
        };
        self.rates.iter().map(share).collect()
    }

    fn cells(figures: &[Figure]) -> Vec<String> {
        figures.iter().map(ToString::to_string).collect()
    }
}

/// The same; none where that cannot be.
fn bypassed(
    context: &Context,
    mode: &'static str,
    data: Data,
    keys: u32,
) -> Result<Option<Bypassed>, Failure> {
    let arguments = arguments(MICA, context.scale.pick("3GiB", "128MiB"));
    let Some(server) = Remote::start(context, &arguments, mode)? else {
        return Ok(None);
    };
    let Some(echo) = Remote::echo(mode)? else {
        return Ok(None);
    };
    let how = how(context, POINTS[0]);
    let mut client = Client::new(server.connect(mode)?, how)?;
    client.fill(data, keys)?;
    let (mut rates, mut bare) = (vec![Vec::new(); 4], Vec::new());
    for run in 0..context.runs {
        bare.push(echo::per_s(echo.connect(mode)?, TINY_GET, how.duration)? / 1e6);
        for (load, ask) in loads(data, keys).iter().enumerate() {
            rates[load].push(client.ask(ask, how, context.seed + u64::from(run), &|| 0.0)?);
        }
    }
    Ok(Some(Bypassed { mode, rates, bare }))
}

/// Bytes of a datagram with one get of a tiny item.
const TINY_GET: usize = 52;

/// The highest rate over the kernel's UDP with less than 1 % lost, by load.
fn searched(context: &Context, ask: &Ask) -> Result<Vec<Came>, Failure> {
    let server = Server::start(context, &arguments(MICA, context.scale.pick("3GiB", "128MiB")), 1)?;
    let closed = how(context, POINTS[1]);
    Client::new(server.connect(Path::Ring)?, closed)?.fill(ask.data, ask.keys)?;
    let spent = || server.processor_s();
    let mut runs = Vec::new();
    for run in 0..context.runs {
        let at = |rate: f64| {
            let how = How { rate: Some(rate), ..closed };
            Client::new(server.connect(Path::Kernel)?, how)?.ask(
                ask,
                how,
                context.seed + u64::from(run),
                &spent,
            )
        };
        let seed = context.seed + u64::from(run);
        let most = Client::new(server.connect(Path::Kernel)?, closed)?.ask(ask, closed, seed, &spent)?;
        runs.push(highest(at, 0.7 * most.per_s)?);
    }
    Ok(runs)
}

/// Delays by how much of the highest rate is asked for.
fn delays(context: &Context, ask: &Ask, path: Path) -> Result<Vec<(f64, Came)>, Failure> {
    let server = Server::start(context, &arguments(MICA, context.scale.pick("3GiB", "128MiB")), 1)?;
    let closed = How { per_datagram: 1, rate: None, duration: how(context, POINTS[0]).duration };
    Client::new(server.connect(Path::Ring)?, closed)?.fill(ask.data, ask.keys)?;
    let spent = || server.processor_s();
    let most = Client::new(server.connect(path)?, closed)?.ask(ask, closed, context.seed, &spent)?.per_s;
    let mut all = Vec::new();
    for part in [0.1, 0.3, 0.5, 0.7, 0.8, 0.9] {
        let how = How { rate: Some(part * most), ..closed };
        all.push((part, Client::new(server.connect(path)?, how)?.ask(ask, how, context.seed, &spent)?));
    }
    Ok(all)
}

/// What bare echoes of as many bytes as a tiny get come to, in millions a second.
fn echoes(context: &Context, path: Path) -> Result<Figure, Failure> {
    let echo = Echo::start(path)?;
    let duration = how(context, POINTS[0]).duration;
    Figure::measure(context.runs, |_| Ok(echo::per_s(echo.connect()?, TINY_GET, duration)? / 1e6))
}

fn point_name(point: &Point) -> String {
    format!("{}, {} to a datagram", point.path.name(), point.per_datagram)
}

fn by_load(title: &str, rows: Vec<(String, Vec<String>)>) -> Table {
    let head = ["", "uniform, 50 % get", "uniform, 95 % get", "Zipf 0.99, 50 % get", "Zipf 0.99, 95 % get"];
    let rows = rows.into_iter().map(|(name, cells)| std::iter::once(name).chain(cells).collect());
    table(title, &head, rows.collect())
}

struct Found {
    sizes: Vec<(Data, Rates)>,
    engines: Vec<(usize, Rates)>,
    searched: Vec<Vec<Came>>,
    bypassed: Vec<Bypassed>,
    bare: [Figure; 2],
    ring_delays: Vec<(f64, Came)>,
    kernel_delays: Vec<(f64, Came)>,
}

impl Found {
    fn cells(rates: &Rates, point: usize) -> Vec<String> {
        rates[point].iter().map(|runs| rate(runs).to_string()).collect()
    }

    fn summary(&self, data: usize, point: usize) -> String {
        Self::cells(&self.sizes[data].1, point).join(" / ")
    }

    /// The best of the other engines against mica, by load, at a point.
    fn others(&self, point: usize) -> String {
        let of = |engine: &Rates, load: usize| rate(&engine[point][load]).mean;
        let best = |load: usize| {
            let others = self.engines.iter().filter(|(engine, _)| *engine != MICA && *engine != STORE);
            others.map(|(_, rates)| of(rates, load)).fold(0.0, f64::max)
        };
        let ratios = (0..4).map(|load| format!("{:.2}", of(&self.engines[0].1, load) / best(load)));
        ratios.collect::<Vec<_>>().join(" / ")
    }

    /// The rates past the kernel's stack.
    fn bypass_summary(&self) -> String {
        let summary = |it: &Bypassed| {
            let cells: Vec<String> = it.rates.iter().map(|runs| rate(runs).to_string()).collect();
            format!("; AF_XDP over a veth pair, {}, {}", it.mode, cells.join(" / "))
        };
        self.bypassed.iter().map(summary).collect()
    }

    /// What that is of bare echoes.
    fn bypass_shares(&self) -> String {
        let summary = |it: &Bypassed| {
            let shares = Bypassed::cells(&it.shares()).join(" / ");
            format!("; AF_XDP over a veth pair, {}, {shares} % of {} M/s", it.mode, it.bare())
        };
        self.bypassed.iter().map(summary).collect()
    }

    fn rate_answers(&self) -> Vec<Answer> {
        let found = self;
        let tiny = &found.sizes[0].1;
        let share = |point: usize, bare: Figure| {
            let lows = (0..4).map(|load| rate(&tiny[point][load]).mean / bare.mean);
            let (low, high) = lows.fold((f64::MAX, 0f64), |(low, high), it| (low.min(it), high.max(it)));
            format!("{} to {} %", percent(low), percent(high))
        };
        vec![
            answer(
                "I1",
                format!(
                    "tiny items, M/s on one core: shared memory {}; kernel UDP {}, 16 to a datagram {}{}",
                    found.summary(0, 0),
                    found.summary(0, 1),
                    found.summary(0, 2),
                    found.bypass_summary()
                ),
                "The paper has 4.1 to 4.8 M a core, one request to a packet, past the kernel. In shared memory there is nothing but the cache. Over loopback the kernel carries datagrams of one length as one, which a real network would not do for a client that asks for one thing at a time. On a veth pair AF_XDP copies each packet.",
            ),
            answer(
                "I2",
                format!(
                    "mica EREW ÷ the best of memc3, fleec, memclock and classic, tiny items: shared memory {}; kernel UDP {}, 16 to a datagram {}",
                    found.others(0),
                    found.others(1),
                    found.others(2)
                ),
                "All engines are behind the same server, which hands them bursts. The paper compares with servers of their time, changed as little as needed.",
            ),
            answer(
                "I4",
                format!(
                    "of bare echoes of the same bytes: shared memory {} of {} M/s, kernel UDP {} of {} M/s{}",
                    share(0, found.bare[0]),
                    found.bare[0],
                    share(1, found.bare[1]),
                    found.bare[1],
                    found.bypass_shares()
                ),
                "The paper's 82 to 100 % are of the bytes that its ports can carry. Bare echoes over loopback are packed by the kernel, 64 to one, and rings cost next to nothing, so that what is left is the cache, and a client that draws keys, hashes them and keeps track of what it has sent.",
            ),
            answer(
                "I5",
                format!(
                    "small items, M/s: shared memory {}; kernel UDP {}",
                    found.summary(1, 0),
                    found.summary(1, 1)
                ),
                "There is more to copy than of tiny ones.",
            ),
        ]
    }

    /// Delays at half and at nine tenths of the highest rate.
    fn delay_summary(&self) -> String {
        let at = |delays: &[(f64, Came)], index: usize| {
            delays.get(index).map_or(String::new(), |(_, came)| {
                let [median, p5, p95] = came.delays;
                format!("{median:.0} us (p5 {p5:.0}, p95 {p95:.0}) at {:.2} M/s", came.per_s / 1e6)
            })
        };
        let both = |delays: &[(f64, Came)]| format!("{} and {}", at(delays, 2), at(delays, 5));
        format!("median: shared memory {}; kernel UDP {}", both(&self.ring_delays), both(&self.kernel_delays))
    }

    fn other_answers(&self) -> Vec<Answer> {
        let found = self;
        let store =
            |load: usize| rate(&found.engines[1].1[0][load]).mean / rate(&found.engines[0].1[0][load]).mean;
        let large = &found.sizes[2].1;
        let path_ratio = |point: usize| {
            let memc3 = &found.engines[2].1;
            rate(&memc3[0][1]).mean / rate(&memc3[point][1]).mean
        };
        vec![
            answer(
                "I6",
                format!(
                    "large items, M/s: shared memory {}; kernel UDP {}",
                    found.summary(2, 0),
                    found.summary(2, 1)
                ),
                format!(
                    "The paper, bound by its ports, is faster with more puts, since their replies are short. Over the kernel's UDP 50 % get ÷ 95 % get is {:.2} uniform and {:.2} skewed.",
                    rate(&large[1][0]).mean / rate(&large[1][1]).mean,
                    rate(&large[1][2]).mean / rate(&large[1][3]).mean
                ),
            ),
            answer(
                "I7",
                format!(
                    "behind shared memory mica-store ÷ mica: {}",
                    (0..4).map(|load| format!("{:.2}", store(load))).collect::<Vec<_>>().join(" / ")
                ),
                verdict(&[(
                    "a difference of less than a fifth",
                    (0..4).all(|load| (store(load) - 1.0).abs() < 0.2),
                )]),
            ),
            answer(
                "I11",
                found.delay_summary(),
                "At half and at nine tenths of the highest rate; an open loop on a virtual machine, whose host takes a processor away now and then.",
            ),
            answer(
                "I17",
                format!(
                    "memc3, uniform 95 % get: shared memory is {:.1} × kernel UDP with one request to a datagram, and {:.2} × with 16",
                    path_ratio(1),
                    path_ratio(2)
                ),
                verdict(&[(
                    "the factor by which the paper gains for Masstree by leaving sockets, 1.9",
                    path_ratio(1) >= 1.9,
                )]) + "The same cache behind two paths.",
            ),
        ]
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        for (data, rates) in &self.sizes {
            let rows = POINTS.iter().enumerate();
            let mut rows: Vec<_> =
                rows.map(|(n, point)| (point_name(point), Self::cells(rates, n))).collect();
            if *data == TINY {
                let cells = |runs: &[Vec<Came>]| runs.iter().map(|runs| rate(runs).to_string()).collect();
                let lost = "kernel UDP, 1 to a datagram, highest rate with less than 1 % lost";
                rows.push((lost.to_owned(), cells(&self.searched)));
                for it in &self.bypassed {
                    let name = format!("AF_XDP over a veth pair, {}, 1 to a datagram", it.mode);
                    rows.push((name.clone(), cells(&it.rates)));
                    rows.push((format!("{name}, % of bare echoes"), Bypassed::cells(&it.shares())));
                }
            }
            let title = format!(
                "mica EREW, {} items ({} + {} bytes), million requests per second:",
                data.name, data.key, data.value
            );
            tables.push(by_load(&title, rows));
        }
        for (number, point) in POINTS.iter().enumerate() {
            let rows = self.engines.iter();
            let rows = rows.map(|(engine, rates)| (label(ENGINES[*engine]), Self::cells(rates, number)));
            tables.push(by_load(
                &format!("Engines, tiny items, {}, million requests per second:", point_name(point)),
                rows.collect(),
            ));
        }
        for (name, delays) in [("shared memory", &self.ring_delays), ("kernel UDP", &self.kernel_delays)] {
            let row = |(part, came): &(f64, Came)| {
                let delay = |index: usize| format!("{:.1}", came.delays[index]);
                vec![
                    percent(*part),
                    format!("{:.2}", came.per_s / 1e6),
                    delay(1),
                    delay(0),
                    delay(2),
                    percent(came.lost),
                ]
            };
            let head = ["% of the highest rate", "M/s", "p5, us", "p50, us", "p95, us", "% lost"];
            tables.push(table(
                &format!("Delays, {name}, one request to a datagram, uniform, 50 % get:"),
                &head,
                delays.iter().map(row).collect(),
            ));
        }
        tables
    }
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let sizes = [
        (TINY, context.scale.pick(12 << 20, 20_000)),
        (SMALL, context.scale.pick(8 << 20, 10_000)),
        (LARGE, context.scale.pick(1 << 20, 5_000)),
    ];
    let found = Found {
        sizes: sizes
            .iter()
            .map(|&(data, keys)| Ok((data, measure(context, MICA, data, keys)?)))
            .collect::<Result<_, Failure>>()?,
        engines: COMPARED
            .iter()
            .map(|&engine| Ok((engine, measure(context, engine, TINY, context.scale.pick(4 << 20, 20_000))?)))
            .collect::<Result<_, Failure>>()?,
        searched: loads(TINY, sizes[0].1)
            .iter()
            .map(|ask| searched(context, ask))
            .collect::<Result<_, _>>()?,
        bypassed: ["native", "generic"]
            .into_iter()
            .filter_map(|mode| bypassed(context, mode, TINY, sizes[0].1).transpose())
            .collect::<Result<_, Failure>>()?,
        bare: [echoes(context, Path::Ring)?, echoes(context, Path::Kernel)?],
        ring_delays: delays(context, &loads(TINY, sizes[0].1)[0], Path::Ring)?,
        kernel_delays: delays(context, &loads(TINY, sizes[0].1)[0], Path::Kernel)?,
    };
    Ok(Outcome {
        how: format!(
            "`guira serve` with one worker on one processor and a client on the other. {} tiny, {} small or {} large items are all there ({} tiny ones where engines are compared); Zipf's exponent is {SKEWED}. In a closed loop 256 datagrams are under way; of the highest rate with less than 1 % lost, which is searched for, nothing is sent twice. {}",
            sizes[0].1,
            sizes[1].1,
            sizes[2].1,
            context.scale.pick(4 << 20, 20_000),
            near::summary()
        ),
        answers: [found.rate_answers(), found.other_answers()].concat(),
        tables: found.tables(),
        charts: Vec::new(),
    })
}
