//! How an item lies in the store.
//!
//! ```text
//! | anchor 8 | header 8 | cas 8 | expiry 4 | flags 4 | key | value |
//!                        ---- only what the item uses ----
//!
//! anchor:  63..35    where in the index the key belongs: the bits of its hash that name the bucket
//!          34..32    flush generation
//!          31..29    fields: cas, expiry, flags
//!          28        dead: no longer in the index
//!          27, 26    in segregated fits: free; behind a free chunk. In a log 27: used, kept when the head comes by
//!          24..0     room taken in the log, in words
//! header:  63..59    facts: hidden, binary key, token sent, stale, fetched
//!          58..36    last access, in seconds of the coarse clock, modulo 2^23
//!          35..8     length of the value
//!          7..0      length of the key
//! ```
//!
//! The paper's entry has the initial size, both lengths, the expiry and the whole hash (section 4.3.1). The initial size leads to the
//! next entry. Of the hash, the part that finds the bucket is enough: the offset identifies the slot.

use guira_contract::{Expiry, ItemState, ItemView, Meta};
use guira_items::{Fields, GENERATIONS, KeyWords, NOTED_FOR};
use guira_memory::{Offset, Region};
use guira_sync::atomic::{AtomicU64, Ordering, fence};
use guira_sync::clock::Seconds;
use guira_sync::words::{self, WORD};

/// The number of the class that all items are shown under.
pub(crate) const ONE_CLASS: u8 = 1;

/// The first word of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor(u64);

const UNITS_BITS: u32 = 25;
const DEAD: u64 = 1 << 28;
const FIELDS_SHIFT: u32 = 29;
const HASH_SHIFT: u32 = 32;
/// The bits of a hash that say where in the index a key belongs. 29 tell more buckets apart than a partition has.
pub(crate) const PLACE_MASK: u32 = !(GENERATIONS - 1);
const GENERATION_MASK: u64 = (GENERATIONS as u64 - 1) << HASH_SHIFT;

const FREE: u64 = 1 << 27;
/// The chunk before it is free.
const AFTER_FREE: u64 = 1 << 26;
/// In a log: the item was used, and is kept once when the head comes by.
const USED: u64 = 1 << 27;
/// What an anchor says of the room, whatever lies in it.
const KEPT: u64 = UNITS_MAX as u64 | AFTER_FREE;

/// The most words that an entry can take.
pub(crate) const UNITS_MAX: usize = (1 << UNITS_BITS) - 1;

impl Anchor {
    /// The anchor of empty room of `units` words.
    #[inline(always)]
    pub(crate) fn room_of(units: usize) -> Self {
        Anchor(units as u64)
    }

    /// The anchor of a free chunk of `units` words in the place of this one.
    pub(crate) fn free(self, units: usize) -> Self {
        Anchor(units as u64 | self.0 & AFTER_FREE | FREE | DEAD)
    }

    /// The anchor of a chunk in use of `units` words in the place of this one.
    pub(crate) fn in_use(self, units: usize) -> Self {
        Anchor(units as u64 | self.0 & AFTER_FREE)
    }

    /// The same, behind a free chunk.
    pub(crate) fn after_free(self) -> Self {
        Anchor(self.0 | AFTER_FREE)
    }

    /// The same, behind a chunk in use.
    pub(crate) fn after_used(self) -> Self {
        Anchor(self.0 & !AFTER_FREE)
    }

    pub(crate) fn is_free(self) -> bool {
        self.0 & FREE != 0
    }

    /// Whether the chunk before it is free.
    pub(crate) fn is_after_free(self) -> bool {
        self.0 & AFTER_FREE != 0
    }

    /// The same, with an item in the room.
    #[inline(always)]
    fn taken_by(self, fields: Fields, place: u32, generation: u32) -> Self {
        let kept = self.0 & KEPT;
        Anchor(kept | u64::from(fields.0 & 7) << FIELDS_SHIFT | u64::from(place | generation) << HASH_SHIFT)
    }

    /// The same for an item without a noted use, in room of `units` words.
    pub(crate) fn moved_to(self, units: usize) -> Self {
        Anchor(self.0 & !(UNITS_MAX as u64 | USED) | units as u64)
    }

    /// The anchor of room that could not be used.
    pub(crate) fn hole(units: usize) -> Self {
        Anchor(units as u64 | DEAD)
    }

    /// Room taken, in words.
    pub(crate) fn units(self) -> usize {
        (self.0 & UNITS_MAX as u64) as usize
    }

