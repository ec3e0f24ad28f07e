use super::*;
use crate::binary::{Binary, ItemOperation, Packet, PacketStore, Response, opcode};
use crate::{Direction, Exptime, Verb};

const MAX: u32 = 100;

/// A hit of a getk.
const HIT: &[u8] = b"\x81\x0c\0\x03\x04\0\0\0\0\0\0\x0c\0\0\0\x09\0\0\0\0\0\0\0\x07\0\0\0\x05keyhello";

#[test]
fn a_reply_is_read_when_all_of_it_has_arrived() {
    for length in 0..HIT.len() {
        let expected = if length < HEADER_BYTES { HEADER_BYTES } else { HIT.len() };
        assert_eq!(read_packet(&HIT[..length], MAX), ReadPacket::Unfinished(expected));
    }
    let more = [HIT, b"\x81"].concat();
    let ReadPacket::Reply(reply, length) = read_packet(&more, MAX) else { panic!() };
    assert_eq!((length, reply.opcode, reply.opaque, reply.cas), (HIT.len(), opcode::GETK, 9, 7));
    assert_eq!((reply.status(), reply.flags(), reply.number()), (Some(Status::Success), Some(5), None));
    assert_eq!((reply.key, reply.value, reply.is_empty()), (&b"key"[..], &b"hello"[..], false));
}

#[test]
fn a_reply_that_no_server_sends_is_broken() {
    let changed = |at: usize, byte: u8| {
        let mut bytes = HIT.to_vec();
        bytes[at] = byte;
        bytes
    };
    for (at, byte) in [(0, 0x80), (0, 0), (5, 1)] {
        assert_eq!(read_packet(&changed(at, byte), MAX), ReadPacket::Broken("is not a reply"));
    }
    for (at, byte) in [(2, 1), (3, 9), (4, 10), (8, 0x80), (9, 1), (11, MAX as u8 + 1), (11, 6)] {
        assert_eq!(
            read_packet(&changed(at, byte), MAX),
            ReadPacket::Broken("has an impossible length"),
            "{at}"
        );
    }
    let unknown = changed(6, 1);
    let ReadPacket::Reply(reply, _) = read_packet(&unknown, MAX) else { panic!() };
    assert_eq!((reply.code, reply.status()), (0x100, None));
}

#[test]
fn requests_have_their_parts_in_order() {
    let mut out = Vec::new();
    let header = RequestHeader { opcode: opcode::SET, opaque: 9, cas: 7, ..RequestHeader::default() };
    packet(header, [&store_extras(5, 60), b"key", b"hello"], &mut out);
    let expected: &[u8] =
        b"\x80\x01\0\x03\x08\0\0\0\0\0\0\x10\0\0\0\x09\0\0\0\0\0\0\0\x07\0\0\0\x05\0\0\0\x3ckeyhello";
    assert_eq!(out, expected);
}

/// The command that the server reads.
fn command(bytes: &[u8]) -> (Packet, Binary<'_>) {
    let packet = Packet::read(bytes).unwrap();
    let kind = packet.check().unwrap();
    (packet, packet.command(kind, &bytes[HEADER_BYTES..][..packet.head_len()]))
}

#[test]
fn the_server_reads_the_packets_that_the_codec_writes() {
    for number in [0, 1, 0x7fff_ffff, 0x1234_5678_9abc_def0, u64::MAX] {
        let (key, value, word) = (vec![b'k'; 1 + number as usize % 250], [b'v'; 40], number as u32);
        let mut out = Vec::new();
        let header =
            RequestHeader { opcode: opcode::ADD, opaque: word, cas: number, ..RequestHeader::default() };
        packet(header, [&store_extras(word, 60), &key, &value], &mut out);
        let (read, command_) = command(&out);
        assert_eq!((read.opaque, read.cas, read.value_len()), (word.to_be_bytes(), number, 40));
        let store = PacketStore { verb: Verb::Add, flags: word, exptime: Exptime(60) };
        assert_eq!(command_, Binary::Item { key: &key, operation: ItemOperation::Store(store) });
        out.clear();
        packet(
            RequestHeader { opcode: opcode::DECR, ..header },
            [&arithmetic_extras(number), &key, b""],
            &mut out,
        );
        let operation =
            ItemOperation::Arithmetic { direction: Direction::Down, delta: number, initial: None };
        assert_eq!(command(&out).1, Binary::Item { key: &key, operation });
    }
}

#[test]
fn the_codec_reads_the_packets_that_the_server_writes() {
    let packet = Packet::echo(opcode::GETKQ, *b"\x01\x02\x03\x04");
    for status in [Status::Success, Status::KeyNotFound, Status::OutOfMemory, Status::TemporaryFailure] {
        let plain = Response::plain(packet, status);
        let response =
            Response { cas: u64::MAX - 5, extras_len: 4, key_len: 250, value_len: 70_000, ..plain };
        let body = [&b"\0\0\x01\0"[..], &[b'k'; 250], &[b'v'; 70_000]].concat();
        let whole = [&response.header()[..], &body].concat();
        for at in [0, 23, 24, 28, 300, whole.len() - 1] {
            assert!(matches!(read_packet(&whole[..at], u32::MAX), ReadPacket::Unfinished(_)), "{at}");
        }
        let ReadPacket::Reply(reply, length) = read_packet(&whole, u32::MAX) else { panic!() };
        assert_eq!((length, reply.status(), reply.cas), (whole.len(), Some(status), u64::MAX - 5));
        assert_eq!((reply.opcode, reply.opaque, reply.flags()), (opcode::GETKQ, 0x0102_0304, Some(256)));
        assert_eq!((reply.key.len(), reply.value.len()), (250, 70_000));
    }
}
