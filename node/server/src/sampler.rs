//! Which of many are looked at: about one in a given number.

/// Picks one of this many on average. The gaps are not all alike, so that no pattern of requests falls in with them.
#[derive(Debug)]
pub(crate) struct Sampler {
    left: u32,
    gap: u32,
    /// A linear congruential generator, of which the upper bits are used.
    state: u32,
}

impl Sampler {
    pub(crate) fn new(worker: usize, gap: u32) -> Self {
        Sampler { left: gap, gap, state: worker as u32 }
    }

    /// Whether this one is looked at. If so, [`Self::again`] has to be called before the next.
    #[inline(always)]
    pub(crate) fn is_due(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    pub(crate) fn again(&mut self) {
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // From half of the gap to half more, which is the gap on average.
        self.left = (self.gap / 2 + (self.state >> 16) % (self.gap + 1)).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_gap_is_picked_on_average() {
        for gap in [1, 2, 4, 16, 64] {
            let mut sampler = Sampler::new(3, gap);
            let picked = (0..1_000_000).filter(|_| {
                sampler.is_due() && {
                    sampler.again();
                    true
                }
            });
            let share = 1e6 / picked.count() as f64;
            assert!((share / f64::from(gap) - 1.0).abs() < 0.02, "one in {share} instead of {gap}");
        }
    }
}
