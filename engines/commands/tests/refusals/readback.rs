//! What the node writes, the client's codec reads back, in any pieces.

use super::asking::{Client, Delivery};
use super::items::{ITEMS, LONG};
use super::requests;
use guira_contract::Engine;
use guira_protocol::binary::{Status, opcode};
use guira_protocol::client::{self, Item, MetaReply, Read, ReadPacket, Reply, RequestHeader};
use guira_protocol::word::reply;
use guira_protocol::{GetForm, MetaVerb, Unique, Verb};
use guira_slab::{CuckooEngine, EngineOptions, SlabOptions};

/// Longer values are read as well as any.
const VALUE_MAX: u32 = 1 << 20;

/// Replies of fewer bytes are read byte by byte too.
const SHORT: usize = 500;

fn engine() -> CuckooEngine {
    let options = SlabOptions { engine: EngineOptions::of(16 << 20), ..SlabOptions::default() };
    CuckooEngine::open(options).expect("there is memory for an engine")
}

/// The parts of a reply: its line or header, and its value.
type Parts = (Vec<u8>, Vec<u8>);

/// The next reply of the text protocols and its length; `None` if it has not arrived altogether.
fn text(input: &[u8]) -> Option<(Parts, usize)> {
    let (reply, length) = match client::read(input, VALUE_MAX) {
        Read::Reply(reply, length) => (reply, length),
        Read::Unfinished(_) => return None,
        other => panic!("{other:?}: {}", input.escape_ascii()),
    };
    let value = match reply {
        Reply::Value(value) | Reply::Lease(value) => value.value,
        Reply::MetaValue { value, .. } => value,
        Reply::End | Reply::Line(_) => b"",
    };
    Some(((reply.line().to_vec(), value.to_vec()), length))
}

/// The same of the binary protocol.
fn packet(input: &[u8]) -> Option<(Parts, usize)> {
    let (reply, length) = match client::read_packet(input, VALUE_MAX) {
        ReadPacket::Reply(reply, length) => (reply, length),
        ReadPacket::Unfinished(_) => return None,
        other => panic!("{other:?}: {}", input.escape_ascii()),
    };
    assert!(reply.status().is_some(), "{reply:?}");
    Some(((input[..length - reply.value.len()].to_vec(), reply.value.to_vec()), length))
}

/// All replies of a stream that arrives in pieces of so many bytes.
fn replies(stream: &[u8], piece: usize, next: fn(&[u8]) -> Option<(Parts, usize)>) -> Vec<Parts> {
    let (mut input, mut replies) = (Vec::new(), Vec::new());
    for piece in stream.chunks(piece) {
        input.extend_from_slice(piece);
        while let Some((reply, length)) = next(&input) {
            replies.push(reply);
            input.drain(..length);
        }
    }
    assert!(input.is_empty(), "not read: {}", input.escape_ascii());
    replies
}

fn check(stream: &[u8], next: fn(&[u8]) -> Option<(Parts, usize)>) {
    let whole = replies(stream, stream.len().max(1), next);
    let pieces: &[usize] = if stream.len() < SHORT { &[1, 2, 7] } else { &[13, 997, 16_000] };
    for piece in pieces {
        assert!(replies(stream, *piece, next) == whole, "in pieces of {piece}: {}", stream.escape_ascii());
    }
}

#[test]
fn every_reply_is_read_in_any_pieces() {
    let engine = engine();
    let mut client = Client::new(engine.session());
    let lines = [requests::text(), requests::meta()].into_iter().flatten();
    let lines = lines.map(|request| (request, text as fn(&[u8]) -> _));
    let packets = requests::packets().into_iter().map(|request| (request, packet as fn(&[u8]) -> _));
    for (request, next) in lines.chain(packets) {
        for before in ITEMS {
            client.forget_calls();
            before.prepare(&mut client);
            check(&client.ask(&request.bytes, Delivery::Whole), next);
        }
    }
}

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }

    fn bytes(&mut self, length: usize, alphabet: &[u8]) -> Vec<u8> {
        (0..length).map(|_| alphabet[self.below(alphabet.len())]).collect()
    }
}

