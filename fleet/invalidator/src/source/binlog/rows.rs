//! Row events: the images of changed rows.

use super::compressed::{Flaw, inflate};
use super::event::kind;
use super::table::Table;
use crate::source::Value;
use guira_sql::{Bytes, bit};

/// The table number of an event that only ends a statement, unless a table has this number.
const NO_TABLE: u64 = 0xff_ffff;

/// The head of a row event, and the rest of its body.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowEvent<'a> {
    kind: u8,
    is_compressed: bool,
    pub(super) table: u64,
    rest: Bytes<'a>,
}

impl<'a> RowEvent<'a> {
    pub(super) fn read(kind: u8, body: &'a [u8]) -> Option<Self> {
        let (kind, is_compressed) = match kind {
            kind::WRITE_ROWS_COMPRESSED_1..=kind::DELETE_ROWS_COMPRESSED_1 => {
                (kind - kind::WRITE_ROWS_COMPRESSED_1 + kind::WRITE_ROWS_1, true)
            }
            kind::WRITE_ROWS_COMPRESSED_2..=kind::DELETE_ROWS_COMPRESSED_2 => {
                (kind - kind::WRITE_ROWS_COMPRESSED_2 + kind::WRITE_ROWS_2, true)
            }
            plain => (plain, false),
        };
        let mut rest = Bytes(body);
        let table = rest.number(6)?;
        let _flags = rest.u16()?;
        if matches!(kind, kind::WRITE_ROWS_2..=kind::DELETE_ROWS_2 | kind::PARTIAL_UPDATE_ROWS) {
            // Extra data, whose length includes the length field.
            let length = usize::from(rest.u16()?);
            rest.take(length.checked_sub(2)?)?;
        }
        Some(RowEvent { kind, is_compressed, table, rest })
    }

    /// Whether the event may refer to no table.
    pub(super) fn may_lack_table(&self) -> bool {
        self.table == NO_TABLE
    }

    /// Calls `each` with the old and the new image of every row.
    ///
    /// # Errors
    /// Errors of `each`; and a flaw, if the event does not fit the table or is too long.
    pub(super) fn each<E>(
        &self,
        table: &Table,
        each: impl FnMut(Option<&[Value<'_>]>, Option<&[Value<'_>]>) -> Result<(), E>,
    ) -> Result<Result<(), E>, Flaw> {
        let mut bytes = self.rest;
        let count = bytes.length().filter(|count| *count == table.columns.len()).ok_or(Flaw::Malformed)?;
        let first = bytes.take(count.div_ceil(8)).ok_or(Flaw::Malformed)?;
        let is_update =
            matches!(self.kind, kind::UPDATE_ROWS_1 | kind::UPDATE_ROWS_2 | kind::PARTIAL_UPDATE_ROWS);
        let second = if is_update { bytes.take(count.div_ceil(8)).ok_or(Flaw::Malformed)? } else { first };
        let inflated;
        if self.is_compressed {
            inflated = inflate(bytes.0)?;
            bytes = Bytes(&inflated);
        }
        images(self.kind, table, [first, second], bytes, each).ok_or(Flaw::Malformed)
    }
}

/// Calls `each` with the images in `bytes`.
fn images<E>(
    kind: u8,
    table: &Table,
    [first, second]: [&[u8]; 2],
    mut bytes: Bytes<'_>,
    mut each: impl FnMut(Option<&[Value<'_>]>, Option<&[Value<'_>]>) -> Result<(), E>,
) -> Option<Result<(), E>> {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    while !bytes.is_empty() {
        let reported = match kind {
            kind::WRITE_ROWS_1 | kind::WRITE_ROWS_2 => {
                image(table, first, &mut bytes, &mut new)?;
                each(None, Some(&new))
            }
            kind::DELETE_ROWS_1 | kind::DELETE_ROWS_2 => {
                image(table, first, &mut bytes, &mut old)?;
                each(Some(&old), None)
            }
            _ => {
                image(table, first, &mut bytes, &mut old)?;
                if kind == kind::PARTIAL_UPDATE_ROWS {
                    skip_options(table, &mut bytes)?;
                }
                image(table, second, &mut bytes, &mut new)?;
                each(Some(&old), Some(&new))
            }
        };
        if reported.is_err() {
            return Some(reported);
        }
    }
    Some(Ok(()))
}

/// Skips the field that marks JSON values as partial: JSON has no text here, and all values have a
/// length.
fn skip_options(table: &Table, bytes: &mut Bytes<'_>) -> Option<()> {
    const PARTIAL_JSON: usize = 1;
    if bytes.length()? & PARTIAL_JSON != 0 {
        let count = table.columns.iter().filter(|column| column.is_json()).count();
        bytes.take(count.div_ceil(8))?;
    }
    Some(())
}

