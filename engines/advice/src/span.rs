//! Which keys were asked for in a day or a week: the sketches of its hours, merged. The keys with the lowest hashes of two sets are among those
//! with the lowest hashes of each.

use crate::sketch::{Asked, Extent, KEYS, Sketch};
use guira_sync::clock::Seconds;

/// About what a span takes of memory, in bytes.
pub(crate) const SPAN_BYTES: usize = 2 * KEYS * size_of::<(u64, Asked)>();

/// The keys with the lowest hashes of some time, in order.
#[derive(Clone, Debug)]
struct Merged {
    keys: Vec<(u64, Asked)>,
    /// All keys with hashes below are here.
    below: u64,
    /// For these hashes it is known whether they were asked for in the span before.
    known_below: u64,
    began: Seconds,
}

impl Merged {
    fn new(began: Seconds, before: Option<&Merged>) -> Self {
        let known_below = before.map_or(0, |before| before.below);
        Merged { keys: Vec::new(), below: u64::MAX, known_below, began }
    }

    fn place(&self, hash: u64) -> Result<usize, usize> {
        self.keys.binary_search_by_key(&hash, |(hash, _)| *hash)
    }

    /// Adds the keys of a part.
    fn absorb(&mut self, part: &Sketch, before: Option<&Merged>) {
        let mut new = Vec::new();
        for (hash, asked) in part.keys() {
            match self.place(hash) {
                Ok(place) => self.keys[place].1.merge(asked),
                Err(_) => {
                    let again = before.is_some_and(|before| before.place(hash).is_ok());
                    let mut asked = *asked;
                    asked.again = again;
                    new.push((hash, asked));
                }
            }
        }
        self.keys.append(&mut new);
        self.keys.sort_unstable_by_key(|(hash, _)| *hash);
        self.below = self.below.min(part.below());
        if let Some((first_beyond, _)) = self.keys.get(KEYS) {
            self.below = self.below.min(*first_beyond);
        }
        let below = self.below;
        self.keys.retain(|(hash, _)| *hash < below);
        self.keys.shrink_to_fit();
    }

    fn rename(&mut self, from: u16, to: u16) {
        self.keys
            .iter_mut()
            .filter(|(_, asked)| asked.family == from)
            .for_each(|(_, asked)| asked.family = to);
    }
}

/// What a span of time and the one before tell of keys.
#[derive(Debug)]
pub(crate) struct Span {
    seconds: u32,
    now: Option<Merged>,
    before: Option<Merged>,
}

/// A span that is over, or the first as far as it has come.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    merged: Merged,
    pub(crate) seconds: u32,
}

impl Shown {
    /// What is known of all keys, or of those of a family.
    pub(crate) fn extent(&self, family: Option<u16>) -> Extent {
        let Merged { keys, below, known_below, .. } = &self.merged;
        Extent::of(keys.iter().map(|(hash, asked)| (*hash, asked)), (*below, *known_below), family)
    }
}

impl Span {
    pub(crate) const fn of(seconds: u32) -> Self {
        Span { seconds, now: None, before: None }
    }

    /// An hour is over, of which `part` is the sketch.
    pub(crate) fn absorb(&mut self, part: &Sketch, began: Seconds, now: Seconds) {
        let before = self.before.as_ref();
        let merged = self.now.get_or_insert_with(|| Merged::new(began, before));
        merged.absorb(part, before);
        if now.0.saturating_sub(merged.began.0) >= self.seconds {
            self.before = self.now.take();
        }
    }

    /// The last whole one, or what there is of the first, whose present hour is `part`.
    pub(crate) fn shown(&self, part: &Sketch, began: Seconds, now: Seconds) -> Shown {
        if let Some(merged) = &self.before {
            return Shown { merged: merged.clone(), seconds: self.seconds };
        }
        let mut merged = self.now.clone().unwrap_or_else(|| Merged::new(began, None));
        merged.absorb(part, None);
        Shown { seconds: now.0.saturating_sub(merged.began.0), merged }
    }

    /// Keys of family `from` are of family `to`.
    pub(crate) fn rename(&mut self, from: u16, to: u16) {
        self.now.iter_mut().chain(&mut self.before).for_each(|merged| merged.rename(from, to));
    }
}

#[cfg(test)]
mod tests {
    use super::{Merged, SPAN_BYTES, Span};
    use crate::sketch::{ALL_HASHES, Asked, KEYS, Sketch};
    use guira_sync::clock::Seconds;

    const HOUR: u32 = 3600;
    const DAY: u32 = 24 * HOUR;

