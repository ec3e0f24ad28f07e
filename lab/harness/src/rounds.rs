//! Rounds in which contestants take turns, so that a change of the machine's speed meets all of them.

/// Calls `measure` with the number of each round and of each of `count` contestants. Each round begins with another contestant.
///
/// # Errors
/// The first error of `measure`.
pub fn alternate<E>(
    rounds: usize,
    count: usize,
    mut measure: impl FnMut(usize, usize) -> Result<(), E>,
) -> Result<(), E> {
    for round in 0..rounds {
        for turn in 0..count {
            measure(round, (turn + round) % count)?;
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::{alternate, median};

    #[test]
    fn each_round_begins_with_another() {
        let mut order = Vec::new();
        let done = alternate(2, 3, |round, index| {
            order.push((round, index));
            if order.len() < 6 { Ok(()) } else { Err("enough") }
        });
        assert_eq!(order, [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (1, 0)]);
        assert_eq!(done, Err("enough"));
    }

    #[test]
    fn medians_of_odd_even_and_no_numbers() {
        assert_eq!(median(&[40.0, 0.0, 0.5]), 0.5);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median(&[]).abs() < 1e-9);
    }
}
