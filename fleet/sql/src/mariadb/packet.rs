//! Packets: bytes with a length and a sequence number. Long packets are split.

use std::io::{self, BufReader, Read, Write};

/// The most bytes of one piece; a longer packet continues in the next.
const PIECE_MAX: usize = 0xff_ffff;
/// The most bytes of a packet that are kept. It is far more than a statement or a row should have,
/// and bounds the memory that a server can make this process use.
const KEPT_MAX: usize = 64 << 20;
/// The buffer of a longer packet is freed after its use.
const CAPACITY_MAX: usize = 1 << 20;
const BUFFER: usize = 64 << 10;

#[derive(Debug)]
pub struct Packets<S> {
    stream: BufReader<S>,
    /// The number of the next piece.
    number: u8,
    payload: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub bytes: &'a [u8],
    /// Whether these are all, and not the first 64 MiB.
    pub is_whole: bool,
}

impl<S: Read + Write> Packets<S> {
    pub(super) fn new(stream: S) -> Self {
        Packets { stream: BufReader::with_capacity(BUFFER, stream), number: 0, payload: Vec::new() }
    }

    /// The stream below, to start TLS on it.
    ///
    /// # Errors
    /// When unencrypted data has arrived that TLS would not cover.
    pub(super) fn below(&mut self) -> io::Result<&mut S> {
        if !self.is_drained() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the database sent data before TLS"));
        }
        Ok(self.stream.get_mut())
    }

    /// Whether the next packet has to be waited for.
    pub fn is_drained(&self) -> bool {
        self.stream.buffer().is_empty()
    }

    pub fn read(&mut self) -> io::Result<Packet<'_>> {
        let is_whole = self.read_payload().map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "the database closed the connection")
            }
            io::ErrorKind::WouldBlock => io::Error::new(error.kind(), "timeout: the database sends no data"),
            _ => error,
        })?;
        Ok(Packet { bytes: &self.payload, is_whole })
    }

    /// Reads a packet; returns whether all of it was kept.
    fn read_payload(&mut self) -> io::Result<bool> {
        self.payload.clear();
        self.payload.shrink_to(CAPACITY_MAX);
        let mut is_whole = true;
        loop {
            let mut head = [0; 4];
            self.stream.read_exact(&mut head)?;
            let [low, middle, high, number] = head;
            if number != self.number {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet is missing"));
            }
            self.number = number.wrapping_add(1);
            let length = u32::from_le_bytes([low, middle, high, 0]) as usize;
            let kept = length.min(KEPT_MAX - self.payload.len());
            let before = self.payload.len();
            (&mut self.stream).take(kept as u64).read_to_end(&mut self.payload)?;
            let left_out = (length - kept) as u64;
            let skipped = io::copy(&mut (&mut self.stream).take(left_out), &mut io::sink())?;
            if self.payload.len() - before < kept || skipped < left_out {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            is_whole &= left_out == 0;
            if length < PIECE_MAX {
                return Ok(is_whole);
            }
        }
    }

    /// Sends a packet of a reply: the next read continues its sequence.
    pub fn write(&mut self, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).ok().filter(|length| (*length as usize) < PIECE_MAX);
        let length = length.ok_or(io::ErrorKind::InvalidInput)?.to_le_bytes();
        let mut packet = vec![length[0], length[1], length[2], self.number];
        packet.extend_from_slice(payload);
        self.number = self.number.wrapping_add(1);
        self.stream.get_mut().write_all(&packet)
    }

    /// Sends a command, which begins a conversation of its own.
    pub fn command(&mut self, payload: &[u8]) -> io::Result<()> {
        self.number = 0;
        self.write(payload)
    }
}

/// A server whose replies are all scripted, for tests.
#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// A scripted server, and the bytes that were sent to it.
    #[derive(Debug, Default)]
    pub(in super::super) struct Script {
        pub(in super::super) says: io::Cursor<Vec<u8>>,
        pub(in super::super) sent: Vec<u8>,
    }

    impl Read for Script {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.says.read(into)
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.sent.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A conversation in which the server says these packets, the first of which has this number.
    pub(in super::super) fn says(first: u8, packets: &[&[u8]]) -> Packets<Script> {
        let mut bytes = Vec::new();
        for (index, packet) in packets.iter().enumerate() {
            bytes.extend_from_slice(&(packet.len() as u32).to_le_bytes()[..3]);
            bytes.push(first + index as u8);
            bytes.extend_from_slice(packet);
        }
        Packets::new(Script { says: io::Cursor::new(bytes), sent: Vec::new() })
    }

    impl Packets<Script> {
        pub(in super::super) fn sent(&self) -> &[u8] {
            &self.stream.get_ref().sent
        }

        /// The replies that are still to come.
        pub(in super::super) fn script_mut(&mut self) -> &mut io::Cursor<Vec<u8>> {
            &mut self.stream.get_mut().says
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{Script, says};
    use super::*;

    fn piece(number: u8, length: usize, of: u8) -> Vec<u8> {
        let mut bytes = (length as u32).to_le_bytes()[..3].to_vec();
        bytes.push(number);
        bytes.resize(4 + length, of);
        bytes
    }

    fn packets(pieces: &[Vec<u8>]) -> Packets<Script> {
        Packets::new(Script { says: io::Cursor::new(pieces.concat()), sent: Vec::new() })
    }

    #[test]
    fn packets_come_in_turn_and_answers_have_the_next_number() {
        let mut packets = says(0, &[b"one", b"", b"two"]);
        assert_eq!(packets.read().unwrap().bytes, b"one");
        packets.write(b"answer").unwrap();
        assert_eq!(packets.sent(), b"\x06\0\0\x01answer");
        packets.command(b"ask").unwrap();
        assert_eq!(packets.sent()[10..], *b"\x03\0\0\0ask");
    }

    #[test]
    fn a_long_packet_is_put_together() {
        let mut packets = packets(&[piece(0, PIECE_MAX, b'a'), piece(1, 2, b'b'), piece(2, 1, b'c')]);
        let packet = packets.read().unwrap();
        assert_eq!((packet.bytes.len(), packet.is_whole), (PIECE_MAX + 2, true));
        assert!(packet.bytes.ends_with(b"abb"));
        assert_eq!(packets.read().unwrap().bytes, b"c");
    }

    #[test]
    fn of_a_packet_that_is_too_long_the_rest_is_skipped() {
        let pieces: Vec<_> = (0..5).map(|number| piece(number, PIECE_MAX, b'a')).collect();
        let end = [piece(5, 0, b'a'), piece(6, 1, b'c')];
        let mut packets = packets(&[&pieces[..], &end[..]].concat());
        let packet = packets.read().unwrap();
        assert_eq!((packet.bytes.len(), packet.is_whole), (KEPT_MAX, false));
        assert_eq!(packets.read().unwrap().bytes, b"c");
        assert!(packets.payload.capacity() <= CAPACITY_MAX, "its memory is given back");
    }

    #[test]
    fn a_packet_that_is_missing_or_cut_is_noticed() {
        let error = |mut packets: Packets<Script>| packets.read().unwrap_err().kind();
        assert_eq!(error(says(1, &[b"second"])), io::ErrorKind::InvalidData);
        let mut cut = piece(0, 5, b'a');
        cut.pop();
        assert_eq!(error(packets(&[cut])), io::ErrorKind::UnexpectedEof);
    }
}
