//! A model of a web server that asks many caches at once through a switch with small buffers: its requests wait the least with a window that is
//! neither small nor large. The window is that of the client library.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use guira_client::pools::{Era, Window};
use guira_harness::plot::{Axis, Chart, Dot, Line, Steps};
use guira_workload::Rng;

use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Outcome, answer, percent, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-window",
    claims: &["S4"],
    about: "How long requests wait for a web server, by the size of its window: a model of a switch with small buffers",
    run,
};

/// Times are in microseconds.
type Micros = f64;

/// What a page asks for, in so many steps of which each needs the one before it: the paper's mean, drawn around it.
const KEYS: f64 = 521.0;
const STEPS: usize = 4;
/// Pages that the web server works on at once, and that arrive in a second.
const WORKERS: usize = 8;
const PAGES_A_SECOND: f64 = 100.0;
/// The processor's time of a page.
const WORK: Micros = 10_000.0;
/// The way to a server and back, and the mean of what the server takes.
const WAY: Micros = 150.0;
const SERVICE: Micros = 100.0;
/// How long an answer occupies the link to the web server (1,250 bytes at 1 Gbit/s), and for how many the switch has room.
const LINK: Micros = 10.0;
const BUFFER: f64 = 128.0;
/// How long an answer is awaited, and how long the database takes for a key that has none.
const PATIENCE: Micros = 20_000.0;
const DATABASE: Micros = 10_000.0;

const SIZES: [u32; 9] = [15, 20, 30, 40, 80, 160, 240, 320, 480];

#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Event {
    Arrival,
    /// A server has answered a key of this page: the answer comes to the switch.
    AtSwitch(usize, u32),
    Answered(usize),
    Late(usize, u32),
    Fetched(usize),
    Finished(usize),
}

/// A moment, in an order that a heap can have.
#[derive(Clone, Copy, Debug, PartialEq)]
struct At(Micros, u64, Event);

impl Eq for At {}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for At {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

#[derive(Debug, Default)]
struct Page {
    since: Micros,
    steps_left: usize,
    keys_of_step: u32,
    missing: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// How long a page waited for a worker, and how long that had it, in milliseconds.
    waited_ms: f64,
    held_ms: f64,
    /// Keys without an answer.
    lost: f64,
    /// The mean of the window's sizes.
    window: f64,
}

struct Model {
    window: Window,
    rng: Rng,
    now: Micros,
    events: BinaryHeap<Reverse<At>>,
    number: u64,
    pages: Vec<Page>,
    vacant: Vec<usize>,
    busy: usize,
    /// When pages came that wait for a worker.
    queue: VecDeque<Micros>,
    /// Keys that wait for a place in the window.
    keys: VecDeque<usize>,
    eras: Vec<Era>,
    link_free: Micros,
    sums: Sums,
}

#[derive(Debug, Default)]
struct Sums {
    pages: u64,
    waited: Micros,
    finished: u64,
    held: Micros,
    keys: u64,
    lost: u64,
    sizes: f64,
}

impl Model {
    fn new(window: Window, seed: u64) -> Self {
        Model {
            window,
            rng: Rng::new(seed),
            now: 0.0,
            events: BinaryHeap::new(),
            number: 0,
            pages: Vec::new(),
            vacant: Vec::new(),
            busy: 0,
            queue: VecDeque::new(),
            keys: VecDeque::new(),
            eras: Vec::new(),
            link_free: 0.0,
            sums: Sums::default(),
        }
    }

    fn after(&mut self, wait: Micros, event: Event) {
        self.number += 1;
        self.events.push(Reverse(At(self.now + wait, self.number, event)));
    }

