//! What an advisor has concluded, as text: a server that continues with the items of another server
//! continues with its conclusions, too.
//!
//! ```text
//! learnt-policy filled CHANGES POLICY       the served policy, which the figures below compare others with
//! learnt-rival SAVED DIFFERENCES LEAST POLICY
//! learnt-age BYTES FILLS FILLS              how long items of a size should stay, and do stay
//! ```

use guira_contract::Spec;
use guira_slab::Policy;
use std::fmt;
use std::str::FromStr;

const POLICY: &str = "learnt-policy";
const RIVAL: &str = "learnt-rival";
const AGE: &str = "learnt-age";
const FILLED: &str = "filled";
const FILLING: &str = "filling";

/// The conclusions of an advisor: the comparison of policies, and the ages of sizes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conclusions {
    pub(crate) comparison: Option<Comparison>,
    pub(crate) ages: Vec<SizeAge>,
}

/// The served policy, and the others compared with it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) served: Policy,
    /// Whether the cache has been full.
    pub(crate) is_filled: bool,
    /// How often the policy has been changed, as far as that is not forgotten.
    pub(crate) changes: f64,
    pub(crate) rivals: Vec<(Policy, Savings)>,
}

/// What a policy would have saved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Savings {
    pub(crate) saved: f64,
    pub(crate) differences: f64,
    /// The least that it had saved lately.
    pub(crate) least: f64,
}

/// How long items of a size should stay, and do stay at most, in fills.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SizeAge {
    pub(crate) upto: usize,
    pub(crate) age: f64,
    pub(crate) kept: f64,
}

impl fmt::Display for Conclusions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Comparison { served, is_filled, changes, rivals }) = &self.comparison {
            let state = if *is_filled { FILLED } else { FILLING };
            writeln!(f, "{POLICY} {state} {changes:.3} {served}")?;
            for (policy, Savings { saved, differences, least }) in rivals {
                writeln!(f, "{RIVAL} {saved:.2} {differences:.0} {least:.2} {policy}")?;
            }
        }
        self.ages
            .iter()
            .try_for_each(|SizeAge { upto, age, kept }| writeln!(f, "{AGE} {upto} {age:.5} {kept:.5}"))
    }
}

impl Conclusions {
    /// Reads the lines that an advisor has written. Other lines, and policies that this version does not
    /// have, are left out.
    pub fn read(text: &str) -> Self {
        let mut conclusions = Conclusions::default();
        for line in text.lines() {
            let _known = conclusions.read_line(line);
        }
        conclusions
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        match words.next()? {
            POLICY => {
                let is_filled = words.next()? == FILLED;
                let changes = number(words.next()?)?;
                let served = policy(words.next()?)?;
                self.comparison = Some(Comparison { served, is_filled, changes, rivals: Vec::new() });
            }
            RIVAL => {
                let [saved, differences, least] = [words.next()?, words.next()?, words.next()?].map(number);
                let savings = Savings { saved: saved?, differences: differences?, least: least? };
                let policy = policy(words.next()?)?;
                self.comparison.as_mut()?.rivals.push((policy, savings));
            }
            AGE => {
                let upto = words.next()?.parse().ok()?;
                let (age, kept) = (number(words.next()?)?, number(words.next()?)?);
                self.ages.push(SizeAge { upto, age, kept });
            }
            _ => {}
        }
        Some(())
    }
}

/// A finite number that is not negative.
fn number(word: &str) -> Option<f64> {
    f64::from_str(word).ok().filter(|number| number.is_finite() && *number >= 0.0)
}

fn policy(word: &str) -> Option<Policy> {
    Policy::read(&Spec::parse(word).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "learnt-policy filled 1.500 sieve\n\
                        learnt-rival 12.25 80 3.00 s3-fifo:small_pct=10,skip_pct=30,promote=1\n\
                        learnt-rival 0.00 0 0.00 clock:bits=2\n\
                        learnt-age 96 1.50000 0.75000\n";

    #[test]
    fn conclusions_are_read_as_they_are_written() {
        let conclusions = Conclusions::read(TEXT);
        assert_eq!(conclusions.to_string(), TEXT);
        assert_eq!(conclusions.comparison.unwrap().rivals.len(), 2);
    }

    #[test]
    fn lines_that_are_not_known_are_left_out() {
        let other = "cmd_get 7\nlearnt-policy\nlearnt-rival 1 1 1 lru\nlearnt-policy filled -1 lru\n\
                     learnt-policy filled 1 mru\nlearnt-age 96 NaN 1\nlearnt-age 96 1\n\n";
        assert_eq!(Conclusions::read(other), Conclusions::default());
        let with_unknown = "learnt-policy filling 0 lru\nlearnt-rival 1 1 1 mru\nlearnt-rival 1 1 1 clock\n";
        let comparison = Conclusions::read(with_unknown).comparison.unwrap();
        assert!(!comparison.is_filled && comparison.rivals.len() == 1);
    }
}
