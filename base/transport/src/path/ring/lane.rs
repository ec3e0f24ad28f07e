//! A ring of datagrams with one producer and one consumer, which do not trust each other.
//!
//! ```text
//! word    0 tail: where the producer writes next        8 head: where the consumer reads next     (one line each)
//!        16 asleep: the consumer waits for its bell     24 starving: the producer waits for space
//!        32 datagrams: a word with the length, then the bytes; a length of WRAP: continue at the beginning
//! ```
//!
//! Head and tail count words from the start, modulo 2^64; the index in the ring is their remainder modulo the
//! capacity.

use super::shared::Shared;
use crate::path::PAYLOAD_MAX;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::sleep::{fall_asleep, must_wake, wake_up};
use guira_sync::words::{self, WORD};
use std::sync::Arc;

const TAIL: usize = 0;
const HEAD: usize = 8;
const ASLEEP: usize = 16;
const STARVING: usize = 24;
const DATA: usize = 32;

const LONGEST: usize = 1 + PAYLOAD_MAX.div_ceil(WORD);
/// With this much space the longest datagram fits, wherever the end of the ring is.
const LONGEST_ANYWHERE: u64 = 2 * LONGEST as u64;
const WRAP: u64 = u64::MAX;

/// The other end has written invalid data: it is broken or hostile, and its rings are not used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// Words of a ring with `capacity` words for datagrams.
pub(super) const fn ring_words(capacity: usize) -> usize {
    DATA + capacity
}

#[derive(Clone, Debug)]
pub(super) struct RingArea {
    pub(super) memory: Arc<Shared>,
    /// The index of its first word.
    pub(super) from: usize,
    /// Words for datagrams: a power of two.
    pub(super) capacity: usize,
}

impl RingArea {
    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU64 {
        &self.memory.words()[self.from + at]
    }

    #[inline(always)]
    fn data(&self) -> &[AtomicU64] {
        &self.memory.words()[self.from + DATA..][..self.capacity]
    }

    #[inline(always)]
    fn index(&self, position: u64) -> usize {
        position as usize & (self.capacity - 1)
    }
}

#[derive(Debug)]
pub(super) struct Producer {
    area: RingArea,
    tail: u64,
    /// The tail that the consumer knows.
    published: u64,
    /// The consumer's head when it was last read.
    head: u64,
}

impl Producer {
    /// The producer of an empty ring.
    pub(super) fn new(area: RingArea) -> Self {
        Producer { area, tail: 0, published: 0, head: 0 }
    }

    /// Whether `count` datagrams of any length fit.
    #[inline(always)]
    pub(super) fn has_space(&mut self, count: usize) -> Result<bool, Broken> {
        let wanted = count as u64 * LONGEST_ANYWHERE;
        if self.free_words() >= wanted {
            return Ok(true);
        }
        // Acquire: pairs with the Release in `Consumer::release`: the consumer has read what is overwritten.
        let head = self.area.word(HEAD).load(Ordering::Acquire);
        if self.tail.wrapping_sub(head) > self.area.capacity as u64 {
            return Err(Broken);
        }
        self.head = head;
        Ok(self.free_words() >= wanted)
    }

    /// Free words, as far as known.
    #[inline(always)]
    fn free_words(&self) -> u64 {
        self.area.capacity as u64 - self.tail.wrapping_sub(self.head)
    }

    /// Asks the consumer to wake this end when there is space. Checks once more whether one datagram fits.
    pub(super) fn wait_for_space(&mut self) -> Result<bool, Broken> {
        fall_asleep(self.area.word(STARVING));
        self.has_space(1)
    }

