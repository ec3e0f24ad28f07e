use std::io::{IoSlice, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use super::parser::{Parser, body_len};
use super::reply::Template;
use super::{Floor, Runs, Shape, Templates};
use crate::stream::Stream;
use crate::tls::{TlsClient, Trust, server_config};
use guira_harness::certificate::Authority;
use guira_serving::Outbox;

const SHAPE: Shape = Shape { key_len: 2, value_len: 3 };
const HIT: &str = "VALUE kk 0 3\r\nvvv\r\nEND\r\n";

/// The reply to `input` when it comes in pieces of `piece` bytes.
fn answers(input: &[u8], piece: usize) -> String {
    String::from_utf8(bytes_answered(input, piece)).unwrap()
}

fn bytes_answered(input: &[u8], piece: usize) -> Vec<u8> {
    let templates = Arc::new(Templates::new(SHAPE));
    let (mut parser, mut runs, mut pending, mut out) =
        (Parser::default(), Runs::default(), Vec::new(), Vec::new());
    let mut outbox = Outbox::with_capacity(0);
    for chunk in input.chunks(piece) {
        pending.extend_from_slice(chunk);
        let used = parser.read(&pending, &mut runs);
        pending.drain(..used);
        runs.reply(&templates, &mut outbox);
        outbox.collect(&mut out);
    }
    out
}

#[test]
fn packets_are_answered_as_long_as_a_caches_replies() {
    let request = |opcode: u8, key: &[u8], extras: &[u8], value: &[u8]| {
        let body = [extras, key, value].concat();
        let mut bytes = vec![0x80, opcode, 0, key.len() as u8, extras.len() as u8, 0, 0, 0];
        bytes.extend((body.len() as u32).to_be_bytes());
        bytes.resize(24, 9);
        [bytes, body].concat()
    };
    let reply = |opcode: u8, status: u8, key: &[u8], extras: &[u8], value: &[u8]| {
        let body = [extras, key, value].concat();
        let mut bytes = vec![0x81, opcode, 0, key.len() as u8, extras.len() as u8, 0, 0, status];
        bytes.extend((body.len() as u32).to_be_bytes());
        bytes.resize(24, 0);
        [bytes, body].concat()
    };
    let input = [
        request(0, b"aa", b"", b""),
        request(0x0d, b"bb", b"", b""),
        request(0x0a, b"", b"", b""),
        request(1, b"aa", &[0; 8], b"some\r\nvalue"),
        request(4, b"aa", b"", b""),
        b"get aa\r\n".to_vec(),
        request(0x10, b"", b"", b""),
    ]
    .concat();
    let expected = [
        reply(0, 0, b"", &[0; 4], b"vvv"),
        reply(0x0d, 0, b"kk", &[0; 4], b"vvv"),
        reply(0x0a, 0, b"", b"", b""),
        reply(1, 0, b"", b"", b""),
        reply(4, 0, b"", b"", b""),
        HIT.as_bytes().to_vec(),
        reply(0, 0x81, b"", b"", b""),
    ]
    .concat();
    for piece in [1, 25, 1000] {
        assert_eq!(bytes_answered(&input, piece), expected, "pieces of {piece}");
    }
}

#[test]
fn every_request_gets_a_reply_however_it_is_cut() {
    let input = b"get aa\r\nget aa bb cc\r\nset aa 0 0 7\r\nget x\r\n\r\ndelete aa\r\nget bb\r\nwhat\r\n";
    let value = "VALUE kk 0 3\r\nvvv\r\n";
    let expected = format!("{HIT}{value}{value}{value}END\r\nSTORED\r\nDELETED\r\n{HIT}ERROR\r\n");
    for piece in [1, 3, 1000] {
        assert_eq!(answers(input, piece), expected, "pieces of {piece}");
    }
}

#[test]
fn more_repetitions_than_the_template_holds() {
    let input = b"get aa\r\n".repeat(20_000);
    assert_eq!(answers(&input, input.len()), HIT.repeat(20_000));
}

#[test]
fn repetitions_go_on_wherever_sending_has_stopped() {
    let templates = Arc::new(Templates::new(SHAPE));
    let (mut runs, mut outbox, mut out) = (Runs::default(), Outbox::with_capacity(0), Vec::new());
    runs.push(Template::Hit, 20_000);
    runs.reply(&templates, &mut outbox);
    let (mut stream, mut client) = socket_pair();
    let mut piece = vec![0; 10_000];
    while out.len() < HIT.len() * 20_000 {
        outbox.send(&mut stream, 7777).unwrap();
        let count = client.read(&mut piece).unwrap();
        out.extend_from_slice(&piece[..count]);
    }
    assert!(outbox.is_empty() && out == HIT.repeat(20_000).as_bytes());
}

fn socket_pair() -> (guira_transport::Stream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (guira_transport::Stream::Unix(ours), theirs)
}

#[test]
fn the_body_length_is_the_last_number_of_the_line() {
    assert_eq!(body_len(b"set key1 0 5 32\r"), 32);
    assert_eq!(body_len(b"set key1 0 5 \r"), 0);
}

#[test]
fn a_datagram_is_answered_with_its_number() {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut floor = Floor::bind(any, Shape { key_len: 2, value_len: 1400 }).unwrap();
    let addr = floor.bind_udp(any).unwrap();
    thread::spawn(move || floor.serve());
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect(addr).unwrap();
    let ask = |text: &str| socket.send(&[b"\x07\x09\0\0\0\x01\0\0", text.as_bytes()].concat()).unwrap();
    let mut bytes = [0; 2000];
    ask("get aa\r\n");
    let count = socket.recv(&mut bytes).unwrap();
    assert_eq!((count, &bytes[..24]), (1400, b"\x07\x09\0\0\0\x02\0\0VALUE kk 0 1400\r".as_slice()));
    let count = socket.recv(&mut bytes).unwrap();
    assert_eq!(&bytes[..8], b"\x07\x09\0\x01\0\x02\0\0");
    assert!(bytes[..count].ends_with(b"vv\r\nEND\r\n"));
    ask("set aa 0 0 1\r\nx\r\n");
    let count = socket.recv(&mut bytes).unwrap();
    assert_eq!(&bytes[..count], b"\x07\x09\0\0\0\x01\0\0STORED\r\n");
}

#[test]
fn over_tls_a_long_pipeline_is_answered_to_its_end() {
    let authority = Authority::new().unwrap();
    let mut floor = Floor::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SHAPE).unwrap();
    floor.speak_tls(server_config(&authority.certificate(), &authority.key()).unwrap());
    let addr = floor.local_addr().unwrap();
    thread::spawn(move || floor.serve());
    let mut socket = TcpStream::connect(addr).unwrap();
    let tls = TlsClient::new(Trust::Authority(&authority.root())).unwrap();
    let session = tls.shake_hands(&mut socket, addr).unwrap();
    let mut stream = Stream::tls(socket, session);
    let request = b"get aa\r\n".repeat(20_000);
    let mut unsent = request.as_slice();
    while !unsent.is_empty() {
        let count = stream.write(&[IoSlice::new(unsent)]).unwrap();
        unsent = &unsent[count..];
    }
    stream.flush().unwrap();
    let (mut reply, mut piece) = (Vec::new(), vec![0; 10_000]);
    while reply.len() < HIT.len() * 20_000 {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "the floor closed the connection");
        reply.extend_from_slice(&piece[..count]);
    }
    assert_eq!(reply, HIT.repeat(20_000).as_bytes());
}

#[test]
fn a_socket_is_answered() {
    let floor = Floor::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SHAPE).unwrap();
    let addr = floor.local_addr().unwrap();
    thread::spawn(move || floor.serve());
    let mut socket = TcpStream::connect(addr).unwrap();
    socket.write_all(b"get aa\r\nset aa 0 0 1\r\nx\r\n").unwrap();
    let mut reply = vec![0; HIT.len() + 8];
    socket.read_exact(&mut reply).unwrap();
    assert_eq!(reply, [HIT.as_bytes(), b"STORED\r\n"].concat());
}
