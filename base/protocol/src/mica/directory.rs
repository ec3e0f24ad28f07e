//! The directory: what a client needs of a server to choose the thread that a request reaches.

use super::{DATAGRAM_HEADER, Header, Kind, u16_at, u32_at, u64_at};

/// Bytes of a directory behind the header.
const DIRECTORY_BYTES: usize = 24;

/// Which threads may access a partition of keys (MICA, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PartitionAccess {
    /// There are no partitions: every thread serves every key.
    Shared = 0,
    /// One thread reads and writes.
    Erew = 1,
    /// One thread writes, all threads read.
    Crew = 2,
    /// All threads read and write.
    Crcw = 3,
}

/// How keys are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HashFunction {
    /// The server hashes, and ignores the hashes of clients, which may choose any thread.
    Servers = 0,
    /// rapidhash v3, variant micro, with the seed in the directory.
    RapidMicro = 1,
}

/// How a server divides its keys among its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Identifies the directory: a server that divides or hashes keys differently has another generation.
    pub generation: u32,
    /// Which threads may access a partition.
    pub access: PartitionAccess,
    /// How keys are hashed.
    pub hash: HashFunction,
    /// The number of threads. Thread *n* receives datagrams at port `port + n`.
    pub cores: u16,
    /// The number of highest bits of a hash that select the partition.
    pub partition_bits: u16,
    /// The port of the first thread.
    pub port: u16,
    /// The seed of the hash.
    pub seed: u64,
    /// The longest datagram, in bytes.
    pub datagram_max: u32,
}

impl Directory {
    /// The thread to which a key with this hash belongs.
    #[inline(always)]
    pub fn home(&self, hash: u64) -> usize {
        let partition =
            if self.partition_bits == 0 { 0 } else { hash >> (64 - u32::from(self.partition_bits)) };
        ((partition * u64::from(self.cores)) >> self.partition_bits) as usize
    }

    /// Writes it as the answer to `asked` to the beginning of `out`, and returns the length of the datagram, in
    /// bytes.
    ///
    /// # Panics
    /// If `out` is shorter than the datagram.
    pub fn write(&self, asked: Header, out: &mut [u8]) -> usize {
        asked.answer(Kind::Directory, 0, self.generation).write(out);
        let body = &mut out[DATAGRAM_HEADER..DATAGRAM_HEADER + DIRECTORY_BYTES];
        body[0] = self.access as u8;
        body[1] = self.hash as u8;
        body[2..4].copy_from_slice(&self.cores.to_le_bytes());
        body[4..6].copy_from_slice(&self.partition_bits.to_le_bytes());
        body[6..8].copy_from_slice(&self.port.to_le_bytes());
        body[8..16].copy_from_slice(&self.seed.to_le_bytes());
        body[16..20].copy_from_slice(&self.datagram_max.to_le_bytes());
        body[20..24].fill(0);
        DATAGRAM_HEADER + DIRECTORY_BYTES
    }

    /// Reads a directory from a datagram; `None` if it is malformed.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let header = Header::read(datagram).ok().filter(|header| header.kind == Kind::Directory)?;
        let body = datagram[DATAGRAM_HEADER..].first_chunk::<DIRECTORY_BYTES>()?;
        let access = match body[0] {
            0 => PartitionAccess::Shared,
            1 => PartitionAccess::Erew,
            2 => PartitionAccess::Crew,
            3 => PartitionAccess::Crcw,
            _ => return None,
        };
        let hash = match body[1] {
            0 => HashFunction::Servers,
            1 => HashFunction::RapidMicro,
            _ => return None,
        };
        let directory = Directory {
            generation: header.generation,
            access,
            hash,
            cores: u16_at(body, 2),
            partition_bits: u16_at(body, 4),
            port: u16_at(body, 6),
            seed: u64_at(body, 8),
            datagram_max: u32_at(body, 16),
        };
        (directory.cores > 0 && directory.partition_bits < 32).then_some(directory)
    }

    /// Writes a datagram that asks for the directory to the beginning of `out`, and returns its length, in bytes.
    ///
    /// # Panics
    /// If `out` is shorter than the datagram.
    pub fn request(sequence: u32, opaque: u64, out: &mut [u8]) -> usize {
        let header = Header { kind: Kind::DirectoryRequest, count: 0, generation: 0, sequence, opaque };
        header.write(out);
        // As long as the answer, so that the protocol cannot be used for amplification.
        out[DATAGRAM_HEADER..DATAGRAM_HEADER + DIRECTORY_BYTES].fill(0);
        DATAGRAM_HEADER + DIRECTORY_BYTES
    }
}
