//! Numbers with a unit behind them, such as `500k` or `64MiB`.

/// The number that a text begins with, and the unit behind it.
pub fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim()))
}

/// What a prefix multiplies by, if `k`, `m` and `g` are powers of `thousand`; 1 without one.
pub fn factor(prefix: &str, thousand: f64) -> Option<f64> {
    let power = match prefix {
        "" => 0,
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" => 3,
        _ => return None,
    };
    Some(thousand.powi(power))
}

/// A whole number with such a prefix. What is left over is cut off.
pub fn scaled(text: &str, thousand: f64) -> Option<u64> {
    let (number, prefix) = split(text)?;
    let scaled = number * factor(prefix, thousand)?;
    (scaled < 1e15).then_some(scaled as u64)
}

#[cfg(test)]
mod tests {
    use super::{scaled, split};

    #[test]
    fn prefixes_are_powers_of_a_thousand_or_of_1024() {
        assert_eq!((scaled("1.5k", 1000.0), scaled("2M", 1024.0)), (Some(1500), Some(2 << 20)));
        assert_eq!((scaled("12", 1000.0), scaled("0", 1000.0)), (Some(12), Some(0)));
        for wrong in ["", "k", "1q", "-1", "1e9", "99999999g"] {
            assert_eq!(scaled(wrong, 1000.0), None, "{wrong}");
        }
        assert_eq!(split("5 %"), Some((5.0, "%")));
    }
}
