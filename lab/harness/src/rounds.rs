//! Rounds in which contestants take turns, so that a change of the machine's speed meets all of them.

/// The order in which `count` contestants are measured in a round. Each round begins with another one.
pub fn turns(round: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| (turn + round) % count)
}

/// The median; the mean of the two in the middle if their number is even, and 0 if there are none.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => (sorted[len / 2 - 1] + sorted[len / 2]) / 2.0,
    }
}

/// The median of a figure of each item.
pub fn median_of<T>(items: impl IntoIterator<Item = T>, figure: impl FnMut(T) -> f64) -> f64 {
    median(&items.into_iter().map(figure).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::{median, turns};

    #[test]
    fn each_round_begins_with_another() {
        let order = |round| turns(round, 3).collect::<Vec<_>>();
        assert_eq!([order(0), order(1), order(5)], [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
    }

    #[test]
    fn medians_of_odd_even_and_no_numbers() {
        assert_eq!(median(&[40.0, 0.0, 0.5]), 0.5);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median(&[]).abs() < 1e-9);
    }
}