    /// Whether no slot leads to it.
    pub(crate) fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }

    /// The place of the key in the index.
    pub(crate) fn place(self) -> u32 {
        (self.0 >> HASH_SHIFT) as u32 & PLACE_MASK
    }

    /// The flush generation that the item was stored in.
    fn generation(self) -> u32 {
        (self.0 >> HASH_SHIFT) as u32 & !PLACE_MASK
    }

    fn fields(self) -> Fields {
        Fields((self.0 >> FIELDS_SHIFT) as u8 & 7)
    }

    pub(crate) fn load(region: &Region, at: Offset) -> Self {
        Anchor(words::load(region.word(at)))
    }

    pub(crate) fn store(self, region: &Region, at: Offset) {
        words::store(region.word(at), self.0);
    }

    /// Notes that no slot leads to the entry at `at` any more. The caller holds the partition.
    pub(crate) fn bury(region: &Region, at: Offset) {
        Anchor(Self::load(region, at).0 | DEAD).store(region, at);
    }
}

/// The second word of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header(u64);

const VALUE_SHIFT: u32 = 8;
const VALUE_BITS: u32 = 28;
const ACCESS_SHIFT: u32 = 36;
const ACCESS_BITS: u32 = 23;
const ACCESS_MASK: u64 = (1 << ACCESS_BITS) - 1;
const STATE_SHIFT: u32 = 59;

// The fields of the header lie next to each other.
const _: () = assert!(VALUE_SHIFT + VALUE_BITS == ACCESS_SHIFT && ACCESS_SHIFT + ACCESS_BITS == STATE_SHIFT);
const _: () = assert!(STATE_SHIFT + ItemState::BITS == u64::BITS);
// The length of a value fits where its room does.
const _: () = assert!(UNITS_BITS + 3 == VALUE_BITS);

impl Header {
    #[inline(always)]
    fn new(shape: Shape, state: ItemState, now: Seconds) -> Self {
        let lengths = shape.key_len as u64 | (shape.value_len as u64) << VALUE_SHIFT;
        Header(lengths).with_state(state).accessed(now)
    }

    fn key_len(self) -> usize {
        usize::from(self.0 as u8)
    }

    fn value_len(self) -> usize {
        (self.0 >> VALUE_SHIFT) as usize & ((1 << VALUE_BITS) - 1)
    }

    pub(crate) fn state(self) -> ItemState {
        ItemState((self.0 >> STATE_SHIFT) as u8)
    }

    pub(crate) fn with_state(self, state: ItemState) -> Self {
        Header(self.0 & !(u64::from(ItemState::ALL.0) << STATE_SHIFT) | u64::from(state.0) << STATE_SHIFT)
    }

    fn accessed(self, now: Seconds) -> Self {
        Header(self.0 & !(ACCESS_MASK << ACCESS_SHIFT) | (u64::from(now.0) & ACCESS_MASK) << ACCESS_SHIFT)
    }

    /// The header after a read at `now`.
    pub(crate) fn read_at(self, now: Seconds) -> Self {
        self.accessed(now).with_state(self.state().with(ItemState::FETCHED))
    }

    /// Whether a read was noted shortly before `now`.
    #[inline(always)]
    pub(crate) fn is_noted(self, now: Seconds) -> bool {
        let age = u64::from(now.0).wrapping_sub(self.0 >> ACCESS_SHIFT) & ACCESS_MASK;
        age < NOTED_FOR && self.state().has(ItemState::FETCHED)
    }

    /// When the item was last accessed. Exact for accesses of the last 97 days, which is as far as 23 bits reach.
    pub(crate) fn last_access(self, now: Seconds) -> Seconds {
        let age = u64::from(now.0).wrapping_sub(self.0 >> ACCESS_SHIFT) & ACCESS_MASK;
        Seconds(now.0.saturating_sub(age as u32))
    }
}

/// Lengths and fields: they determine where the parts of an item lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    key_len: usize,
    value_len: usize,
    fields: Fields,
}

const CAS_AT: usize = 2 * WORD;

/// The most bytes of an entry that are neither key nor value.
pub(crate) const ENTRY_MAX: usize = CAS_AT + 8 + 4 + 4 + WORD;

/// Where the key begins, for each set of fields.
const KEY_AT: [u8; 8] = {
    let mut all = [0; 8];
    let mut fields = 0;
    while fields < 8 {
        let shape = Shape { key_len: 0, value_len: 0, fields: Fields(fields) };
        all[fields as usize] = (shape.flags_at() + if fields & Fields::FLAGS.0 != 0 { 4 } else { 0 }) as u8;
        fields += 1;
    }
    all
};

