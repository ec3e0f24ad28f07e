//! Numbers as a person reads them.

use std::time::Duration;

/// Shown in place of an unknown figure.
pub(crate) const UNKNOWN: &str = "-";

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let (mut value, mut unit) = (value, 0);
    while value >= base * 0.9995 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let decimals = usize::from(value < 99.95 && (unit > 0 || (value.fract() != 0.0 && value < 9.95)));
    format!("{value:.decimals$}{}", units[unit])
}

/// A count or a rate: `3.2`, `417`, `12.5k`, `3.1M`.
pub(crate) fn count(value: f64) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T"])
}

/// A number of bytes: `3.1MiB`.
pub(crate) fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// A share: `97.35%`.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:.2}%", ratio * 100.0)
}

/// Days, hours, minutes and seconds: `3d 04:05:06`.
pub(crate) fn span(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days > 0 { format!("{days}d {clock}") } else { clock }
}

/// A short time in the form that users type: `1s`, `250ms`.
pub(crate) fn interval(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 1.0 {
        format!("{}ms", time.as_millis())
    } else {
        format!("{}s", (seconds * 10.0).round() / 10.0)
    }
}

/// A figure in words, or that it is not known.
pub(crate) fn or_unknown<T>(value: Option<T>, write: impl FnOnce(T) -> String) -> String {
    value.map_or(UNKNOWN.to_owned(), write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let counts = [0.0, 2.0, 0.25, 9.94, 12.4, 999.4, 999.6, 12_345.0, 123_456.0, 3.1e6, 2e15];
        let counts: Vec<String> = counts.into_iter().map(count).collect();
        assert_eq!(counts, ["0", "2", "0.2", "9.9", "12", "999", "1.0k", "12.3k", "123k", "3.1M", "2000T"]);
        assert_eq!([0.0, 1023.0, 1536.0, 3e9].map(bytes), ["0B", "1023B", "1.5KiB", "2.8GiB"]);
        assert_eq!(percent(0.97351), "97.35%");
        assert_eq!([5, 3_661, 90_061].map(span), ["00:00:05", "01:01:01", "1d 01:01:01"]);
        assert_eq!([250, 1000, 2500].map(|ms| interval(Duration::from_millis(ms))), ["250ms", "1s", "2.5s"]);
    }
}
