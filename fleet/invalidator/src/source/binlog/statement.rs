//! Classifies statements by their first words.

/// The first words of statements that never change rows.
const HARMLESS: [&str; 12] = [
    "GRANT",
    "REVOKE",
    "FLUSH",
    "ANALYZE",
    "OPTIMIZE",
    "REPAIR",
    "CHECK",
    "INSTALL",
    "UNINSTALL",
    "PURGE",
    "RESET",
    "CHANGE",
];
/// The second words of statements that drop or rename whole tables.
const OF_TABLES: [&str; 4] = ["TABLE", "TABLES", "DATABASE", "SCHEMA"];
/// Words of an `ALTER TABLE` that changes rows.
const OF_ROWS: [&[u8]; 2] = [b"PARTITION", b"TABLESPACE"];
/// Words that may stand between `ALTER` and `TABLE`.
const BEFORE_TABLE: [&str; 3] = ["TABLE", "ONLINE", "IGNORE"];
/// Other things than a table that `ALTER TABLE` can rename.
const PARTS_OF_TABLES: [&str; 3] = ["COLUMN", "INDEX", "KEY"];

/// Whether a statement with these first words may change rows without row events. Unknown
/// statements may.
pub(super) fn is_unseen(verb: &str, object: &str, text: &[u8]) -> bool {
    let names = |word: &[u8]| text.windows(word.len()).any(|it| it.eq_ignore_ascii_case(word));
    match verb {
        "DROP" | "RENAME" => OF_TABLES.contains(&object),
        "ALTER" => {
            BEFORE_TABLE.contains(&object) && (OF_ROWS.iter().any(|word| names(word)) || renames_table(text))
        }
        "CREATE" => object == "OR",
        // `SET STATEMENT … FOR` may be followed by any statement.
        "SET" => object == "STATEMENT",
        verb => !HARMLESS.contains(&verb),
    }
}

/// Whether an `ALTER TABLE` renames its table.
fn renames_table(text: &[u8]) -> bool {
    let mut rest = text;
    let mut was_rename = false;
    while !rest.is_empty() {
        let (word, behind) = next_word(rest);
        if was_rename && !PARTS_OF_TABLES.iter().any(|part| word.eq_ignore_ascii_case(part.as_bytes())) {
            return true;
        }
        was_rename = word.eq_ignore_ascii_case(b"RENAME");
        rest = behind;
    }
    false
}

/// The next word, quoted text or other byte of a statement; and the rest behind it, without the
/// blanks and comments that follow.
fn next_word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = behind_comments(text);
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || *byte >= 0x80;
    let length = match text.first() {
        Some(quote @ (b'\'' | b'"' | b'`')) => end_of_quoted(text, *quote),
        _ => text.iter().position(|byte| !is_of_word(byte)).unwrap_or(text.len()).max(1).min(text.len()),
    };
    let (word, behind) = text.split_at(length);
    (word, behind_comments(behind))
}

/// The end of a quoted text. A doubled quote ends one text and starts the next, which gives the
/// same end. Names between backquotes have no backslashes.
fn end_of_quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'\\' if quote != b'`' => 2,
            byte if *byte == quote => return at + 1,
            _ => 1,
        };
    }
    text.len()
}

/// The first two words of a statement in capitals, without blanks and comments before them.
/// Comments that a server executes (`/*! … */`) count as statements.
pub(super) fn first_words(text: &[u8]) -> [String; 2] {
    let mut rest = text;
    [(); 2].map(|()| {
        rest = behind_comments(rest);
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (word, behind) = rest.split_at(length);
        rest = behind;
        String::from_utf8_lossy(word).to_ascii_uppercase()
    })
}

fn behind_comments(mut rest: &[u8]) -> &[u8] {
    loop {
        rest = rest.trim_ascii_start();
        let is_line = rest.starts_with(b"#") || rest.starts_with(b"--");
        rest = if is_line {
            let end = rest.iter().position(|byte| *byte == b'\n');
            end.map_or(&[], |end| &rest[end..])
        } else if let Some(executed) = rest.strip_prefix(b"/*!").or_else(|| rest.strip_prefix(b"/*M!")) {
            let version = executed.iter().take_while(|byte| byte.is_ascii_digit()).count();
            &executed[version..]
        } else if let Some(comment) = rest.strip_prefix(b"/*") {
            let end = comment.windows(2).position(|two| two == b"*/");
            end.map_or(&[], |end| &comment[end + 2..])
        } else if let Some(behind) = rest.strip_prefix(b"*/") {
            behind
        } else {
            return rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_words_stand_behind_comments() {
        for (text, expected) in [
            ("/* a */ /* b */\n update/* c */t", ["UPDATE", "T"]),
            ("", ["", ""]),
            ("/* a", ["", ""]),
            ("XA END", ["XA", "END"]),
            ("`a`", ["", ""]),
        ] {
            assert_eq!(first_words(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn statements_that_may_change_data_are_known() {
        let is_unseen = |text: &str| {
            let [verb, object] = first_words(text.as_bytes());
            super::is_unseen(&verb, &object, text.as_bytes())
        };
        for text in [
            "DELETE FROM t",
            "load data infile 'x' into table t",
            "DROP TABLE t",
            "drop database shop",
            "RENAME TABLE a TO b",
            "CREATE OR REPLACE TABLE t (i INT)",
            "ALTER TABLE t TRUNCATE PARTITION p",
            "alter table t import tablespace",
            "ALTER TABLE t RENAME TO u",
            "alter table shop.t rename u",
            "ALTER TABLE `t` RENAME AS `index`",
            "ALTER TABLE t RENAME = u",
            "ALTER TABLE t ADD i INT COMMENT 'it''s', RENAME INDEX a TO b, RENAME /* now */ TO u",
            "ALTER ONLINE TABLE t RENAME TO u",
            "ALTER IGNORE TABLE t DROP PARTITION p",
            "ALTER /*!50000 TABLE t RENAME TO u */",
            "-- a note\nTRUNCATE t",
            "# a note\nDELETE FROM t",
            "/*!50000 UPDATE */ t SET x=1",
            "/*M!100100 truncate */ t",
            "SET STATEMENT binlog_format='STATEMENT' FOR UPDATE t SET x=1",
            "WITH a AS (SELECT 1) DELETE FROM t",
            "EXECUTE IMMEDIATE 'x'",
            "",
        ] {
            assert!(is_unseen(text), "{text}");
        }
        for text in [
            "CREATE TABLE t (i INT)",
            "DROP USER u",
            "DROP TEMPORARY TABLE t",
            "DROP /*!40005 TEMPORARY */ VIEW v",
            "ALTER TABLE t ADD i INT",
            "ALTER TABLE t RENAME COLUMN a TO b, RENAME KEY c TO d, rename index e to f",
            "ALTER TABLE t ADD `rename` INT COMMENT 'RENAME it\\'s', ADD renames INT /* RENAME TO u */",
            "ALTER TABLE t COMMENT 'RENAME TO u",
            "ALTER TABLE t ADD i INT -- RENAME TO u",
            "ALTER USER u RENAME TO v",
            "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`",
            "GRANT SELECT ON t TO u",
            "SET PASSWORD FOR u = 'x'",
            "analyze table t",
        ] {
            assert!(!is_unseen(text), "{text}");
        }
    }
}
