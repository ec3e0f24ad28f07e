//! HTTP/1.1, as much of it as the admin listener needs: heads of GET, HEAD and, where something can be done, POST in, replies out. Nothing is kept of a request.

use guira_protocol::ReplyBuffer;
use std::fmt::Write as _;
use std::net::IpAddr;

/// The longest head of a request.
pub(crate) const HEAD_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;

/// A request, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    /// Without what comes behind a question mark.
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) method: Method,
    pub(crate) after: After,
    pub(crate) accept: &'a [u8],
    pub(crate) authorization: &'a [u8],
    /// Where it was sent, if it says so. A browser always does.
    pub(crate) host: Option<&'a [u8]>,
    /// It has the field that pages of other origins cannot send.
    pub(crate) is_deliberate: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    Post,
}

/// Who wants something done sends this field: a browser lets pages of other origins do so only if it is allowed, which it is not here.
const DELIBERATE: &str = "x-guira";

/// What comes after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    KeepsOpen,
    Closes,
}

/// A status line without its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) &'static str);

impl Status {
    pub(crate) const OK: Status = Status("200 OK");
    pub(crate) const BAD_REQUEST: Status = Status("400 Bad Request");
    pub(crate) const UNAUTHORIZED: Status = Status("401 Unauthorized");
    pub(crate) const FORBIDDEN: Status = Status("403 Forbidden");
    pub(crate) const NOT_FOUND: Status = Status("404 Not Found");
    pub(crate) const METHOD_NOT_ALLOWED: Status = Status("405 Method Not Allowed");
    pub(crate) const TIMEOUT: Status = Status("408 Request Timeout");
    pub(crate) const HAS_BODY: Status = Status("413 Content Too Large");
    pub(crate) const URI_TOO_LONG: Status = Status("414 URI Too Long");
    pub(crate) const HEAD_TOO_LARGE: Status = Status("431 Request Header Fields Too Large");
    pub(crate) const UNAVAILABLE: Status = Status("503 Service Unavailable");
    pub(crate) const VERSION: Status = Status("505 HTTP Version Not Supported");
}

/// Why a request is refused; the connection is closed afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) status: Status,
    pub(crate) why: &'static str,
}

pub(crate) const TOO_LARGE: Fault = Fault {
    status: Status::HEAD_TOO_LARGE,
    why: "the headers of a request may have at most 8 KiB and 64 fields",
};

const fn bad(why: &'static str) -> Fault {
    Fault { status: Status::BAD_REQUEST, why }
}

/// Reads the head at the beginning of `input`: the request and how long it is, or `None` if it has not arrived altogether. `actions` are the paths of POST.
///
/// # Errors
/// Why it is none that is answered.
pub(crate) fn read<'i>(input: &'i [u8], actions: &[&str]) -> Result<Option<(Request<'i>, usize)>, Fault> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let length = match head.parse(input) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_MAX => length,
        Ok(httparse::Status::Partial) if input.len() <= HEAD_MAX => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(too_large(input)),
        Err(httparse::Error::Version) if memchr::memmem::find(first_line(input), b" HTTP/").is_some() => {
            return Err(Fault { status: Status::VERSION, why: "only HTTP/1.1 and HTTP/1.0 are supported" });
        }
        Err(_) if input.starts_with(&[0x16, 0x03]) => {
            return Err(bad("this listener uses HTTP, not TLS"));
        }
        Err(_) => return Err(bad("not an HTTP request")),
    };
    let is_new = head.version == Some(1);
    let (path, query) = parts_of(head.path.unwrap_or_default());
    let mut request = Request {
        path,
        query,
        method: Method::Get,
        after: if is_new { After::KeepsOpen } else { After::Closes },
        accept: b"",
        authorization: b"",
        host: None,
        is_deliberate: false,
    };
    request.method = match head.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some("POST") if actions.contains(&path) => Method::Post,
        _ => {
            return Err(Fault { status: Status::METHOD_NOT_ALLOWED, why: "only GET and HEAD are supported" });
        }
    };
    let mut hosts = 0;
    for header in head.headers.iter() {
        match header.name.to_ascii_lowercase().as_str() {
            "host" => {
                hosts += 1;
                request.host = Some(header.value);
            }
            DELIBERATE => request.is_deliberate = true,
            "accept" => request.accept = header.value,
            "authorization" => request.authorization = header.value,
            "connection" if has_word(header.value, b"close") => request.after = After::Closes,
            "content-length" if header.value != b"0" => return Err(HAS_BODY),
            "transfer-encoding" => return Err(HAS_BODY),
            _ => {}
        }
    }
    if is_new && hosts != 1 {
        return Err(bad("an HTTP/1.1 request must have one Host header"));
    }
    Ok(Some((request, length)))
}

