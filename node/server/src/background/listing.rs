//! The formats of item lists: `lru_crawler metadump` and `mgdump`, `stats sizes` and `stats
//! cachedump`.

use guira_contract::{Expiry, ItemState, WalkedItem};
use guira_protocol::{encode_key, fits_in_text};
use guira_sync::clock::CoarseClock;
use std::collections::BTreeMap;
use std::io::Write as _;

/// Which slab classes are meant, by their numbers from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassFilter([u64; 4]);

impl ClassFilter {
    pub(crate) const ALL: Self = ClassFilter([u64::MAX; 4]);

    /// Reads `all`, `hash` or a list of numbers: `1,5,6`. As in memcached, commas that separate nothing are passed over.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "all" || text == "hash" {
            return Some(Self::ALL);
        }
        let mut filter = ClassFilter([0; 4]);
        for number in text.split(',').filter(|number| !number.is_empty()) {
            let class: u8 = number.parse().ok().filter(|class| *class > 0)?;
            filter.0[usize::from(class / 64)] |= 1 << (class % 64);
        }
        (filter != ClassFilter([0; 4])).then_some(filter)
    }

    fn has(self, class: u8) -> bool {
        self.0[usize::from(class / 64)] & 1 << (class % 64) != 0
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    /// A line of facts for each.
    Meta(ClassFilter),
    MetaGet(ClassFilter),
    /// How many there are of each size, in steps of 32 bytes.
    Sizes,
    /// Keys, sizes and times of a class, this many at most.
    Cachedump {
        class: u8,
        /// How many; 0 for as many as fit.
        limit: u32,
    },
}

/// `stats cachedump` answers no more than this, in bytes, as in memcached.
const CACHEDUMP_MAX: usize = 2 << 20;
/// The step of `stats sizes`.
const SIZE_STEP: usize = 32;

#[derive(Debug)]
pub(crate) struct ListWriter {
    listing: Listing,
    base_unix: u64,
    sizes: BTreeMap<usize, u64>,
    listed: u32,
    bytes: usize,
}

impl ListWriter {
    pub(crate) fn new(listing: Listing, clock: &CoarseClock) -> Self {
        ListWriter { listing, base_unix: clock.base_unix(), sizes: BTreeMap::new(), listed: 0, bytes: 0 }
    }

    /// Writes what comes at the beginning.
    pub(crate) fn begin(&self, out: &mut Vec<u8>) {
        if matches!(self.listing, Listing::Meta(_) | Listing::MetaGet(_)) {
            out.extend(b"OK\r\n");
        }
    }

    pub(crate) fn item(&mut self, item: &WalkedItem<'_>, out: &mut Vec<u8>) {
        // Hidden items count only for sizes: a get does not find their keys.
        if item.meta.state.has(ItemState::HIDDEN) && !matches!(self.listing, Listing::Sizes) {
            return;
        }
        match self.listing {
            Listing::Meta(filter) if filter.has(item.meta.class) => self.meta(item, out),
            Listing::MetaGet(filter) if filter.has(item.meta.class) => {
                if item.meta.state.has(ItemState::BINARY_KEY) || !fits_in_text(item.key) {
                    let mut buffer = [0; 336];
                    out.extend([&b"mg "[..], encode_key(item.key, &mut buffer), b" b\r\n"].concat());
                } else {
                    out.extend([&b"mg "[..], item.key, b"\r\n"].concat());
                }
            }
            Listing::Sizes => {
                *self.sizes.entry(item.meta.size.div_ceil(SIZE_STEP) * SIZE_STEP).or_insert(0) += 1;
            }
            // The format cannot show a key that does not fit in text, so such keys are left out.
            Listing::Cachedump { class, limit }
                if class == dumped_with(item.meta.class)
                    && (limit == 0 || self.listed < limit)
                    && fits_in_text(item.key) =>
            {
                self.cachedump(item, out);
            }
            _ => {}
        }
    }

    fn unix(&self, expiry: Expiry, never: i64) -> i64 {
        match expiry {
            Expiry::Never => never,
            Expiry::At(at) => (self.base_unix + u64::from(at.0)) as i64,
        }
    }

    fn meta(&self, item: &WalkedItem<'_>, out: &mut Vec<u8>) {
        let meta = &item.meta;
        let fetched = if meta.state.has(ItemState::FETCHED) { "yes" } else { "no" };
        out.extend(b"key=");
        push_encoded(item.key, out);
        // The blank before the end of the line is memcached's.
        let _ = writeln!(
            out,
            " exp={} la={} cas={} fetch={fetched} cls={} size={} flags={} ",
            self.unix(meta.expiry, -1),
            self.base_unix + u64::from(meta.last_access.0),
            meta.cas.unwrap_or(0),
            meta.class,
            meta.size,
            meta.flags,
        );
    }

    fn cachedump(&mut self, item: &WalkedItem<'_>, out: &mut Vec<u8>) {
        let before = out.len();
        let time = self.unix(item.meta.expiry, 0);
        out.extend(b"ITEM ");
        out.extend(item.key);
        let _ = write!(out, " [{} b; {time} s]\r\n", item.meta.value_len);
        let length = out.len() - before;
        if self.bytes + length > CACHEDUMP_MAX {
            out.truncate(before);
        } else {
            self.bytes += length;
            self.listed += 1;
        }
    }

