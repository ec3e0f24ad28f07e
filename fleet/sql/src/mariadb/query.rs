//! Statements, their results, and errors.

use super::log_error::of_log;
use super::packet::Packets;
use crate::SourceError;
use crate::bytes::Bytes;
use std::io::{self, Read, Write};

/// The command that carries a statement.
const COM_QUERY: u8 = 3;
/// The end of rows is shorter than a row that begins like it.
const END_MAX: usize = 9;

/// Errors of a login: an unknown user, a wrong password, a forbidden host, a locked account.
const LOGIN: [u16; 4] = [1045, 1130, 1698, 3118];
/// Errors that another connection may not have: too many connections, or of a user; no memory or thread for one; a shutdown, network errors, limits of a user, a host
/// that has failed too often, and a connection or statement that was killed.
const PASSING: [u16; 15] =
    [1040, 1041, 1053, 1077, 1129, 1135, 1152, 1158, 1159, 1160, 1161, 1203, 1226, 1317, 1927];

/// A text of a database in a form that fits in one line of the log.
pub fn printable(text: &[u8]) -> String {
    String::from_utf8_lossy(text).replace(char::is_control, " ")
}

pub fn refusal(packet: &[u8]) -> SourceError {
    let mut bytes = Bytes(packet.get(1..).unwrap_or_default());
    let code = bytes.u16().unwrap_or(0);
    if bytes.0.first() == Some(&b'#') {
        bytes.take(6);
    }
    let text = format!("{} ({code})", printable(bytes.0).trim_end());
    if let Some(error) = of_log(code, &text) {
        return error;
    }
    match code {
        _ if LOGIN.contains(&code) => SourceError::Login(text),
        _ if PASSING.contains(&code) => SourceError::Connection(io::Error::other(text)),
        _ => SourceError::Refused(text),
    }
}

/// Executes a statement that has no rows.
pub fn execute<S: Read + Write>(packets: &mut Packets<S>, statement: &str) -> Result<(), SourceError> {
    packets.command(&[&[COM_QUERY], statement.as_bytes()].concat())?;
    let packet = packets.read()?.bytes;
    match packet.first() {
        Some(0) => Ok(()),
        Some(0xff) => Err(refusal(packet)),
        _ => Err(SourceError::Malformed("a result")),
    }
}

/// Sends a query, and passes on the values of each row; NULL is `None`.
pub fn each_row<S: Read + Write>(
    packets: &mut Packets<S>,
    statement: &str,
    mut each: impl FnMut(&[Option<&[u8]>]),
) -> Result<(), SourceError> {
    let wrong = || SourceError::Malformed("a row");
    packets.command(&[&[COM_QUERY], statement.as_bytes()].concat())?;
    let packet = packets.read()?.bytes;
    match packet.first() {
        Some(0xff) => return Err(refusal(packet)),
        Some(0) => return Err(SourceError::Refused("the statement has no rows".to_owned())),
        _ => {}
    }
    let columns = Bytes(packet).length().ok_or_else(wrong)?;
    // A description of each column, and the end of them.
    for _ in 0..=columns {
        packets.read()?;
    }
    loop {
        let packet = packets.read()?.bytes;
        match packet.first() {
            Some(0xff) => return Err(refusal(packet)),
            Some(0xfe) if packet.len() < END_MAX => return Ok(()),
            _ => each(&values(packet, columns).ok_or_else(wrong)?),
        }
    }
}

fn values(packet: &[u8], columns: usize) -> Option<Vec<Option<&[u8]>>> {
    let mut bytes = Bytes(packet);
    let value = |_| {
        if bytes.0.first() == Some(&0xfb) {
            bytes.take(1);
            return Some(None);
        }
        bytes.text().map(Some)
    };
    (0..columns).map(value).collect()
}

/// Queries rows of texts; NULL is an empty text.
pub fn rows<S: Read + Write>(
    packets: &mut Packets<S>,
    statement: &str,
) -> Result<Vec<Vec<String>>, SourceError> {
    let mut rows = Vec::new();
    let text = |value: &Option<&[u8]>| value.map_or_else(String::new, printable);
    each_row(packets, statement, |row| rows.push(row.iter().map(text).collect()))?;
    Ok(rows)
}

/// Bytes as a text of a statement that has no end but its own, whatever they are.
pub fn literal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("_utf8mb4 x'{digits}'")
}