/// Whether a request was sent to an address, or to this host by its own name. A page of another site that has its name lead here (DNS rebinding) names that.
pub(crate) fn is_address(host: &[u8]) -> bool {
    let host = std::str::from_utf8(host).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    // An address of a link may name its interface.
    let address = name.split_once('%').map_or(name, |(address, _)| address);
    let local = name.strip_suffix('.').unwrap_or(name);
    local.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

/// The path and the query of a target, which a client that takes this server for a proxy sends with scheme and host (RFC 9112, section 3.2.2): they are
/// passed over.
fn parts_of(target: &str) -> (&str, &str) {
    let is_scheme =
        |scheme: &str| scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let target = match target.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => &rest[rest.find(['/', '?']).unwrap_or(rest.len())..],
        _ => target,
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (if path.is_empty() { "/" } else { path }, query)
}

const HAS_BODY: Fault = Fault { status: Status::HAS_BODY, why: "requests with a body are not supported" };

/// The head is too long: perhaps since its first line is.
fn too_large(input: &[u8]) -> Fault {
    if first_line(input).len() > HEAD_MAX {
        Fault { status: Status::URI_TOO_LONG, why: "the headers of a request may have at most 8 KiB" }
    } else {
        TOO_LARGE
    }
}

fn first_line(input: &[u8]) -> &[u8] {
    &input[..memchr::memchr(b'\n', input).unwrap_or(input.len())]
}

/// Whether a list with commas has this word.
fn has_word(list: &[u8], word: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(word))
}

/// How much a client wants `media`, from 0 to 1000.
pub(crate) fn preference(accept: &[u8], media: &str) -> u32 {
    let accept = String::from_utf8_lossy(accept).to_ascii_lowercase();
    let wanted = accept.split(',').filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        (parts.next() == Some(media)).then(|| {
            let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f64>().ok());
            (weight.unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0) as u32
        })
    });
    wanted.max().unwrap_or(0)
}

pub(crate) const PLAIN: &str = "text/plain; charset=utf-8";

#[derive(Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) status: Status,
    pub(crate) content_type: &'a str,
    /// Lines of its own, each with its end.
    pub(crate) headers: &'a str,
    pub(crate) body: &'a str,
}

impl<'a> Reply<'a> {
    pub(crate) fn line(status: Status, body: &'a str) -> Self {
        Reply { status, content_type: PLAIN, headers: "", body }
    }

    /// Writes it. Returns how many bytes were made, those of a body that HEAD does without as well.
    pub(crate) fn write(&self, method: Method, after: After, out: &mut ReplyBuffer) -> usize {
        let Reply { status, content_type, headers, body } = self;
        let mut head = format!("HTTP/1.1 {}\r\nContent-Type: {content_type}\r\n", status.0);
        let _ = write!(head, "Content-Length: {}\r\nCache-Control: no-store\r\n", body.len());
        head.push_str("X-Content-Type-Options: nosniff\r\n");
        head.push_str(headers);
        if after == After::Closes {
            head.push_str("Connection: close\r\n");
        }
        head.push_str("\r\n");
        out.put(head.as_bytes());
        if method != Method::Head {
            out.put(body.as_bytes());
        }
        head.len() + body.len()
    }
}

/// Where the end of a head that is not kept is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeadEnd {
    /// How much of the empty line has come: its two line ends, each with or without a carriage return.
    line_ends: u8,
}

