//! Turns changes of the log into keys.

use super::template::{Filled, Template};
use super::{comments, flaw, words};
use crate::batcher::Batcher;
use crate::counters::{Count, Counts};
use crate::source::{Changes, Image, Place, Row, Value};
use guira_sync::stop::Stopped;
use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;

/// The rule by which rows of a table name keys.
#[derive(Clone, Debug)]
pub(crate) struct TableKeys {
    pub(crate) database: String,
    pub(crate) table: String,
    pub(crate) rule: Rule,
}

#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// Each image of a row gives one key for each template.
    Templates(Vec<Template>),
    /// Inserted rows name keys in this column, separated by blanks.
    Outbox(String),
}

/// Finds keys, and passes valid ones to the batcher.
#[derive(Debug)]
pub(crate) struct Extractor {
    tables: Arc<[TableKeys]>,
    finder: Finder,
    /// A buffer for the key that is being built.
    key: Vec<u8>,
    /// Missing columns that were already logged: database, table and column.
    unknown: HashSet<[Vec<u8>; 3]>,
}

#[derive(Debug)]
struct Finder {
    batcher: Batcher,
    counts: Arc<Counts>,
    /// The longest key that any target accepts, in bytes.
    key_max: usize,
}

impl Finder {
    fn add(&mut self, key: &[u8], when: u64) -> Result<(), Stopped> {
        self.counts.add(Count::Keys);
        let Some(flaw) = flaw(key, self.key_max) else {
            return self.batcher.add(key, when);
        };
        if self.counts.add(Count::RefusedKeys) {
            let shown = &key[..key.len().min(300)];
            // Operator: Correct the template or the application that names the key.
            tracing::warn!("skipped an invalid cache key: {flaw}: {}", shown.escape_ascii());
        }
        Ok(())
    }
}

impl Extractor {
    /// An extractor that refuses keys of more than `key_max` bytes.
    pub(crate) fn new(tables: Vec<TableKeys>, batcher: Batcher, counts: Arc<Counts>, key_max: usize) -> Self {
        let finder = Finder { batcher, counts, key_max };
        Extractor { tables: tables.into(), finder, key: Vec::new(), unknown: HashSet::new() }
    }

    /// Adds the key of each template for this image of a row.
    fn add_image(&mut self, row: &Row<'_>, templates: &[Template], image: &Image<'_>) -> Result<(), Stopped> {
        for template in templates {
            match template.fill(image, &mut self.key) {
                Filled::Key => self.finder.add(&self.key, row.when())?,
                Filled::Null => {}
                Filled::Missing(column) => self.unfilled(row, column),
            }
        }
        Ok(())
    }

    /// Adds the keys in a column of a row.
    fn add_column(&mut self, row: &Row<'_>, column: &str, image: &Image<'_>) -> Result<(), Stopped> {
        match image.value(column) {
            Value::Bytes(keys) => words(keys).try_for_each(|key| self.finder.add(key, row.when())),
            Value::Null => Ok(()),
            Value::Signed(_) | Value::Unsigned(_) | Value::Other | Value::Absent => {
                self.unfilled(row, column);
                Ok(())
            }
        }
    }

    fn unfilled(&mut self, row: &Row<'_>, column: &str) {
        let is_due = self.finder.counts.add(Count::Unfilled);
        let (database, table) = (row.database().escape_ascii(), row.name().escape_ascii());
        if row.lacks(column) {
            // The column is missing in every row of the table: one line is enough.
            let place = [row.database(), row.name(), column.as_bytes()].map(<[u8]>::to_vec);
            if self.unknown.insert(place) {
                // Operator: Correct the column's name in the template or outbox, then flush the caches of
                // its keys.
                tracing::error!(
                    "table {database}.{table} has no column {column}: its keys are never deleted; correct \
                         the template or outbox"
                );
            }
        } else if is_due {
            // Operator: Set `binlog_row_image = FULL` or REPLICA IDENTITY FULL, so that rows have all
            // columns.
            tracing::error!(
                "a change of {database}.{table} has no value for column {column}; its key was not deleted"
            );
        }
    }
}

impl TableKeys {
    fn is(&self, database: &[u8], table: &[u8]) -> bool {
        self.database.as_bytes() == database && self.table.as_bytes() == table
    }
}