/// Reads the values of a row; `present` has a bit for each column that is there.
fn image<'a>(
    table: &Table,
    present: &[u8],
    bytes: &mut Bytes<'a>,
    values: &mut Vec<Value<'a>>,
) -> Option<()> {
    values.clear();
    let count = (0..table.columns.len()).filter(|index| bit(present, *index)).count();
    if count == 0 {
        // Such a row takes no bytes, so that the loop would not end.
        return None;
    }
    let nulls = bytes.take(count.div_ceil(8))?;
    let mut at = 0;
    for (index, column) in table.columns.iter().enumerate() {
        if !bit(present, index) {
            values.push(Value::Absent);
            continue;
        }
        values.push(if bit(nulls, at) { Value::Null } else { column.value(bytes)? });
        at += 1;
    }
    Some(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::compressed::tests::deflated;
    use super::super::table::{head, tests::USERS};
    use super::*;
    use guira_sql::testing::unhex;
    use std::convert::Infallible;

    /// Row events of `shop.users` as MariaDB 10.11.19 sends them: an INSERT of two rows, an UPDATE
    /// of `name`, and a DELETE.
    pub(in super::super) const INSERT: &str = "120000000000 0100 13 ffff07 0000f8 00286bee 7e fbffffffffffffff ffffffffffffffff
        0400 5a6fc3ab 03 616263 02 7fffcfc6fd59 000000000000f83f 99b8c431051a7c 695735a50a5bf5 80c8b8 79d50f 0400 626c6f62 0005 03 02000000 7b7d c8 90eefe
        feffff 02000000";
    pub(in super::super) const UPDATE: &str =
        "120000000000 0100 13 ffff07 ffff07 feffff 02000000 eeffff 02000000 0100 78";
    pub(in super::super) const DELETE: &str = "120000000000 0100 13 ffff07 eeffff 02000000 0100 78";

    fn users() -> Table {
        head(&unhex(USERS)).unwrap().table().unwrap()
    }

    /// `id` and `name` of the images of each row.
    fn rows(kind: u8, body: &str) -> Vec<String> {
        let body = unhex(body);
        let event = RowEvent::read(kind, &body).unwrap();
        assert!(!event.may_lack_table() && event.table == 18);
        let mut reported = Vec::new();
        let short = |image: Option<&[Value<'_>]>| match image {
            Some(values) => format!("{:?} {:?}", values[0], values[4]),
            None => "none".to_owned(),
        };
        let each = |old: Option<&[Value<'_>]>, new: Option<&[Value<'_>]>| {
            reported.push(format!("{} -> {}", short(old), short(new)));
            Ok::<(), Infallible>(())
        };
        event.each(&users(), each).expect("the event fits the table").unwrap();
        reported
    }

    #[test]
    fn images_of_rows_are_read() {
        let insert = ["none -> Unsigned(4000000000) Bytes([90, 111, 195, 171])", "none -> Unsigned(2) Null"];
        assert_eq!(rows(kind::WRITE_ROWS_1, INSERT), insert);
        assert_eq!(rows(kind::UPDATE_ROWS_1, UPDATE), ["Unsigned(2) Null -> Unsigned(2) Bytes([120])"]);
        assert_eq!(rows(kind::DELETE_ROWS_1, DELETE), ["Unsigned(2) Bytes([120]) -> none"]);
        let second = DELETE.replacen(" 13 ", " 0400 abcd 13 ", 1);
        assert_eq!(rows(kind::DELETE_ROWS_2, &second), ["Unsigned(2) Bytes([120]) -> none"]);
    }

    #[test]
    fn rows_that_are_compressed_are_the_same() {
        let compressed = |body: &str, at: usize, extra: &[u8]| {
            let whole = unhex(body);
            let shorter = [&whole[..8], extra, &whole[8..at], &deflated(&whole[at..])].concat();
            shorter.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        // The rows follow the column sets, of which an update has two.
        for (plain, compressed_kind, body, at) in [
            (kind::WRITE_ROWS_1, kind::WRITE_ROWS_COMPRESSED_1, INSERT, 12),
            (kind::UPDATE_ROWS_1, 167, UPDATE, 15),
            (kind::DELETE_ROWS_1, kind::DELETE_ROWS_COMPRESSED_1, DELETE, 12),
        ] {
            assert_eq!(rows(compressed_kind, &compressed(body, at, b"")), rows(plain, body));
        }
        let second = compressed(DELETE, 12, &[2, 0]);
        assert_eq!(rows(kind::DELETE_ROWS_COMPRESSED_2, &second), rows(kind::DELETE_ROWS_1, DELETE));
    }

    #[test]
    fn all_values_of_a_row_are_where_they_belong() {
        let body = unhex(INSERT);
        let mut first = None;
        let each = |_: Option<&[Value<'_>]>, new: Option<&[Value<'_>]>| {
            first.get_or_insert(format!("{:?}", new.unwrap()));
            Ok::<(), Infallible>(())
        };
        RowEvent::read(kind::WRITE_ROWS_1, &body).unwrap().each(&users(), each).unwrap().unwrap();
        assert_eq!(
            first.unwrap(),
            "[Unsigned(4000000000), Unsigned(2026), Signed(-5), Unsigned(18446744073709551615), Bytes([90, 111, 195, 171]), \
             Bytes([97, 98, 99]), Other, Other, Other, Other, Other, Other, Other, Bytes([98, 108, 111, 98]), Other, Other, \
             Bytes([123, 125]), Unsigned(200), Signed(-70000)]"
        );
    }

    /// As MySQL 9.7.4 sends them: id INT, v VECTOR(3), j JSON, g GEOMETRY.
    #[test]
    fn vectors_are_skipped_too() {
        let table = "6e000000000001000473686f700003766563000403f2f5ff030404040e01010002013f0701000d010304090269640176016a01670801000c01f0";
        let table = head(&unhex(table)).unwrap().table().unwrap();
        let body = unhex(
            "6e00000000001100020004ff00010000000c0000000000803f00000040000040400b0000000202000a0005010005020019000000000000000101000000000000000000f03f000000000000f03f",
        );
        let mut reported = Vec::new();
        let each = |_: Option<&[Value<'_>]>, new: Option<&[Value<'_>]>| {
            reported.push(format!("{:?}", new.unwrap()));
            Ok::<(), Infallible>(())
        };
        RowEvent::read(kind::WRITE_ROWS_2, &body).unwrap().each(&table, each).unwrap().unwrap();
        assert_eq!(reported, ["[Signed(1), Other, Other, Other]"]);
    }

    #[test]
    fn columns_that_an_image_leaves_out_are_absent() {
        let update = "120000000000 0100 13 010000 100000 00 02000000 00 0100 79";
        assert_eq!(rows(kind::UPDATE_ROWS_1, update), ["Unsigned(2) Absent -> Absent Bytes([121])"]);
    }

    #[test]
    fn events_that_do_not_fit_are_refused() {
        let read = |kind, body: &[u8]| {
            let event = RowEvent::read(kind, body)?;
            event.each(&users(), |_, _| Ok::<(), Infallible>(())).ok()
        };
        let whole = unhex(DELETE);
        // A row event may end behind its columns, without rows.
        for length in (0..whole.len()).filter(|length| *length != 12) {
            assert!(read(kind::DELETE_ROWS_1, &whole[..length]).is_none(), "{length} bytes");
        }
        assert!(read(kind::DELETE_ROWS_1, &unhex("120000000000 0100 12 ffff03")).is_none(), "other columns");
        assert!(read(kind::DELETE_ROWS_1, &unhex("120000000000 0100 13 000000 00")).is_none(), "no columns");
        assert!(read(kind::DELETE_ROWS_1, &unhex(&format!("{DELETE} 00"))).is_none(), "more than a row");
    }

    /// As MySQL 9.7.4 sends them: a table with two JSON columns, and partial updates of them: two
    /// rows with all columns, and one with the changed columns only.
    const JSON_TABLE: &str = "74000000000001000473686f7000026a73000403f50ff504045000040e0101000203fcff00040c026964016a046e616d65016b0801000c01f0";
    const PARTS: &str = "7400000000001100020004ffff0001000000df000000000200de0012000100130001000c14000501006162c80178787878787878787878787878787878787878787878787878
        78787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878
        78787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878
        7878787878787878787878787878787878787878787878787878787878787878787878016e05000000000000040001030001000000090000000003242e6203050200016f0000
        00000a02000000016d000a02000000016f";
    const MINIMAL_PARTS: &str = "7400000000001100020004010a0001000000010100090000000003242e62030503000d0000000001000c000b0001000502007a";

    #[test]
    fn rows_are_read_of_which_only_parts_of_json_are_told() {
        let table = head(&unhex(JSON_TABLE)).unwrap().table().unwrap();
        let images = |body: &str, expected: &[&str]| {
            let body = unhex(body);
            let mut reported = Vec::new();
            let each = |old: Option<&[Value<'_>]>, new: Option<&[Value<'_>]>| {
                reported.push(format!("{:?} -> {:?}", old.unwrap(), new.unwrap()));
                Ok::<(), Infallible>(())
            };
            let event = RowEvent::read(kind::PARTIAL_UPDATE_ROWS, &body).unwrap();
            event.each(&table, each).unwrap().unwrap();
            assert_eq!(reported, expected);
            for length in (0..body.len()).filter(|length| *length > 14 && *length < 60) {
                let cut = RowEvent::read(kind::PARTIAL_UPDATE_ROWS, &body[..length]).unwrap();
                let reported = cut.each(&table, |_, _| Ok::<(), Infallible>(()));
                assert_eq!(reported, Err(Flaw::Malformed), "{length} bytes");
            }
        };
        images(
            PARTS,
            &[
                "[Signed(1), Other, Bytes([110]), Other] -> [Signed(1), Other, Bytes([111]), Other]",
                "[Signed(2), Null, Bytes([109]), Null] -> [Signed(2), Null, Bytes([111]), Null]",
            ],
        );
        images(MINIMAL_PARTS, &["[Signed(1), Absent, Absent, Absent] -> [Absent, Other, Absent, Other]"]);
    }
}
