//! TABLE_MAP events: the tables that the row events behind them change.

use super::value::Column;
use crate::source::TableNames;
use guira_sql::Bytes;

/// Kinds of what `binlog_row_metadata` adds to the description of a table.
const SIGNEDNESS: u8 = 1;
const COLUMN_NAMES: u8 = 4;

/// The definition of a table at the time of a row event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) names: TableNames,
    pub(super) columns: Vec<Column>,
}

/// The names of a table, and the number that row events use for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    pub(super) id: u64,
    pub(super) database: &'a [u8],
    pub(super) table: &'a [u8],
    rest: Bytes<'a>,
}

pub(super) fn head(body: &[u8]) -> Option<Head<'_>> {
    let mut bytes = Bytes(body);
    let id = bytes.number(6)?;
    let _flags = bytes.u16()?;
    let name = |bytes: &mut Bytes<'_>| bytes.byte().map(usize::from);
    let length = name(&mut bytes)?;
    let database = bytes.take(length)?;
    bytes.take(1)?;
    let length = name(&mut bytes)?;
    let table = bytes.take(length)?;
    bytes.take(1)?;
    Some(Head { id, database, table, rest: bytes })
}

impl Head<'_> {
    /// The columns, without names if the log has none.
    pub(super) fn table(&self) -> Option<Table> {
        let mut bytes = self.rest;
        let count = bytes.length()?;
        let kinds = bytes.take(count)?;
        let mut details = Bytes(bytes.text()?);
        let _nullable = bytes.take(count.div_ceil(8))?;
        let columns = kinds.iter().map(|kind| Column::read(*kind, &mut details));
        let mut columns = columns.collect::<Option<Vec<Column>>>()?;
        let mut names = Vec::new();
        while !bytes.is_empty() {
            let kind = bytes.byte()?;
            let value = bytes.text()?;
            match kind {
                SIGNEDNESS => set_signs(&mut columns, value),
                COLUMN_NAMES => names = column_names(value).filter(|names| names.len() == count)?,
                _ => {}
            }
        }
        let names = TableNames { database: self.database.into(), table: self.table.into(), columns: names };
        Some(Table { names, columns })
    }
}

/// A bit for each column with a sign or none, the highest of a byte first.
fn set_signs(columns: &mut [Column], bits: &[u8]) {
    for (index, column) in columns.iter_mut().filter(|column| column.has_sign()).enumerate() {
        if bits.get(index / 8).is_some_and(|byte| byte << (index % 8) & 0x80 != 0) {
            column.set_unsigned();
        }
    }
}

fn column_names(value: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut bytes = Bytes(value);
    let mut names = Vec::new();
    while !bytes.is_empty() {
        names.push(bytes.text()?.to_vec());
    }
    Some(names)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use guira_sql::testing::unhex;

    /// `shop.users` as MariaDB 10.11.19 has described it, with `binlog_row_metadata` = FULL: id INT UNSIGNED, y YEAR, b BIGINT, u BIGINT UNSIGNED, name VARCHAR(300), c CHAR(20),
    /// e ENUM, d DECIMAL(12,3), f DOUBLE, t DATETIME(3), ts TIMESTAMP(6), tt TIME, da DATE, bl BLOB, bi BIT(10), s SET, j JSON, ti TINYINT UNSIGNED, me MEDIUMINT.
    pub(in super::super) const USERS: &str = "120000000000 0100 0473686f7000 05757365727300
        13 030d08080ffefef6051211130afc10fefc0109 12 b004fe14f7010c0308030600020201f80104 feff07
        0101d2 03042d083f2e 0431 026964 0179 0162 0175 046e616d65 0163 0165 0164 0166 0174 027473 027474 026461 02626c 026269 0173 016a 027469 026d65
        0a01 08 0505020178 0179 06050201610162 080100";

    #[test]
    fn a_table_is_read_with_the_names_of_its_columns() {
        let body = unhex(USERS);
        let head = head(&body).unwrap();
        assert_eq!((head.id, head.database, head.table), (18, &b"shop"[..], &b"users"[..]));
        let table = head.table().unwrap();
        let names: Vec<_> = table.names.columns.iter().map(|name| String::from_utf8_lossy(name)).collect();
        assert_eq!(names.join(" "), "id y b u name c e d f t ts tt da bl bi s j ti me");
        assert_eq!(table.columns.len(), 19);
    }

    #[test]
    fn without_metadata_there_are_no_names() {
        let whole = unhex(USERS);
        let plain = 8 + 6 + 7 + 1 + 19 + 1 + 18 + 3;
        let table = head(&whole[..plain]).unwrap().table().unwrap();
        assert_eq!((table.columns.len(), table.names.columns.len()), (19, 0));
    }

    #[test]
    fn a_table_that_was_cut_is_none() {
        let whole = unhex(USERS);
        let plain = 8 + 6 + 7 + 1 + 19 + 1 + 18 + 3;
        for length in 0..plain {
            let read = head(&whole[..length]).and_then(|head| head.table());
            assert_eq!(read, None, "{length} bytes");
        }
    }
}