impl Changes for Extractor {
    fn wants(&self, database: &[u8], table: &[u8]) -> bool {
        self.tables.iter().any(|it| it.is(database, table))
    }

    fn statement(&mut self, text: &[u8], when: u64) -> Result<(), Stopped> {
        self.finder.counts.add(Count::Statements);
        comments::keys(text, |key| self.finder.add(key, when))
    }

    fn message(&mut self, keys: &[u8], when: u64) -> Result<(), Stopped> {
        self.finder.counts.add(Count::Statements);
        words(keys).try_for_each(|key| self.finder.add(key, when))
    }

    fn row(&mut self, row: &Row<'_>) -> Result<(), Stopped> {
        self.finder.counts.add(Count::Rows);
        let tables = self.tables.clone();
        for table in tables.iter().filter(|it| it.is(row.database(), row.name())) {
            match (&table.rule, row.before(), row.after()) {
                (Rule::Templates(templates), before, after) => {
                    let mut images = [before, after].into_iter().flatten();
                    images.try_for_each(|image| self.add_image(row, templates, &image))?;
                }
                (Rule::Outbox(column), None, Some(inserted)) => self.add_column(row, column, &inserted)?,
                // Rows of an outbox that are updated or deleted name no keys: that is its cleaning
                // up.
                (Rule::Outbox(_), ..) => {}
            }
        }
        Ok(())
    }

    fn unseen(&mut self, database: &[u8], verb: &str) {
        if self.tables.is_empty() {
            return;
        }
        if self.finder.counts.add(Count::Unseen) {
            let database = database.escape_ascii();
            // Operator: Set `binlog_format = ROW` for all sessions; flush the caches if the statement
            // changed cached rows.
            tracing::error!(
                "the log has a statement {verb} in {database} without row data; keys of tables with \
                     templates were not deleted for it"
            );
        }
    }

    fn committed(&mut self, position: &dyn Display, when: u64) -> Result<(), Stopped> {
        self.finder.counts.add(Count::Transactions);
        self.finder.batcher.committed(position, when)
    }

    fn reached(&mut self, position: &dyn Display, when: u64) -> Result<(), Stopped> {
        self.finder.batcher.committed(position, when)
    }

    fn pause(&mut self) -> Result<(), Stopped> {
        self.finder.batcher.pause()
    }

    fn passed(&mut self, place: Place) {
        self.finder.batcher.passed(place);
    }

