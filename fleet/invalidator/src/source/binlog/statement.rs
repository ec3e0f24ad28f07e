//! What statements are, by their first words.

/// What statements begin with that change no data, whatever they say behind.
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
/// What those are that remove or rename whole tables.
const OF_TABLES: [&str; 4] = ["TABLE", "TABLES", "DATABASE", "SCHEMA"];
/// Words of an `ALTER TABLE` that changes rows.
const OF_ROWS: [&[u8]; 2] = [b"PARTITION", b"TABLESPACE"];

/// Whether a statement, of which these are the first words, may change data and has no rows in the log. One that is not known may.
pub(super) fn is_unseen(verb: &str, object: &str, text: &[u8]) -> bool {
    let names = |word: &[u8]| text.windows(word.len()).any(|it| it.eq_ignore_ascii_case(word));
    match verb {
        "DROP" | "RENAME" => OF_TABLES.contains(&object),
        "ALTER" => object == "TABLE" && OF_ROWS.iter().any(|word| names(word)),
        "CREATE" => object == "OR",
        // SET STATEMENT … FOR may be before any other.
        "SET" => object == "STATEMENT",
        verb => !HARMLESS.contains(&verb),
    }
}

/// The first two words of a statement, in capitals, without the blanks and comments before them. What a server executes of comments is none.
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
            "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`",
            "GRANT SELECT ON t TO u",
            "SET PASSWORD FOR u = 'x'",
            "analyze table t",
        ] {
            assert!(!is_unseen(text), "{text}");
        }
    }
}
