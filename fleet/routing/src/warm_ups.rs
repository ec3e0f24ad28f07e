//! Counts and judges the filling of cold clusters from warm ones, over all workers.

use guira_sync::lock::{Mutex, MutexGuard};
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The counters of cold clusters, by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUpCount {
    Hit,
    /// The cold cluster stored it from the warm one.
    Filled,
    /// The cold cluster did not store it because of a change or a hold-off of the key; or the item
    /// came so late that a hold-off may have ended.
    Refused,
    /// The cold cluster failed to store it.
    Failed,
    WarmMiss,
    /// The key was deleted with a hold-off.
    HeldOff,
    /// The key was deleted without a hold-off, or not at all.
    NotHeldOff,
}

type Counts = [u64; WarmUpCount::NotHeldOff as usize + 1];

/// When a cold cluster counts as warm: it had this share of all hits for this many seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct End {
    /// 0 to 1.
    pub(crate) share: f64,
    pub(crate) for_s: u64,
    /// With fewer gets than this the window is too small to decide.
    pub(crate) least: u64,
}

/// Whether a cold cluster is filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fills {
    Yes,
    /// The configuration turns the warm cluster off.
    No,
    /// The warm cluster is used until the cold one is warm.
    Until(End),
}

/// Reports events of cold clusters.
pub type Report = fn(&str);

/// All cold clusters of a router. One whose route has the same text in a new configuration
/// continues.
pub struct WarmUps {
    report: Report,
    /// By the text of their routes. LOCK: warm_ups. Before those of courses.
    courses: Mutex<Courses>,
}

#[derive(Debug, Default)]
struct Courses {
    by_text: HashMap<Box<str>, Arc<Course>>,
    before: Counts,
}

/// The most clusters of earlier configurations that are kept.
const COURSES_MAX: usize = 256;

impl Default for WarmUps {
    fn default() -> Self {
        WarmUps::new(|_| {})
    }
}

impl fmt::Debug for WarmUps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WarmUps").field("courses", &self.courses).finish_non_exhaustive()
    }
}

impl WarmUps {
    /// Without any cold cluster. `report` is called once for each event, by any worker.
    pub fn new(report: Report) -> Self {
        WarmUps { report, courses: Mutex::default() }
    }

    /// How often this has happened. It never becomes less.
    pub fn count(&self, what: WarmUpCount) -> u64 {
        let courses = lock(&self.courses);
        let now = courses.by_text.values().map(|course| lock(&course.state).sums()[what as usize]);
        now.sum::<u64>() + courses.before[what as usize]
    }

    /// How many cold clusters of the present configuration are filled, and how many of them are warm and are not any more.
    pub fn running_and_ended(&self) -> (usize, usize) {
        let courses = lock(&self.courses);
        let filled = courses.by_text.values().filter(|course| course.fills != Fills::No);
        let states = filled.map(|course| lock(&course.state));
        let in_use: Vec<bool> =
            states.filter(|state| !state.parts.is_empty()).map(|state| state.phase == Phase::Ended).collect();
        let ended = in_use.iter().filter(|is_ended| **is_ended).count();
        (in_use.len() - ended, ended)
    }

    /// The part of a worker whose route is called `name` and says `text`.
    pub(crate) fn part(&self, name: &str, text: &str, fills: Fills) -> Meter {
        let mut courses = lock(&self.courses);
        if !courses.by_text.contains_key(text) {
            courses.make_room();
            let (name, report, state) = (name.into(), self.report, Mutex::default());
            courses.by_text.insert(text.into(), Arc::new(Course { name, fills, report, state }));
        }
        let course = courses.by_text[text].clone();
        let part = Arc::<Part>::default();
        let is_ended = {
            let mut state = lock(&course.state);
            state.parts.push(part.clone());
            state.phase == Phase::Ended
        };
        Meter { course, part, looked_s: Cell::new(0), is_ended: Cell::new(is_ended) }
    }
}