    /// Adds a datagram, which has to fit.
    #[inline(always)]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let length = 1 + bytes.len().div_ceil(WORD);
        let mut at = self.area.index(self.tail);
        let data = self.area.data();
        if at + length > data.len() {
            words::store(&data[at], WRAP);
            self.tail = self.tail.wrapping_add((data.len() - at) as u64);
            at = 0;
        }
        words::store(&data[at], bytes.len() as u64);
        words::copy_in(data, (at + 1) * WORD, bytes);
        self.tail = self.tail.wrapping_add(length as u64);
    }

    /// Publishes all added datagrams. True if the consumer has to be woken.
    #[inline(always)]
    pub(super) fn publish(&mut self) -> bool {
        if self.tail == self.published {
            return false;
        }
        self.published = self.tail;
        // Release: pairs with the Acquire in `Consumer::look`: a consumer that sees the tail sees the datagrams
        // before it.
        self.area.word(TAIL).store(self.tail, Ordering::Release);
        must_wake(self.area.word(ASLEEP))
    }
}

#[derive(Debug)]
pub(super) struct Consumer {
    area: RingArea,
    head: u64,
    /// The head that the producer knows.
    released: u64,
    /// The producer's tail when it was last read.
    tail: u64,
}

impl Consumer {
    /// The consumer of an empty ring.
    pub(super) fn new(area: RingArea) -> Self {
        Consumer { area, head: 0, released: 0, tail: 0 }
    }

    /// Whether there is a datagram to read.
    #[inline(always)]
    pub(super) fn look(&mut self) -> Result<bool, Broken> {
        if self.head != self.tail {
            return Ok(true);
        }
        // Acquire: pairs with the Release in `Producer::publish`.
        let tail = self.area.word(TAIL).load(Ordering::Acquire);
        if tail.wrapping_sub(self.head) > self.area.capacity as u64 {
            return Err(Broken);
        }
        self.tail = tail;
        Ok(self.head != tail)
    }

    /// Copies the next datagram to the beginning of `out`, which is long enough for the longest, and returns its
    /// length.
    #[inline(always)]
    pub(super) fn pop(&mut self, out: &mut [u8]) -> Result<Option<usize>, Broken> {
        if !self.look()? {
            return Ok(None);
        }
        let at = self.area.index(self.head);
        if words::load(&self.area.data()[at]) == WRAP {
            self.advance((self.area.capacity - at) as u64)?;
            if !self.look()? {
                return Ok(None);
            }
        }
        let data = self.area.data();
        let at = self.area.index(self.head);
        // Another WRAP is too long: a producer that writes one after the other would keep this end here.
        let length = usize::try_from(words::load(&data[at])).map_err(|_| Broken)?;
        if length > PAYLOAD_MAX || at + 1 + length.div_ceil(WORD) > data.len() {
            return Err(Broken);
        }
        words::copy_out(data, (at + 1) * WORD, &mut out[..length]);
        self.advance(1 + length.div_ceil(WORD) as u64)?;
        Ok(Some(length))
    }

    /// Advances by as many words, which the producer must have written.
    #[inline(always)]
    fn advance(&mut self, words: u64) -> Result<(), Broken> {
        if words > self.tail.wrapping_sub(self.head) {
            return Err(Broken);
        }
        self.head = self.head.wrapping_add(words);
        Ok(())
    }

    /// Releases the space of all datagrams that were read. True if the producer has to be woken.
    #[inline(always)]
    pub(super) fn release(&mut self) -> bool {
        if self.head == self.released {
            return false;
        }
        self.released = self.head;
        // Release: pairs with the Acquire in `Producer::has_space`.
        self.area.word(HEAD).store(self.head, Ordering::Release);
        must_wake(self.area.word(STARVING))
    }

    /// Asks the producer to wake this end. True if there is a datagram already.
    pub(super) fn park(&mut self) -> Result<bool, Broken> {
        fall_asleep(self.area.word(ASLEEP));
        self.look()
    }