    fn run(mut self, seconds: f64) -> Found {
        self.after(0.0, Event::Arrival);
        while let Some(Reverse(At(now, _, event))) = self.events.pop().filter(|at| at.0.0 < seconds * 1e6) {
            self.now = now;
            self.happens(event);
        }
        let Sums { pages, waited, finished, held, keys, lost, sizes } = self.sums;
        let (pages, keys) = (pages.max(1) as f64, keys.max(1) as f64);
        // Those that still wait have waited.
        let still: Micros = self.queue.iter().map(|since| self.now - since).sum();
        let all = pages + self.queue.len() as f64;
        Found {
            waited_ms: (waited + still) / all / 1e3,
            held_ms: held / finished.max(1) as f64 / 1e3,
            lost: lost as f64 / keys,
            window: sizes / keys,
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrival => {
                let gap = self.rng.exponential() * 1e6 / PAGES_A_SECOND;
                self.after(gap, Event::Arrival);
                self.queue.push_back(self.now);
                self.admit();
            }
            Event::AtSwitch(page, key) => {
                let waits = ((self.link_free - self.now) / LINK).max(0.0);
                if waits >= BUFFER {
                    let left = PATIENCE - WAY;
                    return self.after(left, Event::Late(page, key));
                }
                self.link_free = self.link_free.max(self.now) + LINK;
                self.after(self.link_free - self.now, Event::Answered(page));
            }
            Event::Answered(page) => {
                self.window.answered();
                self.key_done(page);
                self.ask();
            }
            Event::Late(page, key) => {
                self.sums.lost += 1;
                let era = self.eras[key as usize];
                self.window.put_back();
                self.window.lost(era);
                self.after(DATABASE, Event::Fetched(page));
                self.ask();
            }
            Event::Fetched(page) => self.key_done(page),
            Event::Finished(page) => {
                self.sums.finished += 1;
                self.sums.held += self.now - self.pages[page].since;
                self.vacant.push(page);
                self.busy -= 1;
                self.admit();
            }
        }
    }

    /// Pages that wait are given to workers that have none.
    fn admit(&mut self) {
        while self.busy < WORKERS {
            let Some(since) = self.queue.pop_front() else { return };
            self.busy += 1;
            self.sums.waited += self.now - since;
            self.sums.pages += 1;
            let keys = (self.rng.exponential() * KEYS / STEPS as f64).ceil().max(1.0) as u32;
            let page = Page { since: self.now, steps_left: STEPS, keys_of_step: keys, missing: 0 };
            let number = self.vacant.pop().unwrap_or(self.pages.len());
            match self.pages.get_mut(number) {
                Some(place) => *place = page,
                None => self.pages.push(page),
            }
            self.step(number);
        }
    }

    /// A page asks for the keys of its next step, or computes when it has all.
    fn step(&mut self, number: usize) {
        let page = &mut self.pages[number];
        if page.steps_left == 0 {
            let work = self.rng.exponential() * WORK;
            return self.after(work, Event::Finished(number));
        }
        page.steps_left -= 1;
        page.missing = page.keys_of_step;
        self.keys.extend(std::iter::repeat_n(number, page.keys_of_step as usize));
        self.ask();
    }

    /// Asks for as many keys as the window allows.
    fn ask(&mut self) {
        let taken = self.window.take(u32::try_from(self.keys.len()).unwrap_or(u32::MAX));
        for _ in 0..taken {
            let Some(page) = self.keys.pop_front() else { return };
            let key = self.eras.len() as u32;
            self.eras.push(self.window.era());
            self.sums.keys += 1;
            self.sums.sizes += f64::from(self.window.size());
            let comes = WAY + self.rng.exponential() * SERVICE;
            self.after(comes, Event::AtSwitch(page, key));
        }
    }

