//! Limits the keys in flight of one client, so that their replies take about a window of bytes.
//!
//! The length of a reply is unknown before it arrives. Earlier replies predict it: one client's
//! requests are mostly alike, and a new client is taken for an average one of its worker. So a
//! client that reads slowly, or never, has at most a window of replies in the router's memory and
//! on the way from servers, and other clients are not held up by the rest of its requests.

/// The window is this many times the size of an outbox: 2 MiB, and 64 KiB while memory for
/// connections is short.
const OUTBOXES: usize = 32;
/// At least this many long replies are in flight, so that one is sent while the next arrives.
const KEYS_MIN: usize = 2;
/// At most this many short replies are in flight: the next ones may be long.
const KEYS_MAX: usize = 4096;
/// The assumed length before the first reply.
const UNKNOWN: u32 = 16 << 10;
/// A reply that is shorter than the expected length moves that length by this part of the
/// difference.
const PART: u32 = 32;

/// The expected length of a reply, at least a byte. It follows long replies at once, and short ones
/// gradually.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length(u32);

impl Default for Length {
    fn default() -> Self {
        Length(UNKNOWN)
    }
}

impl Length {
    /// Learns from the replies to this many keys, which is not 0, with `bytes` together.
    pub(crate) fn learn(&mut self, keys: u32, bytes: usize) {
        let mean = u32::try_from(bytes / keys as usize).unwrap_or(u32::MAX).max(1);
        if mean >= self.0 {
            self.0 = mean;
        } else {
            let less = u64::from(self.0 - mean) * u64::from(keys.min(PART));
            self.0 -= less.div_ceil(u64::from(PART)) as u32;
        }
    }
}

/// The keys of one client that are in flight.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Keys without a reply.
    open: u32,
    /// `None` before the first reply.
    length: Option<Length>,
}

impl Window {
    /// Whether the client has to wait; `full` is the size of an outbox in bytes, `usual` the
    /// expected length for other clients.
    #[inline]
    pub(super) fn is_closed(&self, full: usize, usual: Length) -> bool {
        let Length(length) = self.length.unwrap_or(usual);
        let open = self.open as usize;
        let is_filled = open * length as usize >= full.saturating_mul(OUTBOXES);
        open >= KEYS_MIN && (is_filled || open >= KEYS_MAX)
    }

    /// The number of keys that may still be requested.
    pub(super) fn room(&self, full: usize, usual: Length) -> usize {
        let Length(length) = self.length.unwrap_or(usual);
        let keys = full.saturating_mul(OUTBOXES).div_ceil(length as usize);
        keys.clamp(KEYS_MIN, KEYS_MAX).saturating_sub(self.open as usize)
    }

    /// Records requests for this many keys.
    #[inline]
    pub(super) fn sent(&mut self, keys: u32) {
        self.open += keys;
    }

    /// Records the replies to this many keys, with `bytes` together.
    #[inline]
    pub(super) fn answered(&mut self, keys: u32, bytes: usize, usual: Length) {
        self.open -= keys;
        self.length.get_or_insert(usual).learn(keys, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_serving::OUTBOX_FULL;

    fn room(window: &Window) -> usize {
        let room = window.room(OUTBOX_FULL, Length::default());
        assert_eq!(window.is_closed(OUTBOX_FULL, Length::default()), room == 0, "{window:?}");
        room
    }

    #[test]
    fn as_many_keys_are_asked_for_as_fill_the_window_by_the_replies_before() {
        let usual = Length::default();
        let mut window = Window::default();
        assert_eq!(room(&window), 128, "as the others of the worker");
        window.sent(100);
        assert_eq!(room(&window), 28);
        window.answered(1, 1 << 20, usual);
        assert_eq!(room(&window), 0, "99 long ones are on their way");
        window.answered(98, 98 << 20, usual);
        assert_eq!(room(&window), 1);
        window.answered(1, 5, usual);
        assert_eq!(room(&window), 3, "one short reply says little");
        for _ in 0..500 {
            window.sent(1);
            window.answered(1, 100, usual);
        }
        assert_eq!(room(&window), KEYS_MAX, "the next ones may be long");
        window.sent(KEYS_MAX as u32);
        assert_eq!(room(&window), 0);
        window.answered(KEYS_MAX as u32 - 1, 100 * (KEYS_MAX - 1), usual);
        window.answered(1, 300 << 10, usual);
        assert_eq!(room(&window), 7, "a long one counts at once");
    }

    #[test]
    fn the_window_is_smaller_while_memory_is_short_and_never_closed() {
        let mut window = Window::default();
        assert_eq!(window.room(2 << 10, Length::default()), 4);
        window.sent(1);
        window.answered(1, 64 << 20, Length::default());
        assert_eq!(window.room(2 << 10, Length::default()), KEYS_MIN);
        assert_eq!(Window::default().room(usize::MAX, Length::default()), KEYS_MAX);
    }

    #[test]
    fn replies_without_a_byte_leave_a_window_that_closes() {
        let mut length = Length(1 << 30);
        for _ in 0..2000 {
            length.learn(1, 0);
        }
        assert_eq!(length, Length(1));
        length.learn(u32::MAX, 10);
        assert_eq!(length, Length(1));
        // A client whose window is open may request at least one key.
        let mut window = Window { open: 0, length: Some(length) };
        for open in [0, 4095, 4096, 4097] {
            window.open = open;
            assert_eq!(window.is_closed(2 << 10, length), window.room(2 << 10, length) == 0, "{open}");
        }
        assert!(window.is_closed(2 << 10, length));
    }
}
