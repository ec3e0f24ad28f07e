//! A logged delete as a line of text, in mcrouter's two formats.
//!
//! ```text
//! ["AS1.0",1289416829.836,"C",["10.0.0.1",11302,"delete foo\r\n"]]
//! ["AS2.0",1289416829.836,"C",{"s":"service","f":"router","r":"region","h":"[10.0.0.1]:11302","p":"pool","k":"foo","a":{"al":1}}]
//! ```
//!
//! Bytes above 127 stand in strings as they are, whether they are UTF-8 or not, as in mcrouter.

use guira_protocol::{Command, Cut, KEY_MAX, KeyBuffer, Meta, MetaVerb, client, cut, encode_key, parse};
use guira_routing::config::Address;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, Visitor};
use std::fmt;
use std::io::Write;

/// Which format lines are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogVersion {
    One,
    /// With the name of the pool.
    Two,
}

/// What lines of version two record about the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Author {
    pub(crate) service: String,
    pub(crate) router: String,
    pub(crate) region: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The server that it could not be delivered to.
    pub(crate) server: Address,
    /// The asynclog name; lines of version one have none.
    pub(crate) pool: Option<Box<str>>,
    pub(crate) delete: Delete,
}

/// A delete, as servers are sent it later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delete {
    pub(crate) key: Box<[u8]>,
    pub(crate) hold_off: HoldOff,
}

/// For how long nothing may be added under a key, in seconds, in the words of the client: nodes obey the number of a classic delete only if an option
/// has them do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldOff {
    None,
    /// `delete KEY SECONDS`.
    Classic(u32),
    /// `md KEY H`.
    Meta(u32),
}

const MAGIC_ONE: &[u8] = b"AS1.0";
const MAGIC_TWO: &[u8] = b"AS2.0";

/// Whether a key can be the word of a classic command.
fn is_word(key: &[u8]) -> bool {
    !key.iter().any(|byte| matches!(byte, b' ' | b'\r' | b'\n' | 0))
}

impl Delete {
    pub(crate) fn of(key: &[u8]) -> Self {
        Delete { key: key.into(), hold_off: HoldOff::None }
    }

    /// The delete without hold-off, for servers that do not support it.
    pub(crate) fn plain(&self) -> Self {
        Delete::of(&self.key)
    }

    /// Appends the request, as servers read it.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let is_word = is_word(&self.key);
        let mut buffer: KeyBuffer = [0; 336];
        let key = if is_word { &*self.key } else { encode_key(&self.key, &mut buffer) };
        match self.hold_off {
            HoldOff::None if is_word => return client::delete(key, 0, out),
            HoldOff::Classic(seconds) if is_word => return client::delete(key, seconds.into(), out),
            _ => {}
        }
        let line = client::meta(MetaVerb::Delete, key, out);
        let line = if is_word { line } else { line.flags(b"b") };
        match self.hold_off {
            HoldOff::Meta(seconds) => line.number(b'H', seconds).end(),
            HoldOff::None | HoldOff::Classic(_) => line.end(),
        }
    }

    /// Reads a request that is a delete and nothing else.
    fn read(command: &[u8]) -> Result<Self, String> {
        let Cut::Line(line) = cut(command) else {
            return Err("incomplete command".to_owned());
        };
        let is_whole = line.length == command.len();
        let command = parse(line).ok().filter(|_| is_whole);
        let delete = command.and_then(|command| Delete::of_command(&command));
        delete.ok_or("the command is not a delete")?.checked()
    }

    /// The delete that a command is.
    pub(crate) fn of_command(command: &Command<'_>) -> Option<Self> {
        match command {
            Command::Delete(delete) => {
                let seconds = delete.hold_off.filter(|seconds| *seconds != 0);
                let hold_off = seconds.map_or(HoldOff::None, HoldOff::Classic);
                Some(Delete { hold_off, ..Delete::of(delete.key) })
            }
            Command::Meta(Meta::Delete(delete)) => {
                let mut buffer: KeyBuffer = [0; 336];
                let hold_off = match delete.flags.hold_off {
                    0 => HoldOff::None,
                    seconds => HoldOff::Meta(seconds),
                };
                Some(Delete { hold_off, ..Delete::of(delete.key.bytes(&mut buffer)) })
            }
            _ => None,
        }
    }

    fn checked(self) -> Result<Self, String> {
        match self.key.len() {
            1..=KEY_MAX => Ok(self),
            length => Err(format!("invalid key length: {length} bytes")),
        }
    }
}

