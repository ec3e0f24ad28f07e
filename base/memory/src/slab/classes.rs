//! Slab classes: the sizes of chunks.

use super::page::PAGE_BYTES;
use guira_sync::words::WORD;

pub const MAX_CLASSES: usize = 255;

/// A slab class, by its index in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

/// The layout of a page of one class: chunks from the start on, and the bitmap of occupied chunks at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes in a chunk; a multiple of 8.
    pub chunk: u32,
    pub chunks: u32,
    pub bitmap_words: u32,
    /// Bytes at the start of each chunk that precede the item.
    before: u32,
    /// `ceil(2^30 / words in a chunk)`: division by multiplication.
    reciprocal: u64,
}

const RECIPROCAL_SHIFT: u32 = 30;

// The quotient is exact while the error of the reciprocal, less than the divisor, times the largest dividend stays
// below 2^30, for every chunk there can be.
const _: () = {
    let words = (PAGE_BYTES / WORD) as u64;
    assert!(words * (words / 2) <= 1 << RECIPROCAL_SHIFT);
};

impl Geometry {
    fn new(chunk: usize, before: usize) -> Self {
        let fits = |chunks: usize| chunks.div_ceil(64) * WORD + chunks * chunk <= PAGE_BYTES;
        let mut chunks = PAGE_BYTES / chunk;
        while !fits(chunks) {
            chunks -= 1;
        }
        let bitmap_words = chunks.div_ceil(64);
        Geometry {
            chunk: chunk as u32,
            chunks: chunks as u32,
            bitmap_words: bitmap_words as u32,
            before: before as u32,
            reciprocal: (1u64 << RECIPROCAL_SHIFT).div_ceil((chunk / WORD) as u64),
        }
    }

    /// The chunk that byte `in_page` of a page lies in. For a byte past the last chunk the result is at least
    /// `chunks`, so the caller has to check it.
    #[inline(always)]
    pub fn chunk_at(&self, in_page: usize) -> u32 {
        (((in_page / WORD) as u64).wrapping_mul(self.reciprocal) >> RECIPROCAL_SHIFT) as u32
    }

    /// Where the item in chunk `index` begins, in bytes from the start of the page.
    #[inline(always)]
    pub fn start_of(&self, index: u32) -> usize {
        index as usize * self.chunk as usize + self.before as usize
    }
}

#[derive(Clone, Debug)]
pub struct ClassTable {
    /// Bytes at the start of each chunk that precede the item.
    before: usize,
    geometries: Vec<Geometry>,
    /// Class by `size.div_ceil(8)`, for sizes up to `SMALL`.
    small: Vec<ClassId>,
}

const SMALL: usize = 1024;
/// Bytes in the smallest chunk.
pub const SMALLEST_CHUNK: usize = 24;
/// Up to this size classes are 8 bytes apart: a byte saved matters most in small items.
const FINE_UP_TO: usize = 256;

impl ClassTable {
    /// Chunks without a link: see [`ClassTable::with_links`].
    pub fn new(factor: f64, smallest: usize) -> Self {
        Self::with_links(factor, smallest, 0)
    }

    /// Chunks from `smallest` bytes (rounded up to a multiple of 8, and to [`SMALLEST_CHUNK`]) to an eighth of a
    /// page: 8 bytes apart up to 256, then growing by `factor`, each as large as it can be with the same number of
    /// chunks in a page. If that would be more than [`MAX_CLASSES`], they grow by as little more than `factor` as
    /// necessary.
    ///
    /// Each chunk begins with `link` bytes, a multiple of 8, that belong to the index; the item begins behind them,
    /// and the offset of a chunk is that of its item.
    pub fn with_links(factor: f64, smallest: usize, link: usize) -> Self {
        let smallest = smallest + link;
        let mut growth = factor.max(1.0) - 1.0;
        let mut sizes = Self::sizes(factor, smallest);
        while sizes.len() > MAX_CLASSES {
            growth = (growth * 1.1).max(0.005);
            sizes = Self::sizes(1.0 + growth, smallest);
        }
        let geometries: Vec<Geometry> = sizes.into_iter().map(|size| Geometry::new(size, link)).collect();
        let class_of =
            |size: usize| geometries.partition_point(|geometry| (geometry.chunk as usize) < size + link);
        let small = (0..=SMALL / WORD).map(|words| ClassId(class_of(words * WORD) as u8)).collect();
        ClassTable { before: link, geometries, small }
    }

    fn sizes(factor: f64, smallest: usize) -> Vec<usize> {
        let largest = Self::largest_chunk();
        let mut sizes = Vec::new();
        let mut size = smallest.clamp(SMALLEST_CHUNK, largest).next_multiple_of(WORD);
        while size < largest {
            sizes.push(Self::stretched(size).min(largest));
            let step = if size < FINE_UP_TO {
                size + WORD
            } else {
                ((size as f64 * factor).min(largest as f64) as usize).next_multiple_of(WORD)
            };
            size = step.max(sizes.last().map_or(0, |last| last + WORD));
        }
        if sizes.last() != Some(&largest) {
            sizes.push(largest);
        }
        sizes
    }

    /// The largest multiple of 8 that fits as often in a page as `size` does.
    fn stretched(size: usize) -> usize {
        let count = Geometry::new(size, 0).chunks;
        let mut stretched = size;
        while Geometry::new(stretched + 8, 0).chunks == count {
            stretched += 8;
        }
        stretched
    }