    /// Announces that this end is awake.
    pub(super) fn unpark(&mut self) {
        wake_up(self.area.word(ASLEEP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(capacity: usize) -> (Producer, Consumer, RingArea) {
        let (memory, _) = Shared::create(ring_words(capacity)).unwrap();
        let area = RingArea { memory: Arc::new(memory), from: 0, capacity };
        (Producer::new(area.clone()), Consumer::new(area.clone()), area)
    }

    fn pop(consumer: &mut Consumer) -> Result<Option<Vec<u8>>, Broken> {
        let mut out = [0; PAYLOAD_MAX];
        Ok(consumer.pop(&mut out)?.map(|length| out[..length].to_vec()))
    }

    #[test]
    fn datagrams_of_all_lengths_come_out_in_order_round_and_round() {
        let (mut producer, mut consumer, _) = ring(1024);
        let bytes = |number: usize| vec![number as u8; number * 37 % (PAYLOAD_MAX + 1)];
        let (mut sent, mut taken) = (0, 0);
        while taken < 5000 {
            while sent < 5000 && producer.has_space(1).unwrap() {
                producer.push(&bytes(sent));
                sent += 1;
            }
            assert!(!producer.publish());
            while let Some(datagram) = pop(&mut consumer).unwrap() {
                assert_eq!(datagram, bytes(taken));
                taken += 1;
            }
            consumer.release();
        }
    }

    #[test]
    fn nothing_is_seen_before_it_is_published_and_no_room_before_it_is_given_back() {
        let (mut producer, mut consumer, _) = ring(1024);
        producer.push(b"one");
        assert_eq!(pop(&mut consumer), Ok(None));
        assert!(!producer.publish());
        assert_eq!(pop(&mut consumer), Ok(Some(b"one".to_vec())));
        while producer.has_space(1).unwrap() {
            producer.push(&[1; PAYLOAD_MAX]);
        }
        producer.publish();
        while pop(&mut consumer).unwrap().is_some() {}
        assert_eq!(producer.has_space(1), Ok(false));
        assert!(!consumer.release());
        assert_eq!(producer.has_space(2), Ok(true));
    }

    #[test]
    fn who_sleeps_is_woken_once() {
        let (mut producer, mut consumer, _) = ring(1024);
        assert_eq!(consumer.park(), Ok(false));
        producer.push(b"a");
        assert!(producer.publish());
        producer.push(b"b");
        assert!(!producer.publish(), "it was woken already");
        assert_eq!(consumer.park(), Ok(true), "there is something");
        consumer.unpark();
        while producer.has_space(1).unwrap() {
            producer.push(&[1; PAYLOAD_MAX]);
        }
        producer.publish();
        assert_eq!(producer.wait_for_space(), Ok(false));
        while pop(&mut consumer).unwrap().is_some() {}
        assert!(consumer.release());
        assert_eq!(producer.has_space(1), Ok(true));
    }

    #[test]
    fn invalid_rings_are_detected() {
        let lies: [(usize, u64); 5] =
            [(TAIL, 5000), (TAIL, u64::MAX), (DATA, 2000), (DATA, u64::MAX - 1), (DATA, PAYLOAD_MAX as u64)];
        for (at, lie) in lies {
            let (mut producer, mut consumer, area) = ring(1024);
            producer.push(b"one");
            producer.publish();
            area.word(at).store(lie, Ordering::Relaxed);
            assert_eq!(pop(&mut consumer), Err(Broken), "{lie} at {at}");
        }
        let (mut producer, mut consumer, area) = ring(1024);
        producer.push(b"one");
        producer.publish();
        area.word(DATA).store(WRAP, Ordering::Relaxed);
        assert_eq!(pop(&mut consumer), Err(Broken), "nothing was written up to the end");
        let (_, mut consumer, area) = ring(1024);
        (consumer.head, consumer.tail) = (1023, 1023);
        for (at, word) in [(DATA + 1023, WRAP), (DATA, WRAP), (TAIL, 2047)] {
            area.word(at).store(word, Ordering::Relaxed);
        }
        assert_eq!(pop(&mut consumer), Err(Broken), "twice to the beginning");
        for lie in [1, 1 << 40, u64::MAX / 2] {
            let (mut producer, _, area) = ring(1024);
            area.word(HEAD).store(lie, Ordering::Relaxed);
            assert_eq!(producer.has_space(3), Err(Broken), "{lie} has not been written");
        }
    }
}
