//! How much one client may have asked for and not been sent: so many keys that their replies are about a window of bytes.
//!
//! The length of a reply is unknown before it arrives. Earlier replies predict it: what one client asks for is mostly alike, and one that has
//! asked for nothing yet is taken for one like the others of its worker. So a client that reads slowly, or never, has the replies of a window in the
//! router's memory and on the way from servers, whatever it asks for, and others need not wait until all that it has asked for is there.

/// The window is this many times what an outbox holds: 2 MiB, and 64 KiB while memory for connections is short.
const OUTBOXES: usize = 32;
/// Of long replies this many are under way, so that one is sent while the next one comes.
const KEYS_MIN: usize = 2;
/// Of short ones this many: the replies to come may be long, and nothing says so before the first of them is there.
const KEYS_MAX: usize = 4096;
/// How long replies are before there has been one.
const UNKNOWN: u32 = 16 << 10;
/// A reply that is shorter than those before it moves what is expected by this part of the difference.
const PART: u32 = 32;

/// How long replies are, a byte at least: that of long ones counts at once, and that of short ones by and by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length(u32);

impl Default for Length {
    fn default() -> Self {
        Length(UNKNOWN)
    }
}

impl Length {
    /// The replies about this many keys, which is not 0, have come, and have this many bytes together.
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

/// What one client has asked for.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Keys that were not answered.
    open: u32,
    /// `None` before the first reply.
    length: Option<Length>,
}

impl Window {
    /// Whether the client may ask for nothing more now, if an outbox is full of `full` bytes and replies to others are as `usual`.
    #[inline]
    pub(super) fn is_closed(&self, full: usize, usual: Length) -> bool {
        let Length(length) = self.length.unwrap_or(usual);
        let open = self.open as usize;
        let is_filled = open * length as usize >= full.saturating_mul(OUTBOXES);
        open >= KEYS_MIN && (is_filled || open >= KEYS_MAX)
    }

    /// For how many more keys it may ask.
    pub(super) fn room(&self, full: usize, usual: Length) -> usize {
        let Length(length) = self.length.unwrap_or(usual);
        let keys = full.saturating_mul(OUTBOXES).div_ceil(length as usize);
        keys.clamp(KEYS_MIN, KEYS_MAX).saturating_sub(self.open as usize)
    }

    /// The client has requested this many keys.
    #[inline]
    pub(super) fn sent(&mut self, keys: u32) {
        self.open += keys;
    }

    /// This many keys were answered, with this many bytes together.
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
        // A client that may continue may request one key at least.
        let mut window = Window { open: 0, length: Some(length) };
        for open in [0, 4095, 4096, 4097] {
            window.open = open;
            assert_eq!(window.is_closed(2 << 10, length), window.room(2 << 10, length) == 0, "{open}");
        }
        assert!(window.is_closed(2 << 10, length));
    }
}
