//! The frame that each datagram begins with, of requests and of replies:
//!
//! ```text
//! | request id | sequence number | datagrams in the message | reserved |      2 bytes each, big-endian
//! ```

use guira_protocol::binary::RESPONSE_MAGIC;

pub const FRAME_BYTES: usize = 8;
/// Bytes of a reply in one datagram, so that it fits into a packet of Ethernet: memcached's 1,400 less the frame.
pub const FRAMED_MAX: usize = 1400 - FRAME_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed<'d> {
    pub id: [u8; 2],
    pub bytes: &'d [u8],
}

impl<'d> Framed<'d> {
    /// What a datagram holds; `None` if that is no request.
    pub fn of(datagram: &'d [u8]) -> Option<Self> {
        let (frame, bytes) = datagram.split_first_chunk::<FRAME_BYTES>()?;
        // As in memcached: a request that is said to have several datagrams is no request.
        (frame[4..6] == [0, 1] && !is_reply(bytes)).then_some(Framed { id: [frame[0], frame[1]], bytes })
    }
}

/// The datagrams of a message, each as its frame and its part of the message. Of an empty one there are none.
pub fn frames(id: [u8; 2], message: &[u8]) -> impl Iterator<Item = ([u8; FRAME_BYTES], &[u8])> {
    let total = (message.len().div_ceil(FRAMED_MAX) as u16).to_be_bytes();
    message.chunks(FRAMED_MAX).enumerate().map(move |(sequence, payload)| {
        let sequence = (sequence as u16).to_be_bytes();
        ([id[0], id[1], sequence[0], sequence[1], total[0], total[1], 0, 0], payload)
    })
}

/// Whether this is what a server says: two servers would answer each other for ever, once one of them gets a forged datagram in the
/// other's name.
fn is_reply(request: &[u8]) -> bool {
    let errors: [&[u8]; 3] = [b"ERROR", b"CLIENT_ERROR ", b"SERVER_ERROR "];
    request.first() == Some(&RESPONSE_MAGIC) || errors.iter().any(|error| request.starts_with(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_told_from_requests() {
        for reply in ["ERROR\r\n", "CLIENT_ERROR bad\r\n", "SERVER_ERROR out of memory\r\n", "\u{81}"] {
            let bytes: Vec<u8> = reply.chars().map(|byte| byte as u8).collect();
            assert!(is_reply(&bytes), "{reply}");
        }
        assert!(!is_reply(b"get ERROR\r\n") && !is_reply(b""));
    }

    #[test]
    fn a_message_is_put_together_again_by_its_frames() {
        let message: Vec<u8> = (0..2 * FRAMED_MAX + 5).map(|at| at as u8).collect();
        let datagrams: Vec<_> = frames([1, 2], &message).collect();
        assert_eq!(datagrams.iter().flat_map(|(_, part)| part.to_vec()).collect::<Vec<_>>(), message);
        assert_eq!(datagrams[2].0, [1, 2, 0, 2, 0, 3, 0, 0]);
        assert_eq!(frames([1, 2], b"").count(), 0);
        let request = [[9, 8, 0, 0, 0, 1, 0, 0].as_slice(), b"get key\r\n"].concat();
        assert_eq!(Framed::of(&request), Some(Framed { id: [9, 8], bytes: b"get key\r\n" }));
    }
}
