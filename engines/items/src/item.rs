//! How an item lies in its chunk.
//!
//! ```text
//! | header 8 | cas 8 | chain 16 | expiry 4 | flags 4 | key | value |
//!              -------- only what the item uses ---------
//!
//! header:  63        overwrote a live item, and the hand has not been here since (FLeeC; 0 elsewhere)
//!          62..60    flush generation
//!          59..55    facts: hidden, binary key, token sent, stale, fetched
//!          54..51    fields: chain, cas, expiry, flags
//!          50..28    last access, in seconds of the coarse clock, modulo 2^23
//!          27..8     length of the value's bytes in this chunk
//!          7..0      length of the key
//! ```
//!
//! memcached's header takes 48 bytes, and 56 with a cas unique; this one 8, and most items have no other field. The cas
//! unique is added when a client asks for it.
//!
//! A value of 256 bytes or more begins at a multiple of 8, so that it is copied by whole words.
//!
//! **Who may store what.** A chunk that no slot or link refers to belongs to the session that took it, and is filled by it alone; stale
//! readers may still load from it. In the slab engines the words of a linked item are stored only by a holder of the version counters of the item's
//! buckets, in FLeeC by none; with exceptions: a reader that has validated an item replaces the header by
//! compare-and-swap to note the access, and so does FLeeC's hand to clear bit 63; who has announced an item of FLeeC swaps its expiry, or gives it a cas
//! unique. A swap fails if anything about its word has changed.

use crate::counts::Removed;
use crate::key_words::KeyWords;
use guira_contract::{Expiry, ItemState, ItemView, KEY_MAX, Meta, NewItem};
use guira_memory::slab::ClassId;
use guira_memory::{Offset, Region};
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use guira_sync::words::{self, WORD};

/// The first word of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header(pub u64);

/// Which optional fields an item has, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub u8);

impl Fields {
    pub const FLAGS: Fields = Fields(1);
    /// When it expires.
    pub const EXPIRY: Fields = Fields(2);
    pub const CAS: Fields = Fields(4);
    /// It goes on in other chunks.
    pub const CHAIN: Fields = Fields(8);

    /// Whether `field` is one of them.
    #[inline(always)]
    pub const fn has(self, field: Fields) -> bool {
        self.0 & field.0 != 0
    }

    /// These and `field`.
    #[must_use]
    #[inline(always)]
    pub const fn with(self, field: Fields) -> Fields {
        Fields(self.0 | field.0)
    }
}

const VALUE_SHIFT: u32 = 8;
const VALUE_BITS: u32 = 20;
const ACCESS_SHIFT: u32 = 28;
const ACCESS_BITS: u32 = 23;
const ACCESS_MASK: u64 = (1 << ACCESS_BITS) - 1;
const FIELDS_SHIFT: u32 = 51;
const STATE_SHIFT: u32 = 55;
const GENERATION_SHIFT: u32 = 60;
const OVERWROTE: u64 = 1 << 63;

/// A read is not noted if another was within this many seconds: the compare-and-swap costs as much as the rest of a
/// lookup that hits the caches. memcached waits for 60.
pub const NOTED_FOR: u64 = 8;

/// Flush generations that items can tell apart.
pub const GENERATIONS: u32 = 8;

// The fields of the header lie next to each other and leave bit 63 to `OVERWROTE`.
const _: () = assert!(VALUE_SHIFT + VALUE_BITS == ACCESS_SHIFT);
const _: () = assert!(ACCESS_SHIFT + ACCESS_BITS == FIELDS_SHIFT);
const _: () = assert!(FIELDS_SHIFT + 4 == STATE_SHIFT && STATE_SHIFT + ItemState::BITS == GENERATION_SHIFT);
const _: () = assert!(GENERATION_SHIFT + GENERATIONS.ilog2() == 63);
// A key's length fits one byte; 0 marks a chunk that continues a chain.
const _: () = assert!(KEY_MAX <= u8::MAX as usize);

impl Header {
    /// What the first word of a chunk holds that was never used, or that continued a chain when it was freed.
    pub const NONE: Header = Header(0);