impl Entry {
    /// Appends its line. A key that no classic command can have is written in version one whatever is requested: a tool that sends the
    /// command of such a line as it stands does the right thing, and version two has no way to write it.
    pub(crate) fn write(&self, version: LogVersion, author: &Author, now_ms: u64, out: &mut Vec<u8>) {
        let version = if is_word(&self.delete.key) { version } else { LogVersion::One };
        let magic = if version == LogVersion::One { MAGIC_ONE } else { MAGIC_TWO };
        out.push(b'[');
        put_string(magic, out);
        put(out, format_args!(",{}.{:03},\"C\",", now_ms / 1000, now_ms % 1000));
        let (host, port) = host_and_port(&self.server);
        match version {
            LogVersion::One => {
                out.push(b'[');
                put_string(host.as_bytes(), out);
                put(out, format_args!(",{port},"));
                let mut command = Vec::new();
                self.delete.write(&mut command);
                put_string(&command, out);
                out.extend_from_slice(b"]]\n");
            }
            LogVersion::Two => {
                let address = format!("[{host}]:{port}");
                let pool = self.pool.as_deref().unwrap_or_default();
                let members: [(char, &[u8]); 6] = [
                    ('s', author.service.as_bytes()),
                    ('f', author.router.as_bytes()),
                    ('r', author.region.as_bytes()),
                    ('h', address.as_bytes()),
                    ('p', pool.as_bytes()),
                    ('k', &self.delete.key),
                ];
                out.push(b'{');
                for (name, value) in members {
                    put(out, format_args!("\"{name}\":"));
                    put_string(value, out);
                    out.push(b',');
                }
                out.extend_from_slice(b"\"a\":{\"al\":1");
                match self.delete.hold_off {
                    HoldOff::None => {}
                    HoldOff::Classic(seconds) => put(out, format_args!(",\"seconds\":{seconds}")),
                    HoldOff::Meta(seconds) => put(out, format_args!(",\"hold_off_s\":{seconds}")),
                }
                out.extend_from_slice(b"}}]\n");
            }
        }
    }

    /// Reads a line, with or without its end.
    ///
    /// # Errors
    /// Why it is no logged delete.
    pub(crate) fn read(line: &[u8]) -> Result<Self, String> {
        let wrong = |error: serde_json::Error| format!("not a line of a delete log ({error})");
        let version = line.split(|byte| *byte == b'"').nth(1);
        match version {
            Some(MAGIC_ONE) => {
                type Line = (Bytes, IgnoredAny, Bytes, (Bytes, u16, Bytes));
                let (_, _, kind, (host, port, command)): Line =
                    serde_json::from_slice(line).map_err(wrong)?;
                let (server, delete) = (address(&kind, &host.0, port)?, Delete::read(&command.0)?);
                Ok(Entry { server, pool: None, delete })
            }
            Some(MAGIC_TWO) => {
                type Line = (Bytes, IgnoredAny, Bytes, Members);
                let (_, _, kind, members): Line = serde_json::from_slice(line).map_err(wrong)?;
                let (host, port) = split(&members.h.0).ok_or("no server")?;
                let pool = members.p.map(|pool| String::from_utf8_lossy(&pool.0).into());
                let delete = Delete { hold_off: hold_off(line), ..Delete::of(&members.k.0) }.checked()?;
                Ok(Entry { server: address(&kind, host, port)?, pool, delete })
            }
            _ => Err("neither version AS1.0 nor AS2.0".to_owned()),
        }
    }
}

fn put(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory does not fail");
}

fn put_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..b' ' => put(out, format_args!("\\u{byte:04x}")),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}

const UNIX: &str = "unix:";

/// Host and port as written in a line. A UNIX socket has port 0.
fn host_and_port(server: &Address) -> (String, u16) {
    match server {
        Address::Tcp { host, port } => (host.to_string(), *port),
        Address::Unix(path) => (format!("{UNIX}{path}"), 0),
    }
}

/// `[host]:port`, or `host:port`.
fn split(text: &[u8]) -> Option<(&[u8], u16)> {
    let colon = text.iter().rposition(|byte| *byte == b':')?;
    let (host, port) = (&text[..colon], std::str::from_utf8(&text[colon + 1..]).ok()?.parse().ok()?);
    let inner = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]"));
    Some((inner.unwrap_or(host), port))
}

fn address(kind: &Bytes, host: &[u8], port: u16) -> Result<Address, String> {
    if kind.0 != b"C" {
        return Err("not a logged command".to_owned());
    }
    let host = std::str::from_utf8(host).ok().filter(|host| !host.is_empty());
    let host = host.ok_or("the server has no name")?;
    match host.strip_prefix(UNIX) {
        Some(path) => Ok(Address::Unix(path.into())),
        None if host.starts_with('/') => Ok(Address::Unix(host.into())),
        None if port == 0 => Err("the server has no port".to_owned()),
        None => Ok(Address::Tcp { host: host.into(), port }),
    }
}

