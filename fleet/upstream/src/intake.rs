//! Buffers the bytes of a server that are no whole reply yet.

const READ_BYTES: usize = 64 << 10;
/// The buffer shrinks to this size after a long reply.
const KEPT_MAX: usize = 1 << 20;

/// A buffer for replies, which are read behind the rest of the last read. Usually there is no rest:
/// then all servers of a worker share one buffer, and a long reply has its own until it is
/// complete.
#[derive(Debug, Default)]
pub struct Intake {
    bytes: Vec<u8>,
    filled: usize,
    /// The length of the first reply in bytes, as far as known.
    wanted: usize,
}

impl Intake {
    /// The buffer to read a server's replies into, behind its rest: a long reply stays in its own
    /// buffer, and all other servers use the shared one.
    pub fn lent(rest: &mut Intake, shared: &mut Option<Intake>) -> Intake {
        let rest = std::mem::take(rest);
        if rest.is_long() {
            return rest;
        }
        let mut intake = shared.take().unwrap_or_default();
        if !rest.is_empty() {
            intake.put_back(&rest);
        }
        intake
    }

    /// Keeps an incomplete reply until more arrives, and returns the buffer if it is the shared
    /// one.
    pub fn keep(mut self, rest: &mut Intake, shared: &mut Option<Intake>) {
        if shared.is_some() {
            *rest = self;
            return;
        }
        *rest = self.take_rest();
        *shared = Some(self);
    }

    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Space to read into. For a long reply it grows with the bytes that have arrived, so that a
    /// server cannot make the router allocate memory by announcing a length.
    pub fn space(&mut self) -> &mut [u8] {
        let least = if self.is_long() {
            self.wanted.min(self.filled + KEPT_MAX.max(self.filled))
        } else {
            self.filled + READ_BYTES
        };
        if self.bytes.len() < least {
            self.bytes.resize(least, 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// Records that `bytes` bytes were read.
    pub fn filled(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    /// The bytes that may have a complete reply.
    pub fn input(&self) -> &[u8] {
        if self.filled < self.wanted { &[] } else { &self.bytes[..self.filled] }
    }

    /// Removes `bytes` bytes; the next reply has `wanted` bytes.
    pub fn taken(&mut self, bytes: usize, wanted: usize) {
        if self.filled < self.wanted {
            return;
        }
        self.bytes.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
        self.wanted = wanted;
        if self.bytes.len() > KEPT_MAX.max(wanted) {
            self.bytes.truncate(KEPT_MAX.max(self.filled));
            self.bytes.shrink_to_fit();
        }
    }

    /// Whether the reply is so long that its buffer is its own, and not shared.
    pub fn is_long(&self) -> bool {
        self.wanted > READ_BYTES.max(self.filled)
    }

    /// Puts the rest into this empty buffer.
    pub fn put_back(&mut self, rest: &Intake) {
        let bytes = &rest.bytes[..rest.filled];
        self.space()[..bytes.len()].copy_from_slice(bytes);
        (self.filled, self.wanted) = (rest.filled, rest.wanted);
    }

    /// Moves the rest into a buffer of its own.
    pub fn take_rest(&mut self) -> Intake {
        if self.is_empty() {
            return Intake::default();
        }
        let mut rest = Intake {
            bytes: Vec::with_capacity(self.wanted.min(self.filled + KEPT_MAX)),
            filled: self.filled,
            wanted: self.wanted,
        };
        rest.bytes.extend_from_slice(&self.bytes[..self.filled]);
        (self.filled, self.wanted) = (0, 0);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(intake: &mut Intake, bytes: &[u8]) {
        intake.space()[..bytes.len()].copy_from_slice(bytes);
        intake.filled(bytes.len());
    }

    #[test]
    fn what_is_left_over_is_in_front_of_what_comes() {
        let mut shared = Intake::default();
        read(&mut shared, b"one two thr");
        assert_eq!(shared.input(), b"one two thr");
        shared.taken(8, 0);
        let mut own = shared.take_rest();
        assert!(shared.is_empty() && !own.is_empty());
        read(&mut own, b"ee four");
        assert_eq!(own.input(), b"three four");
        own.taken(10, 0);
        assert!(own.is_empty());
    }

    #[test]
    fn a_long_reply_is_looked_at_again_when_it_is_there() {
        let mut intake = Intake::default();
        read(&mut intake, b"0123");
        intake.taken(0, 3 * READ_BYTES);
        let mut own = intake.take_rest();
        let mut looks = 0;
        while own.filled < 3 * READ_BYTES {
            let length = own.space().len().min(4096);
            read(&mut own, &[b'x'; 4096][..length]);
            looks += usize::from(!own.input().is_empty());
            if own.input().is_empty() {
                own.taken(0, 0);
            }
        }
        assert_eq!(looks, 1);
        assert!(own.bytes.capacity() < 4 * READ_BYTES, "it is read to where it stays");
    }

    #[test]
    fn a_reply_that_is_announced_takes_no_memory_before_it_comes() {
        let mut intake = Intake::default();
        read(&mut intake, b"VA 1073741824\r\n");
        intake.taken(0, 1 << 30);
        let mut own = intake.take_rest();
        for _ in 0..100 {
            own.space();
            own.filled(1000);
        }
        assert!(own.bytes.capacity() < 3 * KEPT_MAX && own.is_long(), "{}", own.bytes.capacity());
    }

    #[test]
    fn a_long_reply_does_not_keep_its_memory() {
        let mut intake = Intake::default();
        read(&mut intake, b"0");
        intake.taken(0, 8 << 20);
        while intake.is_long() {
            let length = intake.space().len();
            intake.filled(length);
        }
        assert!(intake.input().len() >= 8 << 20);
        intake.taken(intake.filled, 0);
        assert!(intake.bytes.capacity() <= 2 * KEPT_MAX);
    }
}