    /// Some number for each key, as good as drawn.
    fn hash(key: u64) -> u64 {
        let mixed = (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn sketch(keys: std::ops::Range<u64>, weights: &[u32], below: u64) -> Sketch {
        let mut sketch = Sketch::new(below, None);
        for key in keys {
            weights.iter().for_each(|weight| sketch.see(hash(key), *weight, (key % 2) as u16, None));
        }
        sketch
    }

    fn is_about(found: f64, wanted: f64) -> bool {
        (found / wanted - 1.0).abs() < 0.1
    }

    /// Hours of `days`, in which the keys of each hour come from that of its day.
    fn run(days: &[std::ops::Range<u64>], seconds: u32) -> Span {
        let mut span = Span::of(seconds);
        let mut now = 0;
        for day in days {
            let step = (day.end - day.start) / 24;
            for hour in 0..24 {
                let begin = day.start + hour * step;
                let part = sketch(begin..begin + step, &[100], u64::MAX);
                span.absorb(&part, Seconds(now), Seconds(now + HOUR));
                now += HOUR;
            }
        }
        span
    }

    #[test]
    fn a_day_has_the_keys_of_its_hours_and_churn_is_against_the_day_before() {
        let span = run(&[0..240_000, 180_000..420_000, 0..24], DAY);
        let before = span.before.as_ref().unwrap();
        assert_eq!((before.keys.len(), before.began), (24, Seconds(2 * DAY)));
        let span = run(&[0..240_000, 180_000..420_000], DAY);
        let shown = span.shown(&sketch(0..0, &[], u64::MAX), Seconds(0), Seconds(2 * DAY));
        let extent = shown.extent(None);
        assert!(is_about(extent.keys, 240_000.0) && shown.seconds == DAY, "{extent:?}");
        assert!((extent.churn.unwrap() - 0.75).abs() < 0.06, "{extent:?}");
        assert!(is_about(shown.extent(Some(1)).keys, 120_000.0));
    }

    #[test]
    fn a_week_is_shown_as_far_as_it_has_come_and_then_whole() {
        let part = sketch(9_000_000..9_000_100, &[100], u64::MAX);
        let span = run(&[0..2400, 0..2400], 7 * DAY);
        let shown = span.shown(&part, Seconds(2 * DAY), Seconds(2 * DAY + 7));
        let extent = shown.extent(None);
        assert!(is_about(extent.keys, 2500.0) && shown.seconds == 2 * DAY + 7, "{extent:?}");
        assert_eq!(extent.churn, None, "nothing is known of the week before");
        let week: Vec<_> = (0..7).map(|day| day * 1200..day * 1200 + 2400).collect();
        let again: Vec<_> = week.iter().cloned().chain(week.iter().cloned()).collect();
        let extent = run(&again, 7 * DAY).shown(&part, Seconds(0), Seconds(14 * DAY)).extent(None);
        assert!(is_about(extent.keys, 9600.0) && extent.churn == Some(0.0), "{extent:?}");
    }

    #[test]
    fn bytes_are_told_by_the_least_the_usual_and_the_largest_item_of_each_key() {
        let mut span = Span::of(DAY);
        span.absorb(&sketch(0..500, &[100, 200, 300, 0], u64::MAX), Seconds(0), Seconds(HOUR));
        span.absorb(&sketch(0..500, &[400], u64::MAX), Seconds(HOUR), Seconds(2 * HOUR));
        let extent = span.shown(&sketch(0..0, &[], u64::MAX), Seconds(0), Seconds(9)).extent(None);
        let bytes = [extent.least_bytes, extent.mean_bytes, extent.bytes].map(|bytes| bytes.round());
        assert_eq!(bytes, [50_000.0, 125_000.0, 200_000.0]);
    }

    #[test]
    fn a_key_whose_family_was_numbered_since_counts_there_from_the_next_hour_on() {
        let hour = |family| {
            let mut sketch = Sketch::new(u64::MAX, None);
            sketch.see(hash(1), 0, family, None);
            sketch
        };
        let mut span = Span::of(DAY);
        span.absorb(&hour(0), Seconds(0), Seconds(HOUR));
        span.absorb(&hour(7), Seconds(HOUR), Seconds(2 * HOUR));
        let shown = span.shown(&sketch(0..0, &[], u64::MAX), Seconds(0), Seconds(9));
        let of = |family| shown.extent(Some(family)).sampled;
        assert_eq!((of(0), of(7)), (0, 1));
    }

    #[test]
    fn hours_that_were_sampled_less_bound_what_is_known() {
        let mut span = Span::of(DAY);
        span.absorb(&sketch(0..900, &[1], u64::MAX), Seconds(0), Seconds(HOUR));
        span.absorb(&sketch(0..900, &[1], u64::MAX / 4), Seconds(0), Seconds(HOUR));
        let merged = span.now.as_ref().unwrap();
        assert!(merged.below == u64::MAX / 4 && merged.keys.iter().all(|(hash, _)| *hash < merged.below));
        let extent = span.shown(&sketch(0..0, &[], u64::MAX), Seconds(0), Seconds(9)).extent(None);
        assert!((extent.keys / 900.0 - 1.0).abs() < 0.25, "{extent:?}");
    }

    #[test]
    fn memory_is_bounded() {
        let span = run(&[0..1_000_000, 0..1_000_000], DAY);
        let capacity = |merged: &Option<Merged>| merged.as_ref().map_or(0, |merged| merged.keys.capacity());
        let capacities = [capacity(&span.now), capacity(&span.before)];
        assert!(capacities.iter().all(|capacity| *capacity <= KEYS) && capacities[1] == KEYS);
        let bytes = 2 * KEYS * size_of::<(u64, Asked)>();
        assert_eq!((bytes, SPAN_BYTES), (2 * KEYS * 24, bytes));
        assert!(span.before.unwrap().below < (ALL_HASHES / 100.0) as u64);
    }
}
