//! Counters as they last: rows of values under names, so that a version that counts more, less or other things goes on with those it knows.

use guira_contract::Emptied;
use guira_memory::lasting::Loss;
use guira_sync::words::WORD;

/// What rows with names begin with. Without it come the values alone, in the order of the version that wrote no names.
const NAMED: u64 = u64::MAX;

/// A name is no longer than this.
const NAME_MAX: usize = 64;
/// There are no more columns than this.
const COLUMNS_MAX: usize = 1024;

/// Rows of values, in columns that have names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedRows {
    columns: Vec<Vec<u8>>,
    /// One after the other.
    values: Vec<u64>,
}

impl NamedRows {
    /// Rows of `N` values each, under these names.
    pub(crate) fn of<const N: usize>(names: [&str; N], rows: impl IntoIterator<Item = [u64; N]>) -> Self {
        let columns = names.map(|name| name.as_bytes().to_vec()).into();
        NamedRows { columns, values: rows.into_iter().flatten().collect() }
    }

    fn len(&self) -> usize {
        self.values.len() / self.columns.len().max(1)
    }

    /// The rows, with the columns that have these names. What has no column is 0.
    pub(crate) fn rows<const N: usize>(&self, names: [&str; N]) -> impl Iterator<Item = [u64; N]> {
        let place = |name: &str| self.columns.iter().position(|column| column == name.as_bytes());
        let places = names.map(place);
        let rows = self.values.chunks_exact(self.columns.len().max(1));
        rows.map(move |row| places.map(|place| place.map_or(0, |place| row[place])))
    }

    pub(crate) fn numbers(&self) -> Vec<u64> {
        let mut numbers = vec![NAMED, self.columns.len() as u64];
        for column in &self.columns {
            numbers.push(column.len() as u64);
            numbers.extend(column.chunks(WORD).map(|bytes| {
                let mut word = [0; WORD];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            }));
        }
        numbers.push(self.len() as u64);
        numbers.extend(&self.values);
        numbers
    }

    /// Reads what [`NamedRows::numbers`] has made, number by number; or what was written before there were names: the count of rows, or of columns if
    /// there are always `rows_before` rows, and then values under the names of `before`.
    ///
    /// # Errors
    /// If it is neither.
    pub(crate) fn read(
        mut next: impl FnMut() -> Result<u64, Emptied>,
        before: &[&str],
        rows_before: Option<usize>,
        rows_max: usize,
    ) -> Result<Self, Emptied> {
        let damaged = || Emptied::from(Loss::Damaged);
        let first = next()?;
        let mut columns = Vec::new();
        let rows = if first == NAMED {
            let count =
                usize::try_from(next()?).ok().filter(|count| *count <= COLUMNS_MAX).ok_or_else(damaged)?;
            for _ in 0..count {
                let length = usize::try_from(next()?).ok().filter(|length| *length <= NAME_MAX);
                let length = length.ok_or_else(damaged)?;
                let mut name = Vec::with_capacity(length.next_multiple_of(WORD));
                for _ in 0..length.div_ceil(WORD) {
                    name.extend(next()?.to_le_bytes());
                }
                name.truncate(length);
                columns.push(name);
            }
            next()?
        } else {
            columns.extend(before.iter().map(|name| name.as_bytes().to_vec()));
            match rows_before {
                Some(rows) if first == before.len() as u64 => rows as u64,
                Some(_) => return Err(Loss::Version.into()),
                None => first,
            }
        };
        let rows = usize::try_from(rows).ok().filter(|rows| *rows <= rows_max).ok_or_else(damaged)?;
        let values = (0..rows * columns.len()).map(|_| next()).collect::<Result<_, _>>()?;
        Ok(NamedRows { columns, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(numbers: &[u64], before: &[&str], rows: Option<usize>) -> Result<NamedRows, Emptied> {
        let mut left = numbers.iter();
        let next = || left.next().copied().ok_or(Loss::Damaged.into());
        let rows = NamedRows::read(next, before, rows, 8)?;
        assert_eq!(left.next(), None, "all was read");
        Ok(rows)
    }

    #[test]
    fn values_come_back_by_name_whatever_else_was_counted() {
        let written =
            NamedRows::of(["old", "evictions", "a_name_of_more_than_16_bytes"], [[1, 2, 3], [4, 5, 6]]);
        let again = read(&written.numbers(), &[], None).unwrap();
        assert_eq!(again, written);
        let rows: Vec<_> = again.rows(["new", "a_name_of_more_than_16_bytes", "evictions"]).collect();
        assert_eq!(rows, [[0, 3, 2], [0, 6, 5]]);
    }

    #[test]
    fn what_was_written_without_names_comes_back() {
        let counts = read(&[2, 10, 11, 20, 21], &["a", "b"], Some(2)).unwrap();
        assert_eq!(counts.rows(["b", "c"]).collect::<Vec<_>>(), [[11, 0], [21, 0]]);
        let tallies = read(&[1, 7, 8], &["a", "b"], None).unwrap();
        assert_eq!(tallies.rows(["b"]).collect::<Vec<_>>(), [[8]]);
        assert_eq!(read(&[3, 1, 2, 3], &["a", "b"], Some(1)), Err(Loss::Version.into()));
    }

    #[test]
    fn what_is_cut_or_cannot_be_is_not_believed() {
        let numbers = NamedRows::of(["one", "another"], [[1, 2]]).numbers();
        for length in 0..numbers.len() {
            assert_eq!(read(&numbers[..length], &[], None), Err(Loss::Damaged.into()), "{length}");
        }
        for broken in [vec![NAMED, 1 << 40], vec![NAMED, 1, 65], vec![NAMED, 1, 1, 97, 9]] {
            assert_eq!(read(&broken, &[], None), Err(Loss::Damaged.into()), "{broken:?}");
        }
    }
}
