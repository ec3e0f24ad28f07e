use super::*;

/// A header with these lengths.
fn header(opcode: u8, extras_len: u8, key_len: u16, body_len: u32) -> Packet {
    let mut bytes = [0; HEADER_BYTES];
    (bytes[0], bytes[1], bytes[4]) = (REQUEST_MAGIC, opcode, extras_len);
    bytes[2..4].copy_from_slice(&key_len.to_be_bytes());
    bytes[8..12].copy_from_slice(&body_len.to_be_bytes());
    bytes[12..16].copy_from_slice(b"opaq");
    bytes[16..].copy_from_slice(&77u64.to_be_bytes());
    assert_eq!(Packet::read(&bytes[..HEADER_BYTES - 1]), None);
    Packet::read(&bytes).unwrap()
}

fn command(opcode: u8, extras: &[u8], key: &[u8]) -> Binary<'static> {
    let packet = header(opcode, extras.len() as u8, key.len() as u16, (extras.len() + key.len()) as u32);
    let kind = packet.check().unwrap();
    packet.command(kind, [extras, key].concat().leak())
}

fn item(key: &'static [u8], operation: ItemOperation) -> Binary<'static> {
    Binary::Item { key, operation }
}

#[test]
fn a_response_repeats_opcode_and_opaque() {
    let packet = header(0x0c, 0, 1, 1);
    assert_eq!((packet.opaque, packet.cas, packet.value_len()), (*b"opaq", 77, 0));
    let response = Response {
        status: Status::KeyNotFound,
        cas: 0x0102_0304_0506_0708,
        extras_len: 4,
        key_len: 1,
        value_len: 300,
        ..Response::plain(packet, Status::Success)
    };
    let expected =
        [&[0x81, 0x0c, 0, 1, 4, 0, 0, 1, 0, 0, 1, 49][..], b"opaq", &[1, 2, 3, 4, 5, 6, 7, 8]].concat();
    assert_eq!(response.header(), expected.as_slice());
}

#[test]
fn every_command_is_understood_with_its_extras() {
    let get = |shown, touch| item(b"k", ItemOperation::Get { shown, touch });
    assert_eq!(command(0x00, b"", b"k"), get(Shown::Value, None));
    assert_eq!(command(0x0d, b"", b"k"), get(Shown::KeyAndValue, None));
    assert_eq!(command(0x1c, &[0, 0, 0, 9], b"k"), get(Shown::Nothing, Some(Exptime(9))));
    assert_eq!(command(0x24, &[255, 255, 255, 255], b"k"), get(Shown::KeyAndValue, Some(Exptime(i32::MAX))));
    assert_eq!(
        command(0x12, &[0, 0, 0, 1, 0, 0, 0, 2], b"k"),
        item(b"k", ItemOperation::Store(PacketStore { verb: Verb::Add, flags: 1, exptime: Exptime(2) }))
    );
    assert_eq!(
        command(0x0f, b"", b"k"),
        item(b"k", ItemOperation::Store(PacketStore { verb: Verb::Prepend, flags: 0, exptime: Exptime(0) }))
    );
    let mut extras = [0; 20];
    (extras[7], extras[15], extras[19]) = (3, 10, 60);
    let direction = Direction::Down;
    assert_eq!(
        command(0x06, &extras, b"n"),
        item(b"n", ItemOperation::Arithmetic { direction, delta: 3, initial: Some((10, Exptime(60))) })
    );
    extras[16..].fill(255);
    let Binary::Item { operation: ItemOperation::Arithmetic { initial, .. }, .. } =
        command(0x15, &extras, b"n")
    else {
        panic!("it is an increment")
    };
    assert_eq!(initial, None);
    assert_eq!(command(0x08, b"", b""), Binary::Server(ServerOperation::Flush(Exptime(0))));
    assert_eq!(command(0x18, &[0, 0, 1, 0], b""), Binary::Server(ServerOperation::Flush(Exptime(256))));
    assert_eq!(command(0x10, b"", b"items"), Binary::Server(ServerOperation::Stat(b"items")));
}

#[test]
fn lengths_that_do_not_fit_each_other_close_the_connection() {
    let close = |status| Err(BinaryFault::Close(status));
    assert_eq!(header(0x00, 0, 2, 1).check(), close(Status::UnknownCommand));
    assert_eq!(header(0x00, 0, 251, 251).check(), close(Status::InvalidArguments));
    for (opcode, extras, key, body) in [
        (0x00, 0, 0, 0),
        (0x00, 0, 1, 2),
        (0x01, 4, 1, 6),
        (0x01, 8, 0, 9),
        (0x01, 8, 1, u32::MAX),
        (0x05, 8, 1, 9),
        (0x08, 4, 1, 5),
        (0x0a, 0, 1, 1),
        (0x0e, 8, 1, 10),
        (0x10, 4, 0, 4),
        (0x1c, 0, 1, 1),
    ] {
        assert_eq!(header(opcode, extras, key, body).check(), close(Status::InvalidArguments), "{opcode:x}");
    }
    assert_eq!(header(0x20, 0, 0, 0).check(), Err(BinaryFault::Swallow(Status::UnknownCommand)));
    for (extras, body) in [(0, 0), (4, 4), (0, 1), (4, 9)] {
        assert_eq!(header(0x1b, extras, 0, body).check(), Err(BinaryFault::Swallow(Status::UnknownCommand)));
    }
    assert_eq!(header(0xff, 0, 3, 9).check(), Err(BinaryFault::Swallow(Status::UnknownCommand)));
}

#[test]
fn quiet_forms_are_known_as_such() {
    let quiet: Vec<u8> = (0..=255).filter(|opcode| header(*opcode, 0, 0, 0).quiet() == Quiet::Yes).collect();
    assert_eq!(quiet, [9, 13, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 30, 36]);
}
