//! An item whose value is being written into its chunks, before anybody else knows of it.

use crate::chain::{CONTINUATION, write_continuation};
use crate::item::{Chain, Fields, ItemHeaderSpec, Shape};
use guira_memory::{Offset, Region};
use guira_sync::atomic::AtomicU64;
use guira_sync::clock::Seconds;
use guira_sync::words::{self, WORD};

/// The chunks of an item that is being filled, and how far it has come.
#[derive(Debug)]
pub struct PendingChunks {
    shape: Shape,
    total: usize,
    arrived: usize,
    /// How much of it there are chunks for.
    reserved: usize,
    /// The chunks, and how much of the value goes into each.
    chunks: Vec<(Offset, usize)>,
    /// The chunk that is being filled, and how full it is.
    at: (usize, usize),
}

impl PendingChunks {
    /// How an item lies in its first chunk, of `largest` bytes at the most.
    pub fn shape_of(largest: usize, key_len: usize, fields: Fields, value_len: usize) -> Shape {
        let mut shape = Shape { key_len: key_len as u8, value_len: value_len.min(largest) as u32, fields };
        if shape.size() > largest {
            shape.fields = shape.fields.with(Fields::CHAIN);
            shape.value_len = (largest - shape.value_at()) as u32;
        }
        shape
    }

    /// An item of this shape that begins in the chunk `first`, with a value of `total` bytes.
    pub fn new(shape: Shape, total: usize, first: Offset) -> Self {
        let head = shape.value_len as usize;
        PendingChunks { shape, total, arrived: 0, reserved: head, chunks: vec![(first, head)], at: (0, 0) }
    }

    /// Whether it is an item with these fields and a value of this length.
    pub fn is_for(&self, fields: Fields, value_len: usize) -> bool {
        Fields(self.shape.fields.0 & !Fields::CHAIN.0) == fields && self.total == value_len
    }

    /// Length of the value, in bytes.
    pub fn total(&self) -> usize {
        self.total
    }

    /// How much of the value has still to arrive.
    pub fn missing(&self) -> usize {
        self.total - self.arrived
    }

    /// For how much of the value there are chunks.
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    /// How much can be appended to the chunks that there are.
    pub fn room(&self) -> usize {
        self.reserved - self.arrived
    }

    /// How much of the value the next chunk takes, of `largest` bytes at the most, and how many bytes it needs.
    pub fn next_part(&self, largest: usize) -> (usize, usize) {
        let part = (self.total - self.reserved).min(largest - CONTINUATION);
        (part, part + CONTINUATION)
    }

    /// Adds the chunk at `at` for `part` bytes of the value.
    pub fn add(&mut self, at: Offset, part: usize) {
        self.chunks.push((at, part));
        self.reserved += part;
    }

    pub fn count(&self) -> usize {
        self.chunks.len()
    }

    /// Where chunk `index` is.
    pub fn place(&self, index: usize) -> Offset {
        self.chunks[index].0
    }

    /// Goes on with the chunk at `to` in place of number `index`, which is free then.
    pub fn replace(&mut self, region: &Region, index: usize, to: Offset) {
        let from = std::mem::replace(&mut self.chunks[index].0, to);
        let count = self.words(region, index).len();
        let words = region.words(from, count).expect("the chunk is inside the region");
        self.words(region, index)
            .iter()
            .zip(words)
            .for_each(|(to, from)| words::store(to, words::load(from)));
    }

    pub fn begin_anew(&mut self) {
        (self.arrived, self.at) = (0, (0, 0));
    }

    /// Bytes of the value from the start of chunk `index`.
    fn value_at(&self, index: usize) -> usize {
        if index == 0 { self.shape.value_at() } else { CONTINUATION }
    }

    /// The words of chunk `index` up to the end of its part of the value.
    fn words<'r>(&self, region: &'r Region, index: usize) -> &'r [AtomicU64] {
        let (at, length) = self.chunks[index];
        let count = (self.value_at(index) + length).div_ceil(WORD);
        region.words(at, count).expect("the chunk is inside the region")
    }

    /// Appends bytes that there are chunks for.
    ///
    /// # Panics
    /// If there are none.
    pub fn append(&mut self, region: &Region, mut bytes: &[u8]) {
        assert!(bytes.len() <= self.room(), "more than there is room for");
        self.arrived += bytes.len();
        while !bytes.is_empty() {
            if self.at.1 == self.chunks[self.at.0].1 {
                self.at = (self.at.0 + 1, 0);
            }
            let (index, full) = self.at;
            let part = bytes.len().min(self.chunks[index].1 - full);
            words::copy_in(self.words(region, index), self.value_at(index) + full, &bytes[..part]);
            bytes = &bytes[part..];
            self.at = (index, full + part);
        }
    }

    /// Appends what has arrived to `bytes`.
    pub fn append_to(&self, region: &Region, bytes: &mut Vec<u8>) {
        let mut left = self.arrived;
        for (index, (_, length)) in self.chunks.iter().enumerate() {
            let (start, part) = (bytes.len(), left.min(*length));
            bytes.resize(start + part, 0);
            words::copy_out(self.words(region, index), self.value_at(index), &mut bytes[start..]);
            left -= part;
        }
    }

    /// Writes everything but the value, so that the item can be put into the table, and returns where it is.
    pub fn write(&self, region: &Region, header_spec: &ItemHeaderSpec<'_>, now: Seconds) -> Offset {
        debug_assert_eq!(self.arrived, self.total, "the whole value has arrived");
        let place = |index: usize| self.chunks.get(index).map(|(at, _)| *at);
        let (head, _) = self.chunks[0];
        let chain = self
            .shape
            .fields
            .has(Fields::CHAIN)
            .then(|| Chain { total: self.total, next: place(1).unwrap_or(Offset::from_bytes(0)) });
        for (index, (at, length)) in self.chunks.iter().enumerate().skip(1) {
            write_continuation(region, *at, *length, place(index + 1), head);
        }
        header_spec.write(region, head, self.shape, chain, now);
        head
    }

    /// Takes the chunks out: they are an item's, or free.
    pub fn take_chunks(&mut self) -> impl Iterator<Item = Offset> + use<> {
        std::mem::take(&mut self.chunks).into_iter().map(|(at, _)| at)
    }
}