    /// The header of an item that is stored, or last accessed, at `now`.
    #[inline(always)]
    pub fn new(shape: Shape, state: ItemState, generation: u32, now: Seconds) -> Self {
        Header(
            u64::from(shape.key_len)
                | u64::from(shape.value_len) << VALUE_SHIFT
                | u64::from(shape.fields.0) << FIELDS_SHIFT
                | u64::from(state.0) << STATE_SHIFT
                | u64::from(generation) << GENERATION_SHIFT,
        )
        .accessed(now)
    }

    #[inline(always)]
    pub fn shape(self) -> Shape {
        Shape {
            key_len: self.0 as u8,
            value_len: (self.0 >> VALUE_SHIFT) as u32 & ((1 << VALUE_BITS) - 1),
            fields: Fields((self.0 >> FIELDS_SHIFT) as u8 & 15),
        }
    }

    #[inline(always)]
    pub fn state(self) -> ItemState {
        ItemState((self.0 >> STATE_SHIFT) as u8 & ItemState::ALL.0)
    }

    /// The flush generation that it was stored in.
    #[inline(always)]
    pub fn generation(self) -> u32 {
        (self.0 >> GENERATION_SHIFT) as u32 & (GENERATIONS - 1)
    }

    /// The same of another flush generation.
    #[must_use]
    pub fn with_generation(self, generation: u32) -> Self {
        let mask = u64::from(GENERATIONS - 1) << GENERATION_SHIFT;
        Header(self.0 & !mask | u64::from(generation) << GENERATION_SHIFT)
    }

    #[inline(always)]
    #[must_use]
    pub fn with_state(self, state: ItemState) -> Self {
        Header(self.0 & !(u64::from(ItemState::ALL.0) << STATE_SHIFT) | u64::from(state.0) << STATE_SHIFT)
    }

    /// The same, last accessed at `now`.
    #[inline(always)]
    #[must_use]
    pub fn accessed(self, now: Seconds) -> Self {
        Header(self.0 & !(ACCESS_MASK << ACCESS_SHIFT) | (u64::from(now.0) & ACCESS_MASK) << ACCESS_SHIFT)
    }

    /// The header after a read at `now`.
    #[inline(always)]
    #[must_use]
    pub fn read_at(self, now: Seconds) -> Self {
        self.accessed(now).with_state(self.state().with(ItemState::FETCHED))
    }

    /// The same, of an item that took the place of a live one.
    #[must_use]
    fn overwriting(self) -> Self {
        Header(self.0 | OVERWROTE)
    }

    /// Whether the item took the place of a live one, and that was not forgotten.
    pub fn overwrote(self) -> bool {
        self.0 & OVERWROTE != 0
    }

    /// When the item was last accessed. Exact for accesses of the last 97 days, which is as far as 23 bits reach.
    pub fn last_access(self, now: Seconds) -> Seconds {
        let stamp = (self.0 >> ACCESS_SHIFT & ACCESS_MASK) as u32;
        let age = now.0.wrapping_sub(stamp) & ACCESS_MASK as u32;
        Seconds(now.0.saturating_sub(age))
    }
}

/// What decides where the parts of an item lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Length of the key; 0 in a chunk that continues a chain.
    pub key_len: u8,
    /// Bytes of the value in this chunk.
    pub value_len: u32,
    pub fields: Fields,
}

/// Values from here on begin at a multiple of 8.
const ALIGNED_FROM: u32 = 256;

/// Values from here on have the field of an expiry, whether they expire or not: so one can be set later without storing the value anew.
const EXPIRY_FROM: usize = 1024;

/// The longest value that is copied as it is found; longer ones are pinned. Longer ones also have the field of a cas unique from the start: what changes
/// and shows a pinned value tells by its unique whether it is still the same, and shall not have to store it anew for that.
pub const INLINE_MAX: usize = 16 << 10;

/// Where the key begins, for each set of fields.
const KEY_AT: [u8; 16] = {
    let mut all = [0; 16];
    let mut fields = 0;
    while fields < 16 {
        let shape = Shape { key_len: 0, value_len: 0, fields: Fields(fields) };
        all[fields as usize] = (shape.flags_at() + if fields & Fields::FLAGS.0 != 0 { 4 } else { 0 }) as u8;
        fields += 1;
    }
    all
};