impl Shape {
    #[inline(always)]
    fn of(anchor: Anchor, header: Header) -> Self {
        Shape { key_len: header.key_len(), value_len: header.value_len(), fields: anchor.fields() }
    }

    const fn expiry_at(self) -> usize {
        CAS_AT + if self.fields.has(Fields::CAS) { 8 } else { 0 }
    }

    const fn flags_at(self) -> usize {
        self.expiry_at() + if self.fields.has(Fields::EXPIRY) { 4 } else { 0 }
    }

    #[inline(always)]
    fn key_at(self) -> usize {
        usize::from(KEY_AT[usize::from(self.fields.0 & 7)])
    }

    /// Where the value begins, in bytes from the start of the entry.
    #[inline(always)]
    pub(crate) fn value_at(self) -> usize {
        self.key_at() + self.key_len
    }

    /// Bytes of the entry.
    #[inline(always)]
    pub(crate) fn size(self) -> usize {
        self.value_at() + self.value_len
    }

    #[inline(always)]
    pub(crate) fn units(self) -> usize {
        self.size().div_ceil(WORD)
    }
}

/// An item in the store, found by a reader or a writer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    words: &'a [AtomicU64],
    anchor: Anchor,
    header: Header,
    now: Seconds,
}

impl<'a> Entry<'a> {
    /// The item at `at`, as its first words describe it now. `None` if there can be no such item: a racy read.
    #[inline(always)]
    pub(crate) fn at(region: &'a Region, at: Offset, now: Seconds) -> Option<Self> {
        let [anchor, header] = region.window::<2>(at)?;
        let (anchor, header) = (Anchor(words::load(anchor)), Header(words::load(header)));
        let words = region.words(at, Shape::of(anchor, header).units())?;
        Some(Entry { words, anchor, header, now })
    }

    #[inline(always)]
    fn shape(&self) -> Shape {
        Shape::of(self.anchor, self.header)
    }

    #[inline(always)]
    pub(crate) fn words(&self) -> &'a [AtomicU64] {
        self.words
    }

    /// Its room, in words.
    pub(crate) fn room(&self) -> usize {
        self.anchor.units()
    }

    /// Whether its room suits an item of `units` words. A value that becomes much shorter does not keep its room.
    #[inline(always)]
    pub(crate) fn suits(&self, units: usize) -> bool {
        units <= self.room() && self.room() <= 2 * units + 8
    }

    pub(crate) fn units(&self) -> usize {
        self.shape().units()
    }

    pub(crate) fn anchor(&self) -> Anchor {
        self.anchor
    }

    /// Whether a use is noted: then it is kept when the head of its log comes by.
    #[inline(always)]
    pub(crate) fn is_used(&self) -> bool {
        self.anchor.0 & USED != 0
    }

    /// Notes a use. The caller holds the partition. Readers may see the word before or after: nothing that they rely on changes.
    pub(crate) fn note_use(&self) {
        words::store(&self.words[0], self.anchor.0 | USED);
    }

    /// The flush generation that it was stored in.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u32 {
        self.anchor.generation()
    }

    /// Stamps it with a flush generation. The caller holds the partition.
    pub(crate) fn stamp(&self, generation: u32) {
        // Release fence: pairs with the Acquire fence of who judges the item by its stamp.
        fence(Ordering::Release);
        words::store(&self.words[0], self.anchor.0 & !GENERATION_MASK | u64::from(generation) << HASH_SHIFT);
    }

    pub(crate) fn place(&self) -> u32 {
        self.anchor.place()
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> Header {
        self.header
    }

    /// Its length in bytes.
    pub(crate) fn size(&self) -> usize {
        self.shape().size()
    }

    pub(crate) fn fields(&self) -> Fields {
        self.anchor.fields()
    }

    #[inline(always)]
    pub(crate) fn key_is(&self, key: &[u8]) -> bool {
        self.header.key_len() == key.len() && words::equal(self.words, self.shape().key_at(), key)
    }

    /// Copies the key and returns it.
    pub(crate) fn key<'b>(&self, buffer: &'b mut [u8; 256]) -> &'b [u8] {
        self.stamped().key().copied(buffer)
    }

    /// What is needed to judge it by its stamp.
    #[inline(always)]
    pub(crate) fn stamped(&self) -> Stamped<'a> {
        Stamped { words: self.words, anchor: self.anchor, header: self.header }
    }

    fn four_bytes(&self, at: usize) -> u32 {
        (words::load(&self.words[at / WORD]) >> (at % WORD * 8)) as u32
    }

    #[inline(always)]
    pub(crate) fn expiry(&self) -> Expiry {
        if !self.anchor.fields().has(Fields::EXPIRY) {
            return Expiry::Never;
        }
        match self.four_bytes(self.shape().expiry_at()) {
            NEVER => Expiry::Never,
            at => Expiry::At(Seconds(at)),
        }
    }

    /// Where the value begins, in bytes from the start of the entry.
    pub(crate) fn value_at(&self) -> usize {
        self.shape().value_at()
    }

    /// Whether an item of this shape has the same fields, and its key where this one has it.
    #[inline(always)]
    pub(crate) fn has_fields_of(&self, shape: Shape) -> bool {
        self.anchor.fields() == shape.fields
    }

    /// Overwrites the header. The caller holds the partition.
    pub(crate) fn store_header(&self, header: Header) {
        words::store(&self.words[1], header.0);
    }

    /// Overwrites the expiry, if it has the field. The caller holds the partition, and the bucket's version is odd.
    pub(crate) fn store_expiry(&self, expiry: Expiry) {
        let at = self.shape().expiry_at();
        words::copy_in(self.words, at, &expiry_field(expiry).to_le_bytes());
    }

    /// Overwrites the cas unique, if it has the field. As above.
    pub(crate) fn store_cas(&self, cas: u64) {
        words::store(&self.words[CAS_AT / WORD], cas);
    }

    /// Overwrites the value from its start. As above.
    pub(crate) fn store_value(&self, bytes: &[u8]) {
        words::copy_in(self.words, self.shape().value_at(), bytes);
    }
}