    fn key_done(&mut self, number: usize) {
        let page = &mut self.pages[number];
        page.missing -= 1;
        if page.missing == 0 {
            self.step(number);
        }
    }
}

fn figure(found: &[Found], of: impl Fn(&Found) -> f64) -> Figure {
    Figure::of(&found.iter().map(of).collect::<Vec<_>>())
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let seconds = context.scale.pick(60.0, 2.0);
    let runs = |window: Window| -> Vec<Found> {
        let seeds = (0..context.runs).map(|run| context.seed + u64::from(run));
        seeds.map(|seed| Model::new(window.clone(), seed).run(seconds)).collect()
    };
    let fixed: Vec<(u32, Vec<Found>)> =
        SIZES.iter().map(|size| (*size, runs(Window::fixed(*size)))).collect();
    let sliding = runs(Window::default());
    Ok(outcome(&fixed, &sliding, seconds))
}

fn outcome(fixed: &[(u32, Vec<Found>)], sliding: &[Found], seconds: f64) -> Outcome {
    let waited = |found: &[Found]| figure(found, |found| found.waited_ms).mean;
    let row = |name: String, found: &[Found]| {
        vec![
            name,
            format!("{:.2}", figure(found, |found| found.waited_ms)),
            format!("{:.1}", figure(found, |found| found.held_ms)),
            percent(figure(found, |found| found.lost).mean),
        ]
    };
    let mut rows: Vec<Vec<String>> = fixed.iter().map(|(size, found)| row(size.to_string(), found)).collect();
    let size = figure(sliding, |found| found.window).mean;
    rows.push(row(format!("sliding, {size:.0} in the mean"), sliding));
    let best = fixed.iter().min_by(|one, other| waited(&one.1).total_cmp(&waited(&other.1)));
    let (best, least) = best.map_or((0, 0.0), |(size, found)| (*size, waited(found)));
    let first = fixed.first().map_or(0.0, |(_, found)| waited(found));
    let last = fixed.last().map_or(0.0, |(_, found)| waited(found));
    let slides = waited(sliding);
    let inner = fixed.len() > 2 && best != fixed[0].0 && best != fixed[fixed.len() - 1].0;
    Outcome {
        how: format!(
            "A model, without servers or a network: one web server with {WORKERS} workers, to which {PAGES_A_SECOND:.0} pages come in a second (Poisson). A \
             page needs {KEYS:.0} keys in the mean, drawn, in {STEPS} steps, and {:.0} ms of work after them. An answer takes {WAY:.0} µs for its way and \
             {SERVICE:.0} µs in the mean at its server, and {LINK:.0} µs on the link of the web server, before which a switch has room for {BUFFER:.0} \
             answers; what comes beyond is lost, and after {:.0} ms the database is asked, which takes {:.0} ms. {seconds:.0} s in each run. The window is \
             the very code of the client library, with a fixed size or as it slides.",
            WORK / 1e3,
            PATIENCE / 1e3,
            DATABASE / 1e3
        ),
        answers: vec![answer(
            "S4",
            format!(
                "pages wait {first:.1} ms with the smallest window, {least:.1} ms with one of {best}, {last:.1} ms with the largest; {slides:.1} ms with a \
                 window that slides, of {size:.0} in the mean"
            ),
            verdict(&[
                ("a small window makes pages wait", first > 1.5 * least),
                ("a large one too", last > 1.5 * least),
                ("between them there is a minimum", inner),
                ("the window that slides comes within a half of it", slides < 1.5 * least),
                ("it does better than either", slides < first && slides < last),
            ]) + "It is a model, whose times and buffers were chosen; the paper's are not known.",
        )],
        tables: vec![table(
            "By the size of the window, in milliseconds, and keys without an answer in percent:",
            &["window", "a page waits", "a worker has it", "keys lost"],
            rows,
        )],
        charts: vec![chart(fixed)],
    }
}

fn chart(fixed: &[(u32, Vec<Found>)]) -> Chart {
    let dots = fixed
        .iter()
        .map(|(size, found)| Dot::new(f64::from(*size), figure(found, |found| found.waited_ms).mean));
    Chart {
        name: "facebook-window".to_owned(),
        title: "Pages wait by the size of the window (a model)".to_owned(),
        x: Axis::new("window, keys", Steps::Linear),
        y: Axis::new("a page waits, ms", Steps::Linear),
        lines: vec![Line::new("fixed windows", dots.collect())],
    }
}

#[cfg(test)]
mod tests {
    use super::{BUFFER, Model, Window};

    #[test]
    fn a_window_that_fits_into_the_switch_loses_nothing_and_a_large_one_does() {
        let small = Model::new(Window::fixed(BUFFER as u32), 1).run(2.0);
        let large = Model::new(Window::fixed(2000), 1).run(2.0);
        assert!(small.lost == 0.0 && large.lost > 0.0, "{small:?} {large:?}");
    }

    #[test]
    fn a_small_window_keeps_workers_longer() {
        let held = |size| Model::new(Window::fixed(size), 1).run(2.0).held_ms;
        assert!(held(5) > 2.0 * held(80), "{} and {}", held(5), held(80));
    }
}
