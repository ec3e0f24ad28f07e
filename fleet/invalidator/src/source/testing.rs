//! Tables and rows for tests.

use super::{Image, Row, TableNames, Value};

pub(crate) fn table(database: &str, table: &str, columns: &[&str]) -> TableNames {
    TableNames {
        database: database.into(),
        table: table.into(),
        columns: columns.iter().map(|column| column.as_bytes().to_vec()).collect(),
    }
}

pub(crate) fn image<'a>(table: &'a TableNames, values: &'a [Value<'a>]) -> Image<'a> {
    Image { table, values, before: &[] }
}

pub(crate) fn row<'a>(
    table: &'a TableNames,
    old: Option<&'a [Value<'a>]>,
    new: Option<&'a [Value<'a>]>,
) -> Row<'a> {
    Row { table, old, new, when: 7 }
}