/// The members of a line of version two that matter.
#[derive(serde::Deserialize)]
struct Members {
    h: Bytes,
    #[serde(default)]
    p: Option<Bytes>,
    k: Bytes,
}

/// A line with attributes, of which mcrouter has others. No line is refused for them.
#[derive(serde::Deserialize)]
struct Attributed {
    a: Attributes,
}

#[derive(serde::Deserialize)]
struct Attributes {
    #[serde(default)]
    hold_off_s: u32,
    #[serde(default)]
    seconds: u32,
}

/// The hold-off of a line of version two.
fn hold_off(line: &[u8]) -> HoldOff {
    type Line = (IgnoredAny, IgnoredAny, IgnoredAny, Attributed);
    match serde_json::from_slice::<Line>(line) {
        Ok((_, _, _, Attributed { a: Attributes { hold_off_s: 0, seconds } })) if seconds != 0 => {
            HoldOff::Classic(seconds)
        }
        Ok((_, _, _, Attributed { a: Attributes { hold_off_s, .. } })) if hold_off_s != 0 => {
            HoldOff::Meta(hold_off_s)
        }
        _ => HoldOff::None,
    }
}

/// A string, whether it is UTF-8 or not.
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfString;
        impl Visitor<'_> for OfString {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_owned()))
            }
        }
        deserializer.deserialize_bytes(OfString)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.into(), port }
    }

    fn entry(host: &str, pool: Option<&str>, key: &[u8]) -> Entry {
        Entry { server: server(host, 11302), pool: pool.map(Into::into), delete: Delete::of(key) }
    }

    fn written(entry: &Entry, version: LogVersion) -> String {
        let author = Author { service: "www".into(), router: "web".into(), region: "oregon".into() };
        let mut out = Vec::new();
        entry.write(version, &author, 1_289_416_829_036, &mut out);
        let read = Entry::read(&out).unwrap();
        let has_pool = out.starts_with(b"[\"AS2.0\"");
        assert!(version == LogVersion::Two || !has_pool);
        assert_eq!(read, Entry { pool: entry.pool.clone().filter(|_| has_pool), ..entry.clone() });
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn lines_are_written_as_mcrouter_writes_them() {
        let entry = entry("10.0.0.1", Some("pool"), b"foo");
        assert_eq!(
            written(&entry, LogVersion::One),
            "[\"AS1.0\",1289416829.036,\"C\",[\"10.0.0.1\",11302,\"delete foo\\r\\n\"]]\n"
        );
        assert_eq!(
            written(&entry, LogVersion::Two),
            "[\"AS2.0\",1289416829.036,\"C\",{\"s\":\"www\",\"f\":\"web\",\"r\":\"oregon\",\"h\":\"[10.0.0.1]:11302\",\
             \"p\":\"pool\",\"k\":\"foo\",\"a\":{\"al\":1}}]\n"
        );
    }

    /// Of mcrouter's sources, its wiki and its tests, and of its older versions.
    #[test]
    fn lines_of_mcrouter_are_read() {
        let local = |pool, key| Entry { server: server("127.0.0.1", 5001), ..entry("", pool, key) };
        let cases: &[(&[u8], Entry)] = &[
            (
                br#"["AS1.0", 1289416829.836, "C", ["10.0.0.1", 11302, "delete foo\r\n"]]"#,
                entry("10.0.0.1", None, b"foo"),
            ),
            (
                br#"["AS1.0",1.5,"C",["10.0.0.1",11302,"delete foo 7\r\n"]]"#,
                Entry { delete: Delete { hold_off: HoldOff::Classic(7), ..Delete::of(b"foo") }, ..entry("10.0.0.1", None, b"") },
            ),
            (br#"["AS1.0",1289416829,"C",["10.0.0.1",11302,"delete foo 0\r\n"]]"#, entry("10.0.0.1", None, b"foo")),
            (
                br#"["AS2.0", 1289416829.836, "C", {"f":"flavor","h":"[10.0.0.1]:11302","p":"pool_name","k":"foo"}]"#,
                entry("10.0.0.1", Some("pool_name"), b"foo"),
            ),
            (
                br#"["AS2.0",1410611229.747,"C",{"k":"key","p":"A","h":"[127.0.0.1]:5001","f":"5000"}]"#,
                local(Some("A"), b"key"),
            ),
            (
                br#"["AS2.0",1.5e9,"C",{"a":{"al":1,"src":3},"k":"/a/b/k","s":"x","p":"A","r":"r","h":"[127.0.0.1]:5001","f":"5000"}]"#,
                local(Some("A"), b"/a/b/k"),
            ),
            (
                br#"["AS2.0",1.5,"C",{"a":null,"k":"key","p":"A","h":"[2001:db8::1]:11302"}]"#,
                entry("2001:db8::1", Some("A"), b"key"),
            ),
            (
                b"[\"AS2.0\",1.5,\"C\",{\"a\":{\"seconds\":\"\xff\"},\"k\":\"key\",\"p\":\"A\",\"h\":\"[2001:db8::1]:11302\"}]",
                entry("2001:db8::1", Some("A"), b"key"),
            ),
            (
                br#"["AS2.0",1.5,"C",{"k":"key","p":"A","h":"[2001:db8::1]:11302"}]"#,
                entry("2001:db8::1", Some("A"), b"key"),
            ),
            (
                b"[\"AS1.0\",1.5,\"C\",[\"10.0.0.1\",11302,\"delete \xff\\u0001\\\"\\\\\x7f\xc3\xa4\\r\\n\"]]\r",
                entry("10.0.0.1", None, b"\xff\x01\"\\\x7f\xc3\xa4"),
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(Entry::read(line).as_ref(), Ok(expected), "{}", line.escape_ascii());
        }
    }

    #[test]
    fn any_key_is_read_as_it_was_written() {
        let mut keys: Vec<Vec<u8>> = (0..=255u8).map(|byte| vec![byte]).collect();
        // In base64 a longer key is longer than a word may be.
        keys.extend([vec![b'k'; KEY_MAX], vec![0; 186], b"two words".to_vec(), b"md x b\r\n".to_vec()]);
        for key in keys {
            let is_word = is_word(&key);
            for hold_off in [HoldOff::None, HoldOff::Classic(1), HoldOff::Meta(1), HoldOff::Meta(u32::MAX)] {
                // Only a word is the key of a classic delete.
                if !is_word && matches!(hold_off, HoldOff::Classic(_)) {
                    continue;
                }
                let delete = Delete { hold_off, ..Delete::of(&key) };
                let entry = Entry { delete, ..entry("host", Some("p\"\\"), &key) };
                for version in [LogVersion::One, LogVersion::Two] {
                    let line = written(&entry, version);
                    assert_eq!(line.matches('\n').count(), 1, "{}", line.escape_debug());
                }
            }
        }
        let binary = written(&entry("host", Some("p"), b"a b"), LogVersion::Two);
        assert!(binary.contains(r#""AS1.0""#) && binary.contains(r#""md YSBi b\r\n""#), "{binary}");
        let socket = Entry { server: Address::Unix("/run/m".into()), ..entry("", Some("p"), b"k") };
        assert!(written(&socket, LogVersion::Two).contains(r#""h":"[unix:/run/m]:0""#));
    }

    #[test]
    fn what_is_no_delete_is_told_apart() {
        for line in [
            b"".as_slice(),
            b"garbage",
            b"[\"AS1.0\"",
            b"[\"AS3.0\",1,\"C\",[\"h\",1,\"delete k\\r\\n\"]]",
            b"[\"AS1.0\",1,\"C\",[\"h\",1,\"delete k\\r\\n\"]",
            b"[\"AS1.0\",1,\"D\",[\"h\",1,\"delete k\\r\\n\"]]",
            b"[\"AS1.0\",1,\"C\",[\"h\",0,\"delete k\\r\\n\"]]",
            b"[\"AS1.0\",1,\"C\",[\"h\",1,\"set k 0 0 1\\r\\n\"]]",
            b"[\"AS1.0\",1,\"C\",[\"h\",1,\"delete k\"]]",
            b"[\"AS1.0\",1,\"C\",[\"h\",1,\"delete a\\r\\ndelete b\\r\\n\"]]",
            b"[\"AS1.0\",1,\"C\",[\"h\",99999,\"delete k\\r\\n\"]]",
            b"[\"AS2.0\",1,\"C\",{\"h\":\"[h]\",\"k\":\"k\"}]",
            b"[\"AS2.0\",1,\"C\",{\"h\":\"[h]:1\",\"k\":\"\"}]",
            b"[\"AS2.0\",1,\"C\",{\"h\":\"[h]:1\"}]",
            b"[\"AS2.0\",1,\"C\",{\"h\":\"[h]:1\",\"k\":7}]",
            b"\xff\x00\xff",
        ] {
            assert!(Entry::read(line).is_err(), "{}", line.escape_ascii());
        }
        let long = format!("[\"AS1.0\",1,\"C\",[\"h\",1,\"delete {}\\r\\n\"]]", "k".repeat(KEY_MAX + 1));
        assert!(Entry::read(long.as_bytes()).is_err());
    }
}