    /// Bytes in the largest chunk: eight fill a page. A longer item takes several chunks, the last of them only as
    /// large as necessary; with chunks of half a page, values of 64 to 128 KiB left a fifth of their memory unused
    /// (decision 5).
    pub const fn largest_chunk() -> usize {
        ((PAGE_BYTES - WORD) / 8) & !(WORD - 1)
    }

    /// Bytes of the largest item in one chunk.
    pub fn largest_item(&self) -> usize {
        Self::largest_chunk() - self.before
    }

    pub fn largest(&self) -> ClassId {
        ClassId((self.geometries.len() - 1) as u8)
    }

    /// The class for an item of `size` bytes, or `None` if it does not fit into the largest chunk.
    #[inline]
    pub fn class_for(&self, size: usize) -> Option<ClassId> {
        if let Some(class) = self.small.get(size.div_ceil(WORD)) {
            return Some(*class);
        }
        let size = size + self.before;
        let class = self.geometries.partition_point(|geometry| (geometry.chunk as usize) < size);
        (class < self.geometries.len()).then_some(ClassId(class as u8))
    }

    ///
    /// # Panics
    /// If there is no such class.
    #[inline(always)]
    pub fn geometry(&self, class: ClassId) -> &Geometry {
        &self.geometries[usize::from(class.0)]
    }

    /// The layout of a class that was read without a lock; `None` if there is no such class.
    #[inline(always)]
    pub fn get(&self, class: ClassId) -> Option<&Geometry> {
        self.geometries.get(usize::from(class.0))
    }

    #[allow(clippy::len_without_is_empty, reason = "there is always at least one")]
    pub fn len(&self) -> usize {
        self.geometries.len()
    }

    /// All classes, in ascending order of size.
    pub fn ids(&self) -> impl Iterator<Item = ClassId> + use<> {
        (0..self.geometries.len()).map(|class| ClassId(class as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_chunk_that_holds_it() {
        let table = ClassTable::new(1.08, SMALLEST_CHUNK);
        for size in 0..=ClassTable::largest_chunk() {
            let class = table.class_for(size).unwrap();
            assert!(table.geometry(class).chunk as usize >= size);
            if class.0 > 0 {
                assert!((table.geometry(ClassId(class.0 - 1)).chunk as usize) < size, "size {size}");
            }
        }
        assert_eq!(table.class_for(ClassTable::largest_chunk() + 1), None);
    }

    #[test]
    fn small_chunks_are_eight_bytes_apart_and_no_page_wastes_more_than_a_hundredth() {
        let table = ClassTable::new(1.08, SMALLEST_CHUNK);
        for size in (24..=256).step_by(8) {
            assert_eq!(table.geometry(table.class_for(size).unwrap()).chunk as usize, size);
        }
        for class in table.ids() {
            let geometry = table.geometry(class);
            let used = geometry.start_of(geometry.chunks) + geometry.bitmap_words as usize * WORD;
            assert!(used <= PAGE_BYTES && PAGE_BYTES - used <= PAGE_BYTES / 100, "{geometry:?}");
        }
        assert!(table.len() < 128, "{}", table.len());
    }

    #[test]
    fn any_factor_and_smallest_chunk_make_a_table_that_ends_with_the_largest_chunk() {
        for (factor, smallest) in [(1.0001, 24), (1.01, 24), (1.06, 56), (1.25, 104), (2.0, 300), (1e9, 1)] {
            let table = ClassTable::new(factor, smallest);
            let chunks: Vec<usize> = table.ids().map(|class| table.geometry(class).chunk as usize).collect();
            assert!(table.len() <= MAX_CLASSES && chunks.is_sorted_by(|a, b| a < b), "{factor}: {chunks:?}");
            assert_eq!(chunks.last(), Some(&ClassTable::largest_chunk()));
            let first = smallest.next_multiple_of(8).max(SMALLEST_CHUNK);
            assert!((first..first + 8).contains(&chunks[0]), "{factor}, {smallest}: {chunks:?}");
        }
        assert!(ClassTable::new(1.0001, 24).len() > 200, "steps are widened no more than they have to be");
        assert!(ClassTable::new(1.25, 24).len() < ClassTable::new(1.06, 24).len());
        assert_eq!(ClassTable::new(1.06, 40_000).len(), 1);
    }

    #[test]
    fn with_links_items_begin_behind_them_and_get_the_smallest_chunk_that_holds_both() {
        let table = ClassTable::with_links(1.25, 48, 8);
        assert_eq!(table.geometry(ClassId(0)).chunk, 56);
        for size in 0..=table.largest_item() {
            let class = table.class_for(size).unwrap();
            assert!(table.geometry(class).chunk as usize >= size + 8, "size {size}");
            assert!(
                class.0 == 0 || (table.geometry(ClassId(class.0 - 1)).chunk as usize) < size + 8,
                "size {size}"
            );
        }
        assert_eq!(table.class_for(table.largest_item()), Some(table.largest()));
        assert_eq!(table.class_for(table.largest_item() + 1), None);
        let geometry = table.geometry(ClassId(3));
        assert_eq!((geometry.start_of(0), geometry.start_of(2)), (8, 8 + 2 * geometry.chunk as usize));
        assert_eq!(geometry.chunk_at(geometry.start_of(2)), 2);
    }

    #[test]
    fn division_by_multiplication_is_exact() {
        let table = ClassTable::new(1.08, SMALLEST_CHUNK);
        for class in table.ids() {
            let geometry = table.geometry(class);
            for index in 0..geometry.chunks {
                let start = geometry.start_of(index);
                assert_eq!(geometry.chunk_at(start), index);
                assert_eq!(geometry.chunk_at(start + geometry.chunk as usize - 8), index);
            }
        }
    }
}