impl Courses {
    fn make_room(&mut self) {
        if self.by_text.len() < COURSES_MAX {
            return;
        }
        let before = &mut self.before;
        self.by_text.retain(|_, course| {
            let state = lock(&course.state);
            if state.parts.is_empty() {
                add(before, &state.before);
            }
            !state.parts.is_empty()
        });
    }
}

/// The filling of one cold cluster.
struct Course {
    name: Box<str>,
    fills: Fills,
    report: Report,
    /// LOCK: warm_up_course. Before those of its parts.
    state: Mutex<State>,
}

impl fmt::Debug for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Course").field("name", &self.name).field("fills", &self.fills).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    /// The counts of the workers that have it in their trees.
    parts: Vec<Arc<Part>>,
    before: Counts,
    window: Option<Window>,
    phase: Phase,
    complaints: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Filled,
    Ended,
}

/// A time over which hits are compared, and what had been counted when it began.
#[derive(Clone, Copy, Debug)]
struct Window {
    begun_s: u64,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Part {
    /// Only statistics and the end of a window wait for it. LOCK: warm_up_part. Leaf.
    counts: Mutex<Counts>,
}

impl State {
    fn sums(&self) -> Counts {
        let mut sums = self.before;
        self.parts.iter().for_each(|part| add(&mut sums, &lock(&part.counts)));
        sums
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

fn add(sums: &mut Counts, more: &Counts) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// A worker's part of a cold cluster.
#[derive(Debug)]
pub(crate) struct Meter {
    course: Arc<Course>,
    part: Arc<Part>,
    /// The time of the last check whether the cold cluster is warm.
    looked_s: Cell<u64>,
    is_ended: Cell<bool>,
}

impl Meter {
    /// Whether the cold cluster is filled, and was not seen to be warm.
    pub(crate) fn fills(&self) -> bool {
        self.course.fills != Fills::No && !self.has_ended()
    }

    /// Whether the cold cluster was seen to be warm.
    fn has_ended(&self) -> bool {
        self.is_ended.get()
    }

    /// Counts, at this second since 1970.
    pub(crate) fn count(&self, what: WarmUpCount, now_s: u64) {
        lock(&self.part.counts)[what as usize] += 1;
        if self.looked_s.replace(now_s) != now_s
            && let Fills::Until(end) = self.course.fills
        {
            self.is_ended.set(self.course.has_ended(end, now_s));
        }
    }

    /// Reports a fault of servers once.
    pub(crate) fn complain(&self, what: &'static str) {
        let mut state = lock(&self.course.state);
        if !state.complaints.contains(&what) {
            state.complaints.push(what);
            drop(state);
            (self.course.report)(&format!("{}: {what}", self.course));
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let mut state = lock(&self.course.state);
        state.parts.retain(|part| !Arc::ptr_eq(part, &self.part));
        add(&mut state.before, &lock(&self.part.counts));
    }
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            f.write_str("a WarmUpRoute")
        } else {
            write!(f, "WarmUpRoute {}", self.name)
        }
    }
}

impl Course {
    /// Whether the cold cluster is warm. Judges a window that is over.
    fn has_ended(&self, end: End, now_s: u64) -> bool {
        let mut state = lock(&self.state);
        if state.phase == Phase::Ended {
            return true;
        }
        let counts = state.sums();
        let Some(window) = state.window.filter(|window| window.begun_s <= now_s) else {
            state.window = Some(Window { begun_s: now_s, counts });
            return false;
        };
        let length_s = now_s - window.begun_s;
        if length_s < end.for_s {
            return false;
        }
        let since = |what: WarmUpCount| counts[what as usize] - window.counts[what as usize];
        let hits = since(WarmUpCount::Hit);
        // Items that only the cold cluster has count as if both had them: the share is rather too
        // low.
        let all = hits + since(WarmUpCount::Filled) + since(WarmUpCount::Failed);
        let share = hits as f64 / all.max(1) as f64;
        if all < end.least || share < end.share {
            state.window = Some(Window { begun_s: now_s, counts });
            return false;
        }
        state.phase = Phase::Ended;
        drop(state);
        (self.report)(&format!(
            "{self}: the cold cluster is warm; it had {:.1} % of the {all} keys found in {length_s} s. The warm cluster receives no more requests",
            100.0 * share
        ));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Fills = Fills::Until(End { share: 0.95, for_s: 60, least: 100 });

    fn counted(meter: &Meter, hits: usize, fills: usize, now_s: u64) {
        (0..hits).for_each(|_| meter.count(WarmUpCount::Hit, now_s));
        (0..fills).for_each(|_| meter.count(WarmUpCount::Filled, now_s));
    }

    #[test]
    fn a_cluster_is_warm_after_a_window_in_which_it_has_had_enough() {
        let all = WarmUps::default();
        let meter = all.part("", "r", END);
        let is_warm = |hits, fills, now_s| {
            counted(&meter, hits, fills, now_s);
            meter.has_ended()
        };
        // A window begins with the first that is counted after the one before it.
        assert!(!is_warm(1, 0, 1000));
        assert!(!is_warm(10, 90, 1059));
        assert!(!is_warm(1, 0, 1060), "most were filled");
        assert!(!is_warm(50, 0, 1100));
        assert!(!is_warm(1, 0, 1120), "too few to tell");
        assert!(!is_warm(95, 4, 1179));
        assert_eq!(all.running_and_ended(), (1, 0));
        assert!(is_warm(1, 0, 1180));
        assert_eq!(all.running_and_ended(), (0, 1));
        assert!(is_warm(0, 1000, 2000), "it does not begin again by itself");
    }

    #[test]
    fn a_share_that_is_too_small_ends_nothing() {
        for (fills, is_ended) in [(5, true), (6, false)] {
            let all = WarmUps::default();
            let meter = all.part("", "r", END);
            counted(&meter, 1, 0, 7);
            counted(&meter, 95, fills, 8);
            meter.count(WarmUpCount::WarmMiss, 67);
            assert_eq!(meter.has_ended(), is_ended, "95 hits, {fills} fills");
        }
    }

    #[test]
    fn a_route_that_says_the_same_goes_on_and_another_begins_anew() {
        let all = WarmUps::default();
        let (one, other) = (all.part("", "r", END), all.part("", "r", END));
        counted(&one, 1, 0, 0);
        counted(&one, 50, 0, 1);
        counted(&other, 49, 0, 61);
        // The other worker learns it when it looks.
        assert_eq!((one.has_ended(), other.has_ended()), (false, false), "too few until it was last looked");
        counted(&one, 60, 0, 62);
        counted(&one, 60, 0, 122);
        assert_eq!((one.has_ended(), other.has_ended()), (true, false));
        counted(&other, 1, 0, 123);
        assert!(other.has_ended());
        drop((one, other));
        assert_eq!(all.running_and_ended(), (0, 0));
        assert!(all.part("", "r", END).has_ended());
        assert!(!all.part("", "s", END).has_ended());
        assert_eq!(all.count(WarmUpCount::Hit), 221);
        let _idle = all.part("", "t", Fills::No);
        assert_eq!(all.running_and_ended(), (0, 0));
    }

    #[test]
    fn counts_stay_when_their_routes_are_forgotten() {
        let all = WarmUps::default();
        for number in 0..2 * COURSES_MAX {
            all.part("", &number.to_string(), Fills::Yes).count(WarmUpCount::Refused, 5);
        }
        assert!(lock(&all.courses).by_text.len() <= COURSES_MAX);
        assert_eq!(all.count(WarmUpCount::Refused), 2 * COURSES_MAX as u64);
    }

    #[test]
    fn a_time_that_goes_back_begins_a_window() {
        let all = WarmUps::default();
        let meter = all.part("", "r", END);
        counted(&meter, 200, 0, 1000);
        counted(&meter, 200, 0, 10);
        counted(&meter, 1, 0, 69);
        assert!(!meter.has_ended());
        counted(&meter, 1, 0, 70);
        assert!(meter.has_ended());
    }
}
