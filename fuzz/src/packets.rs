//! Packets of the binary protocol: whatever comes is read without a panic, its lengths add up, and a command that is understood
//! lies within its extras and key.

use guira_protocol::binary::{Binary, BinaryFault, HEADER_BYTES, Packet, Response, Status};

/// Checks that the laws hold for `input`.
pub fn check(input: &[u8]) {
    let Some(packet) = Packet::read(input) else {
        assert!(input.len() < HEADER_BYTES);
        return;
    };
    let kind = match packet.check() {
        Ok(kind) => kind,
        Err(BinaryFault::Close(status) | BinaryFault::Swallow(status)) => {
            assert!(status != Status::Success && !status.text().is_empty());
            return;
        }
    };
    assert_eq!(packet.head_len() as u64 + u64::from(packet.value_len()), u64::from(packet.body_len()));
    let Some(head) = input[HEADER_BYTES..].get(..packet.head_len()) else {
        return;
    };
    let Binary::Item { key, .. } = packet.command(kind, head) else {
        return;
    };
    assert!((1..=250).contains(&key.len()) && head.ends_with(key));
    let header = Response::plain(packet, Status::Success).header();
    assert_eq!((header[0], header[1], &header[12..16]), (0x81, input[1], &input[12..16]));
}
