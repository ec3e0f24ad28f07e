//! A table of figures with a title, for the screen and for plain text alike.

/// Which end of a cell stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

const GAP: usize = 2;

#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) title: String,
    columns: &'static [(&'static str, Align)],
    rows: Vec<Vec<String>>,
    /// A note below the rows, or in place of them.
    pub(crate) note: Option<String>,
}

/// A table as lines of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    /// Names of columns, if there are any.
    pub(crate) head: Option<String>,
    pub(crate) rows: Vec<String>,
}

impl Block {
    pub(crate) fn new(title: impl Into<String>, columns: &'static [(&'static str, Align)]) -> Self {
        Self { title: title.into(), columns, rows: Vec::new(), note: None }
    }

    pub(crate) fn with_title(self, title: String) -> Self {
        Self { title, ..self }
    }

    pub(crate) fn with_note(self, note: Option<String>) -> Self {
        Self { note, ..self }
    }

    /// Whether there is nothing below the title.
    pub(crate) const fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.note.is_none()
    }

    /// Adds a row: a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table in lines of at most `width` characters.
    pub(crate) fn lines(&self, width: usize) -> Lines {
        let mut widths: Vec<usize> = self.columns.iter().map(|(name, _)| name.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let write = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for ((cell, (_, align)), width) in cells.zip(self.columns).zip(&widths) {
                let before = if line.is_empty() { 0 } else { GAP };
                line.push_str(&" ".repeat(before));
                match align {
                    Align::Left => line.push_str(&format!("{cell:<width$}")),
                    Align::Right => line.push_str(&format!("{cell:>width$}")),
                }
            }
            cut(line.trim_end(), width)
        };
        let is_headed = self.columns.iter().any(|(name, _)| !name.is_empty()) && !self.rows.is_empty();
        let head = is_headed.then(|| write(&mut self.columns.iter().map(|(name, _)| *name)));
        let rows = self.rows.iter().map(|row| write(&mut row.iter().map(String::as_str))).collect();
        Lines { head, rows }
    }
}

/// The text, or its beginning if it is longer than `width`.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::{Align, Block, cut};

    #[test]
    fn columns_are_aligned_and_lines_cut() {
        let mut block = Block::new("t", &[("name", Align::Left), ("n", Align::Right), ("", Align::Left)]);
        block.row(["a", "1", "x"].map(str::to_owned));
        block.row(["bcdefg", "1000", "yyyyyyyyyyyy"].map(str::to_owned));
        let lines = block.lines(20);
        assert_eq!(lines.head.as_deref(), Some("name       n"));
        assert_eq!(lines.rows, ["a          1  x", "bcdefg  1000  yyyyy…"]);
        assert_eq!(Block::new("t", &[("", Align::Left)]).lines(9).head, None);
        assert_eq!(
            (cut("abc", 3).as_str(), cut("abcd", 3).as_str(), cut("ab", 0).as_str()),
            ("abc", "ab…", "…")
        );
    }
}
