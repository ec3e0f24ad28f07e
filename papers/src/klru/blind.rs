//! KLRU that does not look whether what it has drawn has expired: Algorithm 1 of the paper without lines 14 to 17.

use guira_slab::policy::klru::Klru;
use guira_slab::policy::{Arrival, Chunk, Chunks, Lately, Moment, Notes, Order, Reads, Side};

/// KLRU to which everything is alive.
#[derive(Debug)]
pub(super) struct Blind(pub(super) Klru);

/// Chunks of which none is dead.
struct Alive<'a, C>(&'a C);

impl<C: Chunks> Chunks for Alive<'_, C> {
    fn note(&self, chunk: Chunk, word: usize) -> u32 {
        self.0.note(chunk, word)
    }

    fn set_note(&self, chunk: Chunk, word: usize, value: u32) {
        self.0.set_note(chunk, word, value);
    }

    fn link(&self, chunk: Chunk, side: Side) -> u32 {
        self.0.link(chunk, side)
    }

    fn set_link(&self, chunk: Chunk, side: Side, link: u32) {
        self.0.set_link(chunk, side, link);
    }

    fn reads(&self, chunk: Chunk) -> u32 {
        self.0.reads(chunk)
    }

    fn fade(&self, chunk: Chunk) {
        self.0.fade(chunk);
    }

    fn is_recent(&self, chunk: Chunk) -> bool {
        self.0.is_recent(chunk)
    }

    fn forget(&self, chunk: Chunk) {
        self.0.forget(chunk);
    }

    fn hash(&self, chunk: Chunk) -> u32 {
        self.0.hash(chunk)
    }

    fn any(&self, random: u64) -> Option<Chunk> {
        self.0.any(random)
    }

    fn is_held(&self, chunk: Chunk) -> bool {
        self.0.is_held(chunk)
    }

    fn prefetch(&self, chunk: Chunk) {
        self.0.prefetch(chunk);
    }
}

impl Order for Blind {
    const READS: Reads = <Klru as Order>::READS;
    const IS_SEQUENCE: bool = <Klru as Order>::IS_SEQUENCE;

    fn notes(&self) -> Notes {
        self.0.notes()
    }

    fn variant(&self) -> u8 {
        self.0.variant()
    }

    fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, arrival: Arrival, now: Moment) {
        self.0.stored(chunks, chunk, arrival, now);
    }

    fn touch(variant: u8, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        Klru::touch(variant, chunks, chunk, now);
    }

    fn has(&self, chunks: &impl Chunks, chunk: Chunk) -> bool {
        self.0.has(chunks, chunk)
    }

    fn removed(&mut self, chunks: &impl Chunks, chunk: Chunk) {
        self.0.removed(chunks, chunk);
    }

    fn victims(&mut self, chunks: &impl Chunks, want: usize, now: Moment, take: impl FnMut(Chunk)) {
        self.0.victims(&Alive(chunks), want, now, take);
    }

    fn next(&self, chunks: &impl Chunks) -> Option<Chunk> {
        self.0.next(&Alive(chunks))
    }

    fn since(&self, chunks: &impl Chunks, chunk: Chunk) -> u32 {
        self.0.since(chunks, chunk)
    }

    fn newest(&self, chunks: &impl Chunks, among: &[Chunk], lately: Lately) -> Vec<(u32, Chunk)> {
        self.0.newest(chunks, among, lately)
    }
}