/// What is needed to judge an entry by its stamp: little enough to be passed in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamped<'a> {
    words: &'a [AtomicU64],
    anchor: Anchor,
    header: Header,
}

impl<'a> Stamped<'a> {
    /// The flush generation, as it was when the entry was looked up.
    pub(crate) fn generation(self) -> u32 {
        self.anchor.generation()
    }

    /// The same, as it is now.
    pub(crate) fn generation_now(self) -> u32 {
        Anchor(words::load(&self.words[0])).generation()
    }

    /// The key, where it lies.
    #[inline(always)]
    pub(crate) fn key(self) -> KeyWords<'a> {
        KeyWords::new(self.words, Shape::of(self.anchor, self.header).key_at(), self.header.key_len())
    }
}

/// The field of an item without a cas unique.
const NO_CAS: u64 = 0;

/// The field of an item that does not expire.
const NEVER: u32 = u32::MAX;

fn expiry_field(expiry: Expiry) -> u32 {
    match expiry {
        Expiry::Never => NEVER,
        Expiry::At(at) => at.0.min(NEVER - 1),
    }
}

impl ItemView for Entry<'_> {
    #[inline(always)]
    fn value_len(&self) -> usize {
        self.header.value_len()
    }

    #[inline(always)]
    fn flags(&self) -> u32 {
        if self.anchor.fields().has(Fields::FLAGS) { self.four_bytes(self.shape().flags_at()) } else { 0 }
    }

    #[inline(always)]
    fn cas(&self) -> Option<u64> {
        if !self.anchor.fields().has(Fields::CAS) {
            return None;
        }
        Some(words::load(&self.words[CAS_AT / WORD])).filter(|cas| *cas != NO_CAS)
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
            size: self.size(),
            // Tools expect one.
            class: ONE_CLASS,
        }
    }

    #[inline(always)]
    fn copy_value(&self, from: usize, out: &mut [u8]) {
        let length = self.header.value_len().saturating_sub(from).min(out.len());
        words::copy_out(self.words, self.shape().value_at() + from, &mut out[..length]);
    }
}

/// A new item without its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemHeaderSpec<'k> {
    pub(crate) key: &'k [u8],
    pub(crate) place: u32,
    pub(crate) generation: u32,
    pub(crate) flags: u32,
    pub(crate) expiry: Expiry,
    pub(crate) cas: Option<u64>,
    pub(crate) state: ItemState,
    /// When it was last accessed: now, unless it is rebuilt.
    pub(crate) accessed: Seconds,
    /// Fields that every item has.
    pub(crate) always: Fields,
}