pub fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Queries one row of `N` texts; NULL is an empty text.
pub fn row<S: Read + Write, const N: usize>(
    packets: &mut Packets<S>,
    statement: &str,
) -> Result<[String; N], SourceError> {
    let row = rows(packets, statement)?.into_iter().next();
    row.and_then(|row| row.try_into().ok()).ok_or(SourceError::Malformed("a row"))
}

#[cfg(test)]
mod tests {
    use super::super::packet::testing::says;
    use super::*;

    #[test]
    fn statements_are_sent_and_rows_read() {
        let mut packets = says(1, &[&[0, 0, 0, 2, 0, 0, 0]]);
        execute(&mut packets, "SET @a=1").unwrap();
        assert_eq!(packets.sent(), b"\x09\0\0\0\x03SET @a=1");
        // As MariaDB 10.11.19 has answered, but for the descriptions, which are not looked at.
        let mut packets = says(
            1,
            &[
                b"\x03",
                b"def",
                b"def",
                b"def",
                b"\xfe\0\0\x02\0",
                b"\x060-1-13\xfb\x03ROW",
                b"\xfe\0\0\x02\0",
            ],
        );
        assert_eq!(row(&mut packets, "SELECT 1").unwrap(), ["0-1-13", "", "ROW"]);
        let mut packets = says(1, &[b"\x01", b"def", b"\xfe\0\0\x02\0", b"\x04a\nb\x1b", b"\xfe\0\0\x02\0"]);
        assert_eq!(row(&mut packets, "SELECT 1").unwrap(), ["a b "], "it may come into the log");
        let mut packets = says(1, &[b"\x02", b"def", b"def", b"\xfe\0\0\x02\0"]);
        assert!(row::<_, 3>(&mut packets, "SELECT 1").is_err(), "of other columns");
    }

    #[test]
    fn values_are_as_they_are() {
        let mut packets =
            says(1, &[b"\x02", b"def", b"def", b"\xfe\0\0\x02\0", b"\x03\0\n\xff\xfb", b"\xfe\0\0\x02\0"]);
        let mut rows = Vec::new();
        each_row(&mut packets, "SELECT 1", |row| rows.push(format!("{row:?}"))).unwrap();
        assert_eq!(rows, ["[Some([0, 10, 255]), None]"]);
        let mut packets = says(1, &[&[0, 0, 0, 2, 0, 0, 0]]);
        let error = each_row(&mut packets, "SET @a=1", |_| panic!("a row")).unwrap_err();
        assert!(error.to_string().contains("no rows"), "{error}");
    }

    #[test]
    fn no_bytes_end_a_text_or_a_name() {
        assert_eq!(literal(b"it's\\"), "_utf8mb4 x'697427735c'");
        assert_eq!((&*literal(b""), &*identifier("a`b")), ("_utf8mb4 x''", "`a``b`"));
    }

    #[test]
    fn errors_are_told_apart_by_what_can_be_done_about_them() {
        let gap =
            refusal(b"\xff\xd4\x04#HY000Could not find GTID state requested by slave in any binlog files");
        assert!(matches!(&gap, SourceError::Gap(text) if text.starts_with("Could not find GTID")), "{gap}");
        assert!(!gap.is_passing());
        let purged =
            refusal(b"\xff\xfd\x06#HY000Cannot replicate because the source purged required binary logs");
        assert!(matches!(purged, SourceError::Gap(_)), "{purged}");
        let locked = refusal(b"\xff\x2e\x0c#HY000Access denied for user. Account is locked.");
        assert!(matches!(locked, SourceError::Login(_)), "{locked}");
        let passing = refusal(b"\xff\x1d\x04#08S01Server shutdown in progress");
        assert!(passing.is_passing(), "{passing}");
        let limits = [
            &b"\xff\xb3\x04#42000User guira already has more than 'max_user_connections' active connections"
                [..],
            b"\xff\xca\x04#42000User 'guira' has exceeded the 'max_connections_per_hour' resource",
        ];
        for limit in limits {
            assert!(refusal(limit).is_passing(), "{}", refusal(limit));
        }
        let refused = refusal(b"\xff\xcb\x04#42000Access denied; you need REPLICATION SLAVE");
        assert!(matches!(refused, SourceError::Refused(_)) && !refused.is_passing());
        assert!(matches!(refusal(b"\xff"), SourceError::Refused(_)));
    }
}