#[test]
fn random_items_are_read_as_they_were_stored() {
    let engine = engine();
    let mut client = Client::new(engine.session());
    let mut numbers = Numbers(1);
    for _ in 0..500 {
        client.forget_calls();
        let key_length = 1 + numbers.below(250);
        let key = numbers.bytes(key_length, b"VALUE0:x/+=ENDk");
        let value_length = if numbers.below(10) == 0 { LONG } else { numbers.below(300) };
        let value = numbers.bytes(value_length, b"\r\nEND VALUE0\x81\0");
        let flags = numbers.below(1 << 31) as u32 * 2 + 1;
        let item = Item { flags: flags.into(), exptime: 0, value: &value };
        let mut request = Vec::new();
        client::store(Verb::Set, &key, item, &mut request);
        let mut stream = client.ask(&request, Delivery::Whole);

        request.clear();
        client::get(GetForm::Plain(Unique::Shown), [&key[..]], &mut request);
        let hit = client.ask(&request, Delivery::Whole);
        let (read, length) = client::value_of(&hit, &key).expect("it is a hit");
        assert_eq!((read.flags, read.value, &hit[length..]), (item.flags, &value[..], &b"END\r\n"[..]));
        assert_eq!(client::read(&hit, VALUE_MAX), Read::Reply(Reply::Value(read), length));
        stream.extend_from_slice(&hit);

        request.clear();
        client::meta(MetaVerb::Get, &key, &mut request).flags(b"v f c k O5").end();
        let hit = client.ask(&request, Delivery::Whole);
        let Read::Reply(Reply::MetaValue { line, value: found }, _) = client::read(&hit, VALUE_MAX) else {
            panic!("{}", hit.escape_ascii());
        };
        let meta = MetaReply::of(line);
        assert_eq!((meta.number(b'f'), meta.number(b'c')), (Some(item.flags), read.number));
        assert_eq!((meta.flag(b'k'), found), (Some(&key[..]), &value[..]));
        assert!(client::belongs(request.trim_ascii_end(), line, true));
        stream.extend_from_slice(&hit);

        request.clear();
        client::meta(MetaVerb::Get, &key, &mut request).flags(b"v f c").number(b'O', flags).end();
        let reply = client.ask(&request, Delivery::Whole);
        let (hit, length) = client::meta_hit(&reply).expect("it is a hit");
        assert_eq!((hit.flags, hit.unique, hit.opaque), (item.flags, read.number, flags));
        assert_eq!((hit.value, length), (&value[..], reply.len()));
        stream.extend_from_slice(&reply);

        request.clear();
        let header = RequestHeader { opcode: opcode::GETK, opaque: flags, ..RequestHeader::default() };
        client::packet(header, [b"", &key, b""], &mut request);
        let reply = client.ask(&request, Delivery::Whole);
        let ReadPacket::Reply(hit, length) = client::read_packet(&reply, VALUE_MAX) else { panic!() };
        assert_eq!((hit.status(), hit.flags(), length), (Some(Status::Success), Some(flags), reply.len()));
        assert_eq!(
            (hit.opaque, Some(hit.cas), hit.key, hit.value),
            (flags, read.number, &key[..], &value[..])
        );
        check(&reply, packet);

        request.clear();
        client::delete(&key, 0, &mut request);
        stream.extend(client.ask(&request, Delivery::Whole));
        check(&stream, text);
        let lines: Vec<Vec<u8>> = replies(&stream, 64, text).into_iter().map(|(line, _)| line).collect();
        assert_eq!((&lines[0][..], lines.len()), (reply::STORED, 6));
        assert_eq!((&lines[2][..], &lines[5][..]), (reply::END, reply::DELETED));
    }
}
