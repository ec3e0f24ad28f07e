//! Processor time: what others do on the machine meanwhile makes a thread wait, and costs it none.

use rustix::time::{ClockId, clock_gettime};

/// Seconds that the calling thread has run so far.
pub(crate) fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The value in the middle of some, by their size.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{median, processor_s};

    #[test]
    fn who_sleeps_spends_nothing() {
        let before = processor_s();
        std::thread::sleep(Duration::from_millis(50));
        assert!(processor_s() - before < 0.04);
        while processor_s() - before < 0.05 {}
    }

    #[test]
    fn the_median_is_the_middle_of_an_odd_number() {
        assert_eq!(median(vec![40.0, 0.0, 0.5]), 0.5);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
