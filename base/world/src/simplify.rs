//! Makes a run that fails simpler.

/// The simplest of the setups that come from `setup` and still fail: `simpler` lists the setups that leave out one more
/// thing, those first that leave out most.
pub fn simplest<S>(mut setup: S, simpler: impl Fn(&S) -> Vec<S>, fails: impl Fn(&S) -> bool) -> S {
    loop {
        let (mut tried, mut is_simplest) = (0, true);
        while let Some(less) = simpler(&setup).into_iter().nth(tried) {
            if fails(&less) {
                (setup, is_simplest) = (less, false);
            } else {
                tried += 1;
            }
        }
        if is_simplest {
            return setup;
        }
    }
}

/// Whether two reports are of the same kind of failure: the first words without digits are equal.
#[must_use]
pub fn is_same_kind(one: &str, other: &str) -> bool {
    let is_word = |word: &&str| !word.contains(|letter: char| letter.is_ascii_digit());
    let words = |report: &str| -> Vec<String> {
        let first = report.lines().next().unwrap_or_default();
        first.split_whitespace().filter(is_word).take(3).map(str::to_owned).collect()
    };
    words(one) == words(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_failure_needs_is_left() {
        let simpler = |(faults, clients): &(Vec<u8>, usize)| {
            let without = |at| {
                faults.iter().enumerate().filter(move |(number, _)| *number != at).map(|(_, fault)| *fault)
            };
            let fewer_faults = (0..faults.len()).map(|at| (without(at).collect(), *clients));
            fewer_faults.chain((0..*clients).map(|fewer| (faults.clone(), fewer))).collect::<Vec<_>>()
        };
        // With fewer than six clients, it needs the last fault too.
        let fails = |(faults, clients): &(Vec<u8>, usize)| {
            faults.contains(&2)
                && faults.contains(&5)
                && *clients >= 2
                && (*clients >= 6 || faults.contains(&9))
        };
        let all = ((0..10).collect(), 8);
        assert_eq!(simplest(all.clone(), simpler, fails), (vec![2, 5], 6));
        assert_eq!(simplest(all, simpler, |_| true), (vec![], 0));
    }

    #[test]
    fn a_failure_of_another_kind_is_another_failure() {
        let first = "node 1 has \"x\" of row 3";
        assert!(is_same_kind(first, "node 12 has \"x\" of row 40\nmore"));
        assert!(!is_same_kind(first, "router 50 panicked: no"));
    }
}