impl ItemHeaderSpec<'_> {
    /// Its shape with a value of `value_len` bytes.
    #[inline(always)]
    pub(crate) fn shape(&self, value_len: usize) -> Shape {
        let of = guira_items::ItemHeaderSpec::fields;
        let fields = of(self.always, self.flags, self.expiry, self.cas, value_len);
        Shape { key_len: self.key.len(), value_len, fields }
    }

    /// Writes everything but key and value over an item of the same key with the same fields. The caller holds the partition, and the bucket is open
    /// unless no other session reads.
    #[inline(always)]
    pub(crate) fn write_over(self, words: &[AtomicU64], shape: Shape) {
        words::store(&words[1], Header::new(shape, self.state, self.accessed).0);
        if shape.fields.0 != 0 {
            self.write_fields(words, shape);
        }
    }

    #[cold]
    fn write_fields(self, words: &[AtomicU64], shape: Shape) {
        if shape.fields.has(Fields::CAS) {
            words::store(&words[CAS_AT / WORD], self.cas.unwrap_or(NO_CAS));
        }
        if shape.fields.has(Fields::EXPIRY) {
            words::copy_in(words, shape.expiry_at(), &expiry_field(self.expiry).to_le_bytes());
        }
        if shape.fields.has(Fields::FLAGS) {
            words::copy_in(words, shape.flags_at(), &self.flags.to_le_bytes());
        }
    }

    /// Writes everything but the value at `at`, in the room that `anchor` describes. Returns the words of the item. The caller holds the
    /// partition.
    ///
    /// # Panics
    /// If it does not lie in the Region.
    #[inline]
    pub(crate) fn write<'a>(
        &self,
        region: &'a Region,
        at: Offset,
        shape: Shape,
        anchor: Anchor,
    ) -> &'a [AtomicU64] {
        let words = region.words(at, shape.units()).expect("the log is inside the region");
        words::store(&words[0], anchor.taken_by(shape.fields, self.place, self.generation).0);
        words::store(&words[1], Header::new(shape, self.state, self.accessed).0);
        if shape.fields.0 != 0 {
            self.write_fields(words, shape);
        }
        words::copy_in(words, shape.key_at(), self.key);
        words
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;
    use guira_memory::HugePages;

    #[test]
    fn what_was_written_is_read_with_any_fields_and_lengths() {
        let region = Region::anonymous(2 << 20, HugePages::No).unwrap();
        for (flags, expiry, cas) in [
            (0, Expiry::Never, None),
            (7, Expiry::Never, None),
            (0, Expiry::At(Seconds(9)), Some(5)),
            (u32::MAX, Expiry::At(Seconds(3)), Some(u64::MAX)),
        ] {
            for (key_len, value_len) in [(1, 0), (8, 8), (16, 32), (250, 1025), (3, 77_777)] {
                let (key, at) = (vec![b'k'; key_len], Offset::from_bytes(4096));
                let state = ItemState::STALE;
                let header_spec = ItemHeaderSpec {
                    key: &key,
                    place: 0xdead_bee8,
                    generation: 5,
                    flags,
                    expiry,
                    cas,
                    state,
                    accessed: Seconds(4),
                    always: Fields::default(),
                };
                let shape = header_spec.shape(value_len);
                let value: Vec<u8> = (0..value_len).map(|at| at as u8).collect();
                let words = header_spec.write(&region, at, shape, Anchor::room_of(shape.units() + 2));
                words::copy_in(words, shape.value_at(), &value);
                let entry = Entry::at(&region, at, Seconds(6)).unwrap();
                let meta = entry.meta();
                assert_eq!((meta.flags, meta.expiry, meta.cas, meta.state), (flags, expiry, cas, state));
                assert_eq!((meta.value_len, meta.last_access), (value_len, Seconds(4)));
                assert_eq!((entry.place(), entry.room()), (0xdead_bee8, shape.units() + 2));
                assert!(entry.key_is(&key) && !entry.key_is(b"other") && entry.key(&mut [0; 256]) == key);
                let mut read = vec![0; value_len];
                entry.copy_value(0, &mut read);
                assert_eq!(read, value);
                Anchor::bury(&region, at);
                assert!(Anchor::load(&region, at).is_dead() && Entry::at(&region, at, Seconds(6)).is_some());
            }
        }
    }

    #[test]
    fn a_tiny_item_takes_32_bytes_and_one_of_16_and_32_takes_64() {
        let header_spec = |key| ItemHeaderSpec {
            key,
            generation: 0,
            place: 0,
            flags: 0,
            expiry: Expiry::Never,
            cas: None,
            state: ItemState::NONE,
            accessed: Seconds(0),
            always: Fields::default(),
        };
        assert_eq!(header_spec(&[0; 8]).shape(8).size(), 32);
        assert_eq!(header_spec(&[0; 16]).shape(32).size(), 64);
    }
}
