//! Tables in Markdown, given by their columns.

use std::fmt::Write as _;

/// A table under its caption, if it has rows.
pub(super) fn section<T>(text: &mut String, caption: &str, rows: &[T], table: impl FnOnce(&[T]) -> String) {
    if !rows.is_empty() {
        push(text, format_args!("\n{caption}\n\n{}", table(rows)));
    }
}

/// A column: what stands above it, and what stands in a row.
pub(crate) type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> String);

pub(crate) fn rows<T>(rows: &[T], columns: &[Column<'_, T>]) -> String {
    let mut table = header(&columns.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
    for row in rows {
        let cells: Vec<String> = columns.iter().map(|(_, cell)| cell(row)).collect();
        push(&mut table, format_args!("| {} |\n", cells.join(" | ")));
    }
    table
}

/// Shown where there is no figure.
pub(super) fn missing() -> String {
    "–".to_owned()
}

pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

/// Formats `number` with `digits` significant digits: 15.6, 0.128, 0.00413.
pub(crate) fn significant(number: f64, digits: i32) -> String {
    if number == 0.0 || !number.is_finite() {
        return "0".to_owned();
    }
    let before_point = number.abs().log10().floor() as i32 + 1;
    let after_point = usize::try_from((digits - before_point).max(0)).unwrap_or(0);
    format!("{number:.after_point$}")
}

pub(crate) fn header(columns: &[String]) -> String {
    format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()))
}

pub(crate) fn push(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _infallible = text.write_fmt(what);
}

#[cfg(test)]
mod tests {
    use super::significant;

    #[test]
    fn figures_keep_their_digits() {
        for (number, text) in
            [(15.612, "15.6"), (0.128_34, "0.128"), (0.004_126, "0.00413"), (1234.5, "1234")]
        {
            assert_eq!(significant(number, 3), text);
        }
        assert_eq!(significant(0.0, 3), "0");
    }
}