impl HeadEnd {
    /// Whether the head ends in `input`.
    pub(crate) fn is_in(&mut self, input: &[u8]) -> bool {
        for byte in input {
            self.line_ends = match byte {
                b'\n' => self.line_ends + 1,
                b'\r' => self.line_ends,
                _ => 0,
            };
            if self.line_ends == 2 {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(input: &[u8]) -> &'static str {
        read(input, &[]).unwrap_err().status.0
    }

    #[test]
    fn a_request_is_read_when_it_is_whole() {
        let text = b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\nACCEPT: a\r\nAuthorization: Bearer t\r\nConnection: x, Close\r\n\r\nGET";
        for length in 0..text.len() - 3 {
            assert_eq!(read(&text[..length], &[]), Ok(None), "{length}");
        }
        let (request, length) = read(text, &[]).unwrap().unwrap();
        assert_eq!((length, request.path, request.after), (text.len() - 3, "/metrics", After::Closes));
        assert_eq!((request.accept, request.authorization), (&b"a"[..], &b"Bearer t"[..]));
        let old = read(b"HEAD / HTTP/1.0\n\n", &[]).unwrap().unwrap().0;
        assert_eq!((old.method, old.after), (Method::Head, After::Closes));
        let new =
            read(b"\r\nGET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", &[]).unwrap().unwrap().0;
        assert_eq!((new.method, new.after), (Method::Get, After::KeepsOpen));
    }

    #[test]
    fn what_can_be_done_is_asked_for_by_post() {
        let text = b"POST /do?what=x&for=5 HTTP/1.1\r\nHost: localhost:1\r\nX-Guira: 1\r\n\r\n";
        let (request, _) = read(text, &["/do"]).unwrap().unwrap();
        assert_eq!((request.method, request.path, request.query), (Method::Post, "/do", "what=x&for=5"));
        assert!(request.is_deliberate && request.host.is_some_and(is_address));
        assert!(read(text, &["/other"]).unwrap_err().status.0.starts_with("405"));
    }

    #[test]
    fn a_host_is_an_address_or_this_one() {
        for own in [
            "127.0.0.1:80",
            "127.0.0.1",
            "10.1.2.3:9150",
            "[::1]:80",
            "[::1]",
            "[fe80::1%25eth0]:80",
            "LocalHost:9",
            "localhost.",
        ] {
            assert!(is_address(own.as_bytes()), "{own}");
        }
        for other in
            ["example.com", "127.0.0.1.example.com:80", "localhost.example.com", "", "\u{e4}", "[x%1]"]
        {
            assert!(!is_address(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_target_with_scheme_and_host_leads_to_its_path() {
        for (target, path) in [
            ("http://host:1/metrics", "/metrics"),
            ("HTTPS://host/metrics?a=http://b/c", "/metrics"),
            ("http://host", "/"),
            ("http://host?x", "/"),
            ("http://", "/"),
            ("/http://host/metrics", "/http://host/metrics"),
            ("ftp://host/metrics", "ftp://host/metrics"),
            ("*", "*"),
        ] {
            let text = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
            assert_eq!(read(text.as_bytes(), &[]).unwrap().unwrap().0.path, path, "{target}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused_by_its_kind() {
        assert!(fault(b"set x 0 0 1\r\nx\r\n").starts_with("400"));
        assert!(fault(b"\x16\x03\x01\x02\0\x01\0\x01\xfc").starts_with("400"));
        assert!(fault(b"GET / HTTP/1.1\r\n\r\n").starts_with("400"), "no Host");
        assert!(fault(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").starts_with("400"));
        assert!(fault(b"GET / HTTP/2.0\r\nHost: a\r\n\r\n").starts_with("505"));
        assert!(fault(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("405"));
        assert!(fault(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello").starts_with("413"));
        assert!(fault(b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").starts_with("413"));
        let long = [b"GET /", "x".repeat(HEAD_MAX).as_bytes()].concat();
        assert!(fault(&long).starts_with("414"));
        let large = ["GET / HTTP/1.1\r\n", &"a: b\r\n".repeat(HEAD_MAX)].concat();
        assert!(fault(&large.as_bytes()[..HEAD_MAX + 1]).starts_with("431"));
    }

    #[test]
    fn the_form_that_is_wanted_most_is_found() {
        let prometheus =
            b"application/openmetrics-text;version=1.0.0;q=0.6, text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(preference(prometheus, "application/openmetrics-text"), 600);
        assert_eq!(preference(prometheus, "text/plain"), 500);
        assert_eq!(preference(b"text/html", "text/plain"), 0);
        assert_eq!(preference(b"Text/Plain", "text/plain"), 1000);
    }

    #[test]
    fn the_end_of_a_head_is_found_in_pieces() {
        let found = |pieces: &[&[u8]]| {
            let mut end = HeadEnd::default();
            pieces.iter().map(|piece| end.is_in(piece)).collect::<Vec<_>>()
        };
        assert_eq!(found(&[b"a: b\r\n\r", b"\n"]), [false, true]);
        assert_eq!(found(&[b"a\n", b"\r", b"b\n", b"\n"]), [false, false, false, true]);
    }
}