    fn skipped(&mut self, position: &str, when: u64) -> Result<(), Stopped> {
        self.finder.batcher.skipped(position, when)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Work;
    use crate::deliver::Lane;
    use crate::ledger::Ledger;
    use crate::source::testing::{row, table};

    fn extractor(keys: &[&str]) -> (Extractor, Arc<Lane>, Arc<Counts>) {
        let ledger = Arc::new(Ledger::new(1));
        let batches = Arc::new(Lane::for_tests(ledger.clone()));
        let counts: Arc<Counts> = Arc::default();
        let batcher = Batcher::new(vec![batches.clone()], ledger, counts.clone(), 100);
        let keys = keys.iter().map(|key| key.parse().unwrap()).collect();
        let tables = vec![
            TableKeys { database: "shop".to_owned(), table: "users".to_owned(), rule: Rule::Templates(keys) },
            TableKeys {
                database: "shop".to_owned(),
                table: "outbox".to_owned(),
                rule: Rule::Outbox("keys".to_owned()),
            },
        ];
        (Extractor::new(tables, batcher, counts.clone(), 250), batches, counts)
    }

    fn keys(extractor: &mut Extractor, batches: &Lane) -> Vec<String> {
        extractor.pause().unwrap();
        let Some(batch) = batches.pop() else { return Vec::new() };
        let Work::Delete(keys) = batch.work() else { panic!("{batch:?}") };
        keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
    }

    #[test]
    fn a_change_of_a_column_concerns_the_keys_of_both_images() {
        let (mut extractor, batches, _) = extractor(&["user:{id}", "mail:{mail}"]);
        let table = table("shop", "users", &["id", "mail"]);
        let old = [Value::Signed(7), Value::Bytes(b"old")];
        let new = [Value::Signed(7), Value::Bytes(b"new")];
        extractor.row(&row(&table, Some(&old), Some(&new))).unwrap();
        assert_eq!(keys(&mut extractor, &batches), ["mail:new", "mail:old", "user:7"]);
    }

    #[test]
    fn a_column_that_a_table_does_not_have_is_reported_once() {
        let (mut extractor, batches, counts) = extractor(&["{nothing}", "{id}"]);
        let users = table("shop", "users", &["id", "name"]);
        for id in 0..3 {
            let new = [Value::Signed(id), Value::Absent];
            extractor.row(&row(&users, None, Some(&new))).unwrap();
        }
        assert_eq!(keys(&mut extractor, &batches), ["0", "1", "2"]);
        assert_eq!((counts.get(Count::Unfilled), extractor.unknown.len()), (3, 1));
        let value = [Value::Signed(1), Value::Absent];
        assert!(!row(&users, None, Some(&value)).lacks("NAME"), "it is there, and has no value");
        assert!(!row(&table("shop", "users", &[]), None, Some(&[])).lacks("name"), "the log does not say");
    }

    #[test]
    fn what_an_image_leaves_out_is_as_before() {
        let (mut extractor, batches, counts) = extractor(&["{id}:{mail}"]);
        let table = table("shop", "users", &["id", "mail"]);
        let old = [Value::Signed(7), Value::Bytes(b"old")];
        let new = [Value::Absent, Value::Bytes(b"new")];
        extractor.row(&row(&table, Some(&old), Some(&new))).unwrap();
        assert_eq!(keys(&mut extractor, &batches), ["7:new", "7:old"]);
        extractor.row(&row(&table, None, Some(&new))).unwrap();
        assert_eq!(keys(&mut extractor, &batches), [""; 0]);
        assert_eq!(counts.get(Count::Unfilled), 1);
    }

    #[test]
    fn keys_that_no_cache_can_have_are_counted() {
        let (mut extractor, batches, counts) = extractor(&["user:{name}"]);
        let table = table("shop", "users", &["name"]);
        let long = "x".repeat(246);
        for name in ["a b", "a\nb", &long, "good"] {
            extractor.row(&row(&table, None, Some(&[Value::Bytes(name.as_bytes())]))).unwrap();
        }
        extractor.statement(format!("/* mc: {} also-good */", "k".repeat(251)).as_bytes(), 7).unwrap();
        assert_eq!(keys(&mut extractor, &batches), ["also-good", "user:good"]);
        assert_eq!((counts.get(Count::RefusedKeys), counts.get(Count::Keys)), (4, 6));
    }

    #[test]
    fn rows_that_are_inserted_into_an_outbox_name_keys() {
        let (mut extractor, batches, counts) = extractor(&["{id}"]);
        let table = table("shop", "outbox", &["id", "keys"]);
        let values = |keys| [Value::Signed(1), keys];
        let (two, one) = (values(Value::Bytes(b" a  b\n")), values(Value::Bytes(b"c")));
        extractor.row(&row(&table, None, Some(&two))).unwrap();
        extractor.row(&row(&table, Some(&one), None)).unwrap();
        extractor.row(&row(&table, Some(&one), Some(&one))).unwrap();
        extractor.row(&row(&table, None, Some(&values(Value::Null)))).unwrap();
        assert_eq!(keys(&mut extractor, &batches), ["a", "b"]);
        assert_eq!(counts.get(Count::Unfilled), 0);
        extractor.row(&row(&table, None, Some(&values(Value::Other)))).unwrap();
        extractor.row(&row(&table, None, Some(&[Value::Signed(1)]))).unwrap();
        assert_eq!(counts.get(Count::Unfilled), 2);
    }

    #[test]
    fn only_tables_with_templates_are_wanted() {
        let (mut extractor, _batches, counts) = extractor(&["{id}"]);
        assert!(extractor.wants(b"shop", b"users"));
        assert!(!extractor.wants(b"shop", b"orders") && !extractor.wants(b"other", b"users"));
        extractor.unseen(b"shop", "TRUNCATE");
        assert_eq!(counts.get(Count::Unseen), 1);
    }
}