impl Shape {
    #[inline(always)]
    const fn cas_at(self) -> usize {
        WORD
    }

    #[inline(always)]
    const fn chain_at(self) -> usize {
        WORD + if self.fields.has(Fields::CAS) { 8 } else { 0 }
    }

    #[inline(always)]
    const fn expiry_at(self) -> usize {
        self.chain_at() + if self.fields.has(Fields::CHAIN) { 16 } else { 0 }
    }

    #[inline(always)]
    const fn flags_at(self) -> usize {
        self.expiry_at() + if self.fields.has(Fields::EXPIRY) { 4 } else { 0 }
    }

    /// Where the key begins, in bytes from the start of the item.
    #[inline(always)]
    pub fn key_at(self) -> usize {
        usize::from(KEY_AT[usize::from(self.fields.0 & 15)])
    }

    /// Where the value begins, in bytes from the start of the item.
    #[inline(always)]
    pub fn value_at(self) -> usize {
        let end = self.key_at() + usize::from(self.key_len);
        if self.value_len >= ALIGNED_FROM { end.next_multiple_of(WORD) } else { end }
    }

    /// Bytes from the start of the chunk to the end of the value.
    #[inline(always)]
    pub fn size(self) -> usize {
        self.value_at() + self.value_len as usize
    }
}

/// The chain of a long value: its length altogether, and the chunk after this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Length of the value, in bytes.
    pub total: usize,
    /// The next chunk; place 0 if there is none.
    pub next: Offset,
}

/// Words of the largest item that a header can tell of.
const WINDOW: usize = (2 * WORD + 16 + 8 + (1 << 8) + (1 << VALUE_BITS)) / WORD;

/// Bytes that a Region must have behind its last chunk, so that whatever a racy header tells of lies in the Region.
pub const BEHIND_CHUNKS: usize = WINDOW * WORD;

/// An item in a chunk, found by a reader or held by a writer.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    pub at: Offset,
    /// Its header, as it was when the item was looked up.
    pub header: Header,
    /// The item, and what lies behind it.
    words: &'a [AtomicU64; WINDOW],
    /// Length of the whole value: loaded once, so that all who look at a torn item see the same nonsense.
    total: usize,
    now: Seconds,
    class: u8,
}

impl<'a> Item<'a> {
    /// The item at `at`, as its header now describes it. `None` if that cannot be an item: a chunk that continues a
    /// chain, or nonsense from a racy read.
    #[inline(always)]
    pub fn at(region: &'a Region, at: Offset, now: Seconds) -> Option<Self> {
        let words = region.window::<WINDOW>(at)?;
        let header = Header(words::load(&words[0]));
        let shape = header.shape();
        if shape.key_len == 0 {
            return None;
        }
        let total = if shape.fields.has(Fields::CHAIN) {
            words::load(&words[shape.chain_at() / WORD]) as usize
        } else {
            shape.value_len as usize
        };
        Some(Item { at, header, words, total, now, class: 0 })
    }

    /// Lengths and fields, as the header tells of them.
    #[inline(always)]
    pub fn shape(&self) -> Shape {
        self.header.shape()
    }

    /// The same, for a known class.
    pub fn of_class(self, class: u8) -> Self {
        Item { class, ..self }
    }

    /// Whether the item's key is `key`.
    #[inline(always)]
    pub fn key_is(&self, key: &[u8]) -> bool {
        let shape = self.shape();
        usize::from(shape.key_len) == key.len() && words::equal(self.words, shape.key_at(), key)
    }