    /// Writes what comes at the end.
    pub(crate) fn end(&self, out: &mut Vec<u8>) {
        for (size, count) in &self.sizes {
            let _ = write!(out, "STAT {size} {count}\r\n");
        }
        out.extend(if matches!(self.listing, Listing::MetaGet(_)) { &b"EN\r\n"[..] } else { b"END\r\n" });
    }
}

/// The last class that can be dumped. memcached has no more classes, and clients that want all
/// classes request these …
pub(crate) const LAST_DUMPED: u8 = 63;

/// … so that an item of a later class is dumped with the last one.
fn dumped_with(class: u8) -> u8 {
    class.min(LAST_DUMPED)
}

/// Appends a key as in a URI: everything but letters, digits and `-._~` as `%XX`.
pub(crate) fn push_encoded(key: &[u8], out: &mut Vec<u8>) {
    for byte in key {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_contract::Meta;
    use guira_sync::clock::Seconds;

    fn meta(class: u8, size: usize) -> Meta {
        Meta {
            value_len: 5,
            flags: 7,
            expiry: Expiry::At(Seconds(102)),
            cas: Some(101),
            last_access: Seconds(2),
            state: ItemState::FETCHED,
            size,
            class,
        }
    }

    fn list(listing: Listing, items: &[(&[u8], Meta)]) -> String {
        let mut writer = ListWriter::new(listing, &CoarseClock::manual(1_000_002));
        let mut out = Vec::new();
        writer.begin(&mut out);
        for (key, meta) in items {
            writer.item(&WalkedItem { key, meta: *meta }, &mut out);
        }
        writer.end(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_metadump_has_a_line_of_facts_for_each_item() {
        let text = list(Listing::Meta(ClassFilter::ALL), &[(b"a b/\xff", meta(3, 64))]);
        assert_eq!(
            text,
            "OK\r\nkey=a%20b%2F%FF exp=1000102 la=1000002 cas=101 fetch=yes cls=3 size=64 flags=7 \nEND\r\n"
        );
        let plain = Meta { expiry: Expiry::Never, cas: None, state: ItemState::NONE, ..meta(3, 64) };
        let text = list(Listing::Meta(ClassFilter::ALL), &[(b"k", plain)]);
        assert_eq!(text, "OK\r\nkey=k exp=-1 la=1000002 cas=0 fetch=no cls=3 size=64 flags=7 \nEND\r\n");
    }

    #[test]
    fn an_mgdump_has_a_get_for_each_item() {
        let binary = Meta { state: ItemState::BINARY_KEY, ..meta(1, 24) };
        let text = list(Listing::MetaGet(ClassFilter::ALL), &[(b"k", meta(1, 24)), (b"\0\0\0", binary)]);
        assert_eq!(text, "OK\r\nmg k\r\nmg AAAA b\r\nEN\r\n");
    }

    #[test]
    fn a_key_that_does_not_fit_in_text_breaks_no_line() {
        // By the binary protocol, which takes any bytes: no mark says that the key is binary.
        let items: [(&[u8], Meta); 2] = [(b"a\nb", meta(1, 24)), (b"a b", meta(1, 24))];
        assert_eq!(
            list(Listing::MetaGet(ClassFilter::ALL), &items),
            "OK\r\nmg YQpi b\r\nmg YSBi b\r\nEN\r\n"
        );
        assert_eq!(list(Listing::Cachedump { class: 1, limit: 0 }, &items), "END\r\n");
    }

    #[test]
    fn classes_are_chosen_by_their_numbers() {
        let items: [(&[u8], Meta); 3] = [(b"a", meta(1, 24)), (b"b", meta(64, 24)), (b"c", meta(200, 24))];
        let filter = ClassFilter::parse("1,200").unwrap();
        assert_eq!(list(Listing::MetaGet(filter), &items), "OK\r\nmg a\r\nmg c\r\nEN\r\n");
        assert_eq!(ClassFilter::parse("all"), Some(ClassFilter::ALL));
        assert_eq!(ClassFilter::parse("hash"), Some(ClassFilter::ALL));
        assert_eq!(ClassFilter::parse(",1,,200,"), Some(filter));
        for text in ["", ",", "0", "x", "1,999", "-1"] {
            assert_eq!(ClassFilter::parse(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_counted_in_steps_of_32_bytes() {
        let items: [(&[u8], Meta); 3] = [(b"a", meta(1, 24)), (b"b", meta(1, 32)), (b"c", meta(1, 33))];
        assert_eq!(list(Listing::Sizes, &items), "STAT 32 2\r\nSTAT 64 1\r\nEND\r\n");
    }

    #[test]
    fn a_cachedump_ends_at_its_limit() {
        let items: [(&[u8], Meta); 3] = [(b"a", meta(1, 24)), (b"b", meta(2, 32)), (b"c", meta(1, 33))];
        let dump = |limit| list(Listing::Cachedump { class: 1, limit }, &items);
        assert_eq!(dump(1), "ITEM a [5 b; 1000102 s]\r\nEND\r\n");
        let high: [(&[u8], Meta); 1] = [(b"h", meta(140, 24))];
        let last = Listing::Cachedump { class: 63, limit: 0 };
        assert_eq!(list(last, &high), "ITEM h [5 b; 1000102 s]\r\nEND\r\n", "clients know no higher class");
        assert_eq!(dump(0), "ITEM a [5 b; 1000102 s]\r\nITEM c [5 b; 1000102 s]\r\nEND\r\n");
    }
}
