//! `stats slabs` and `stats items`: classes of chunks.

use std::collections::BTreeMap;

use super::{Sink, number, parts};

/// Numbers of classes go up to this; memcached has 63.
const CLASS_MAX: u32 = 1000;

/// The figures of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassFigure {
    ChunkSize,
    Pages,
    Chunks,
    UsedChunks,
    GetHits,
    Sets,
    Items,
    ItemBytes,
    Evicted,
    Age,
}

const COUNT: usize = ClassFigure::Age as usize + 1;

/// Names of `stats slabs`, and of `stats items`.
const SLABS: &[(&str, ClassFigure)] = &[
    ("chunk_size", ClassFigure::ChunkSize),
    ("total_pages", ClassFigure::Pages),
    ("total_chunks", ClassFigure::Chunks),
    ("used_chunks", ClassFigure::UsedChunks),
    ("get_hits", ClassFigure::GetHits),
    ("cmd_set", ClassFigure::Sets),
];
const ITEMS: &[(&str, ClassFigure)] = &[
    ("number", ClassFigure::Items),
    ("mem_requested", ClassFigure::ItemBytes),
    ("evicted", ClassFigure::Evicted),
    ("age", ClassFigure::Age),
];

/// Classes, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Classes(BTreeMap<u32, [Option<u64>; COUNT]>);

impl Classes {
    /// The numbers of those that have pages or items.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        let is_used = |class: &u32| {
            [ClassFigure::Pages, ClassFigure::Items]
                .iter()
                .any(|what| self.of(*class, *what).unwrap_or(0) > 0)
        };
        self.0.keys().copied().filter(is_used)
    }

    pub(crate) fn of(&self, class: u32, what: ClassFigure) -> Option<u64> {
        self.0.get(&class)?[what as usize]
    }

    pub(super) fn slabs(&mut self) -> impl Sink {
        Lines { classes: self, names: SLABS }
    }

    pub(super) fn items(&mut self) -> impl Sink {
        Lines { classes: self, names: ITEMS }
    }

    fn set(&mut self, class: &str, name: &str, names: &[(&str, ClassFigure)], value: &[u8]) {
        let class = class.parse().ok().filter(|class| *class <= CLASS_MAX);
        let known = names.iter().find(|(known, _)| *known == name);
        if let (Some(class), Some((_, what)), Some(value)) = (class, known, number(value)) {
            self.0.entry(class).or_default()[*what as usize] = Some(value);
        }
    }
}

/// Takes lines `1:chunk_size 96`, or `items:1:number 5`.
struct Lines<'a> {
    classes: &'a mut Classes,
    names: &'static [(&'static str, ClassFigure)],
}

impl Sink for Lines<'_> {
    fn line(&mut self, name: &[u8], value: &[u8]) {
        let name = name.strip_prefix(b"items:").unwrap_or(name);
        if let Some([class, name]) = parts(name) {
            self.classes.set(class, name, self.names, value);
        }
    }
}
