//! Places in a log that can be measured.

/// A file of a log by its number, and bytes in it. What has no files is one, with the number 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: u64,
    pub(crate) offset: u64,
}

/// The extent of a log: its files by number, in order, with the length of each in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent(Vec<(u64, u64)>);

impl Extent {
    pub(crate) fn new(files: Vec<(u64, u64)>) -> Self {
        Extent(files)
    }

    /// How many bytes are behind `place`. Of files that are gone nothing counts.
    pub(crate) fn behind(&self, place: Place) -> u64 {
        let left = |(number, length): &(u64, u64)| match number {
            number if *number < place.file => 0,
            number if *number == place.file => length.saturating_sub(place.offset),
            _ => *length,
        };
        self.0.iter().map(left).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_across_files() {
        let extent = Extent::new(vec![(3, 100), (4, 70), (5, 30)]);
        let behind = |file, offset| extent.behind(Place { file, offset });
        assert_eq!([behind(5, 30), behind(5, 10), behind(4, 70), behind(4, 0)], [0, 20, 30, 100]);
        assert_eq!((behind(3, 90), behind(1, 4)), (110, 200));
        assert_eq!((behind(5, 31), behind(6, 0)), (0, 0), "it was looked at before");
    }
}