    /// Copies the key and returns it.
    pub fn key<'b>(&self, buffer: &'b mut [u8; 256]) -> &'b [u8] {
        self.stamped().key().copied(buffer)
    }

    /// What is needed to judge it by its stamp.
    #[inline(always)]
    pub(crate) fn stamped(&self) -> Stamped<'a> {
        Stamped { words: self.words, header: self.header }
    }

    /// Bytes before the value.
    #[inline(always)]
    pub fn size_before_value(&self) -> usize {
        self.shape().value_at()
    }

    fn four_bytes(&self, at: usize) -> u32 {
        (words::load(&self.words[at / WORD]) >> (at % WORD * 8)) as u32
    }

    /// When it expires.
    #[inline(always)]
    pub fn expiry(&self) -> Expiry {
        if !self.shape().fields.has(Fields::EXPIRY) {
            return Expiry::Never;
        }
        match self.four_bytes(self.shape().expiry_at()) {
            NEVER => Expiry::Never,
            at => Expiry::At(Seconds(at)),
        }
    }

    /// Where the value goes on, if it does.
    pub fn chain(&self) -> Option<Chain> {
        if !self.shape().fields.has(Fields::CHAIN) {
            return None;
        }
        let at = self.shape().chain_at() / WORD;
        Some(Chain { total: self.total, next: Offset::from_bytes(words::load(&self.words[at + 1])) })
    }

    /// The word that leads to the chunk after the first, if the item goes on in others.
    pub(crate) fn link(&self) -> Option<&'a AtomicU64> {
        let is_chain = self.shape().fields.has(Fields::CHAIN);
        is_chain.then(|| &self.words[self.shape().chain_at() / WORD + 1])
    }

    /// The item as it is counted when it is removed from `class`, where it counts for this many bytes.
    pub fn removed(&self, class: Option<ClassId>, bytes: u64, now: Seconds) -> Removed {
        Removed {
            class,
            bytes,
            is_fetched: self.header.state().has(ItemState::FETCHED),
            expires: self.expiry() != Expiry::Never,
            idle: Seconds(now.0.saturating_sub(self.header.last_access(now).0)),
        }
    }

    /// Whether the header says that a read was noted a moment before `now`.
    #[inline(always)]
    pub fn is_noted(&self, now: Seconds) -> bool {
        let noted = self.header.read_at(now);
        let age = (noted.0 >> ACCESS_SHIFT).wrapping_sub(self.header.0 >> ACCESS_SHIFT) & ACCESS_MASK;
        age < NOTED_FOR && noted.state() == self.header.state()
    }

    /// Notes a read at `now`, unless it is not the first and the header says that one was noted a moment ago.
    #[inline(always)]
    pub fn note_read(&self, now: Seconds) {
        if !self.is_noted(now) {
            // Relaxed: guards nothing. If the header has changed, the item has, or another reader noted its
            // own access; either way there is nothing left to note.
            let _ = self.words[0].compare_exchange(
                self.header.0,
                self.header.read_at(now).0,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    /// Notes that the item takes the place of a live one. No other session sees it yet.
    pub fn note_overwriting(&self) {
        self.store_header(self.header.overwriting());
    }

    /// Forgets that the item took the place of a live one, unless the header has changed meanwhile.
    pub fn forget_overwriting(&self) {
        let (old, new) = (self.header.0, self.header.0 & !OVERWROTE);
        // Relaxed: guards nothing, as in `note_read`.
        let _ = self.words[0].compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Stamps the item with a flush generation. The caller holds it or has announced it, and has found it alive after loading the generation. If its stamp is not
    /// the one that it was judged by, somebody has found it alive later, and that stays.
    pub fn stamp(&self, generation: u32) {
        let judged = self.header.generation();
        let stamp = |header| {
            let header = Header(header);
            let is_news = header.generation() == judged && judged != generation;
            is_news.then(|| header.with_generation(generation).0)
        };
        // Release: pairs with the Acquire fence of who judges the item by its stamp. If it has the stamp already, there is nothing to do.
        let _ = self.words[0].fetch_update(Ordering::Release, Ordering::Relaxed, stamp);
    }

    /// The words of the value in this chunk and where in them it begins, for writers.
    #[inline(always)]
    pub fn value_words(&self) -> (&'a [AtomicU64], usize) {
        let shape = self.shape();
        (&self.words[..shape.size().div_ceil(WORD)], shape.value_at())
    }

    /// Overwrites the header. The item is held by a writer.
    pub fn store_header(&self, header: Header) {
        words::store(&self.words[0], header.0);
    }

    /// Stores an expiry in place of `before`. False if the expiry is another one. The item has the field, and is announced: what lies beside the field
    /// does not change.
    pub fn replace_expiry(&self, before: Expiry, expiry: Expiry) -> bool {
        let at = self.shape().expiry_at();
        let (word, shift) = (&self.words[at / WORD], at % WORD * 8);
        let others = words::load(word) & !(u64::from(u32::MAX) << shift);
        let with = |expiry| others | u64::from(expiry_field(expiry)) << shift;
        // Relaxed: published by the link that is renewed after it.
        word.compare_exchange(with(before), with(expiry), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Overwrites the expiry, in one store, so that who reads it sees the one or the other. The item has the field, and its counters are
    /// held: what lies beside the field does not change.
    pub fn store_expiry(&self, expiry: Expiry) {
        let at = self.shape().expiry_at();
        let (word, shift) = (&self.words[at / WORD], at % WORD * 8);
        let others = words::load(word) & !(u64::from(u32::MAX) << shift);
        words::store(word, others | u64::from(expiry_field(expiry)) << shift);
    }

    /// Gives the item a cas unique if it has the field and none, in one operation, so that of several who do so at once all but one find it given. The item
    /// is announced. False if it has one.
    pub fn give_cas(&self, cas: u64) -> bool {
        // Relaxed: who reads it with the item's link as it was may see the one or the other.
        let word = &self.words[self.shape().cas_at() / WORD];
        word.compare_exchange(NO_CAS, cas, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Overwrites the cas unique. The item has the field, and its counters are held.
    pub fn store_cas(&self, cas: u64) {
        words::store(&self.words[self.shape().cas_at() / WORD], cas);
    }
}

/// What is needed to judge an item by its stamp: little enough to be passed in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamped<'a> {
    words: &'a [AtomicU64; WINDOW],
    header: Header,
}

impl<'a> Stamped<'a> {
    /// The flush generation, as it was when the item was looked up.
    pub(crate) fn generation(self) -> u32 {
        self.header.generation()
    }

    /// The same, as it is now.
    pub(crate) fn generation_now(self) -> u32 {
        Header(words::load(&self.words[0])).generation()
    }

    /// The key, where it lies.
    #[inline(always)]
    pub(crate) fn key(self) -> KeyWords<'a> {
        let shape = self.header.shape();
        KeyWords::new(self.words, shape.key_at(), usize::from(shape.key_len))
    }
}

/// What the field of the cas unique holds for an item that has the field and no unique.
const NO_CAS: u64 = 0;

/// What the expiry field holds for an item that has the field and no longer expires.
const NEVER: u32 = u32::MAX;

fn expiry_field(expiry: Expiry) -> u32 {
    match expiry {
        Expiry::Never => NEVER,
        Expiry::At(at) => at.0.min(NEVER - 1),
    }
}

impl ItemView for Item<'_> {
    #[inline(always)]
    fn value_len(&self) -> usize {
        self.total
    }

    #[inline(always)]
    fn flags(&self) -> u32 {
        if self.shape().fields.has(Fields::FLAGS) { self.four_bytes(self.shape().flags_at()) } else { 0 }
    }

    #[inline(always)]
    fn cas(&self) -> Option<u64> {
        if !self.shape().fields.has(Fields::CAS) {
            return None;
        }
        Some(words::load(&self.words[self.shape().cas_at() / WORD])).filter(|cas| *cas != NO_CAS)
    }

    #[inline(always)]
    fn state(&self) -> ItemState {
        self.header.state()
    }

    fn meta(&self) -> Meta {
        Meta {
            value_len: self.value_len(),
            flags: self.flags(),
            expiry: self.expiry(),
            cas: self.cas(),
            last_access: self.header.last_access(self.now),
            state: self.header.state(),
            // A torn length of a chain may be anything; it is not believed then.
            size: self.size_before_value().wrapping_add(self.value_len()),
            class: self.class,
        }
    }

    /// Of a chained item only what lies in its first chunk: the rest is read through a pin.
    #[inline(always)]
    fn copy_value(&self, from: usize, out: &mut [u8]) {
        let shape = self.shape();
        let length = (shape.value_len as usize).saturating_sub(from).min(out.len());
        words::copy_out(self.words, shape.value_at() + from, &mut out[..length]);
    }
}

/// Everything about a new item but its value's bytes.
#[derive(Clone, Copy, Debug)]
pub struct ItemHeaderSpec<'k> {
    pub key: &'k [u8],
    pub flags: u32,
    /// When it expires.
    pub expiry: Expiry,
    /// The cas unique, if it is to have one.
    pub cas: Option<u64>,
    /// Facts that hold from the start.
    pub state: ItemState,
    pub generation: u32,
    /// When it was last accessed: now, unless it takes the place of itself.
    pub accessed: Seconds,
}

impl<'k> ItemHeaderSpec<'k> {
    /// That of a new item, which is accessed now.
    #[inline(always)]
    pub fn of(key: &'k [u8], new: &NewItem<'_>, generation: u32, now: Seconds) -> Self {
        let NewItem { flags, expiry, cas, state, .. } = *new;
        ItemHeaderSpec { key, flags, expiry, cas, state, generation, accessed: now }
    }

    /// The fields that an item with these properties gets, beside those that it has in any case.
    #[inline(always)]
    pub fn fields(always: Fields, flags: u32, expiry: Expiry, cas: Option<u64>, value_len: usize) -> Fields {
        let mut fields = always;
        if flags != 0 {
            fields = fields.with(Fields::FLAGS);
        }
        if expiry != Expiry::Never || value_len >= EXPIRY_FROM {
            fields = fields.with(Fields::EXPIRY);
        }
        if cas.is_some() || value_len > INLINE_MAX {
            fields = fields.with(Fields::CAS);
        }
        fields
    }

    /// Writes everything but the value into the chunk at `at`, which the caller owns. Returns the item, to whose
    /// [`Item::value_words`] the value goes.
    ///
    /// # Panics
    /// If the item does not lie in the Region.
    #[inline(always)]
    pub fn write<'a>(
        &self,
        region: &'a Region,
        at: Offset,
        shape: Shape,
        chain: Option<Chain>,
        now: Seconds,
    ) -> Item<'a> {
        let words = region.window::<WINDOW>(at).expect("the chunk is inside the region");
        let header = Header::new(shape, self.state, self.generation, self.accessed);
        words::store(&words[0], header.0);
        if shape.fields.has(Fields::CAS) {
            words::store(&words[shape.cas_at() / WORD], self.cas.unwrap_or(NO_CAS));
        }
        if let Some(chain) = chain {
            words::store(&words[shape.chain_at() / WORD], chain.total as u64);
            words::store(&words[shape.chain_at() / WORD + 1], chain.next.bytes() as u64);
        }
        if shape.fields.has(Fields::EXPIRY) {
            words::copy_in(words, shape.expiry_at(), &expiry_field(self.expiry).to_le_bytes());
        }
        if shape.fields.has(Fields::FLAGS) {
            words::copy_in(words, shape.flags_at(), &self.flags.to_le_bytes());
        }
        words::copy_in(words, shape.key_at(), self.key);
        let total = chain.map_or(shape.value_len as usize, |chain| chain.total);
        Item { at, header, words, total, now, class: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_memory::HugePages;

    #[test]
    fn every_field_comes_back_for_every_choice_of_fields_and_length() {
        let region = Region::anonymous(BEHIND_CHUNKS + (1 << 20), HugePages::No).unwrap();
        let at = Offset::from_bytes(4096);
        for fields in 0..8u8 {
            for (key_len, value_len) in [(1, 0), (16, 32), (250, 7), (3, 300), (8, 4096)] {
                let key = vec![b'k'; key_len];
                let header_spec = ItemHeaderSpec {
                    key: &key,
                    flags: if fields & 1 != 0 { 0xdead_beef } else { 0 },
                    expiry: if fields & 2 != 0 { Expiry::At(Seconds(77)) } else { Expiry::Never },
                    cas: (fields & 4 != 0).then_some(u64::MAX - 1),
                    state: ItemState::STALE,
                    generation: 5,
                    accessed: Seconds(1000),
                };
                let shape = Shape { key_len: key_len as u8, value_len, fields: Fields(fields) };
                let usual = ItemHeaderSpec::fields(
                    Fields::default(),
                    header_spec.flags,
                    header_spec.expiry,
                    header_spec.cas,
                    value_len as usize,
                );
                let longs = if value_len < 1024 { Fields::default() } else { Fields::EXPIRY };
                assert_eq!(usual, shape.fields.with(longs));
                let written = header_spec.write(&region, at, shape, None, Seconds(1000));
                let value: Vec<u8> = (0..value_len).map(|i| i as u8).collect();
                let (words, start) = written.value_words();
                words::copy_in(words, start, &value);

                let item = Item::at(&region, at, Seconds(1010)).unwrap();
                assert!(item.key_is(&key) && !item.key_is(b"x"));
                let meta = item.meta();
                assert_eq!(
                    (meta.flags, meta.expiry, meta.cas),
                    (header_spec.flags, header_spec.expiry, header_spec.cas)
                );
                assert_eq!((meta.last_access, meta.state), (Seconds(1000), ItemState::STALE));
                assert_eq!(item.header.generation(), 5);
                let mut out = vec![0; value_len as usize];
                item.copy_value(0, &mut out);
                assert_eq!(out, value);
            }
        }
    }

    #[test]
    fn an_item_of_16_and_32_bytes_takes_56_and_with_flags_and_expiry_64() {
        let shape = Shape { key_len: 16, value_len: 32, fields: Fields(0) };
        assert_eq!(shape.size(), 56);
        assert_eq!(Shape { fields: Fields::FLAGS.with(Fields::EXPIRY), ..shape }.size(), 64);
    }

    #[test]
    fn long_values_can_get_a_time_and_a_unique_where_they_lie() {
        let fields = |length| ItemHeaderSpec::fields(Fields::default(), 0, Expiry::Never, None, length);
        assert_eq!(fields(EXPIRY_FROM - 1), Fields::default());
        assert_eq!((fields(EXPIRY_FROM), fields(INLINE_MAX)), (Fields::EXPIRY, Fields::EXPIRY));
        assert_eq!(fields(INLINE_MAX + 1), Fields::EXPIRY.with(Fields::CAS));
    }

    #[test]
    fn a_read_is_noted_once_and_not_in_an_item_that_has_changed() {
        let region = Region::anonymous(BEHIND_CHUNKS + (1 << 20), HugePages::No).unwrap();
        let at = Offset::from_bytes(64);
        let header_spec = |accessed| ItemHeaderSpec {
            key: b"k",
            flags: 0,
            expiry: Expiry::Never,
            cas: None,
            state: ItemState::NONE,
            generation: 0,
            accessed: Seconds(accessed),
        };
        let shape = Shape { key_len: 1, value_len: 3, fields: Fields(0) };
        header_spec(5).write(&region, at, shape, None, Seconds(5));
        let found = Item::at(&region, at, Seconds(9)).unwrap();
        found.note_read(Seconds(9));
        let after = Item::at(&region, at, Seconds(9)).unwrap();
        assert_eq!(
            (after.header.last_access(Seconds(9)), after.header.state()),
            (Seconds(9), ItemState::FETCHED)
        );
        for (read, told) in [(Seconds(16), Seconds(9)), (Seconds(17), Seconds(17))] {
            Item::at(&region, at, read).unwrap().note_read(read);
            assert_eq!(Item::at(&region, at, read).unwrap().header.last_access(read), told);
        }
        header_spec(6).write(&region, at, Shape { value_len: 4, ..shape }, None, Seconds(6));
        found.note_read(Seconds(10));
        assert_eq!(Item::at(&region, at, Seconds(10)).unwrap().header.last_access(Seconds(10)), Seconds(6));
    }

    #[test]
    fn last_access_is_exact_across_the_wrap_of_its_bits() {
        let header = Header(0).accessed(Seconds((1 << ACCESS_BITS) - 3));
        assert_eq!(header.last_access(Seconds((1 << ACCESS_BITS) + 4)), Seconds((1 << ACCESS_BITS) - 3));
    }
}
