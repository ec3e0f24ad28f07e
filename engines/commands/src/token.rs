//! Lease tokens: who may fill a key, and since when.

use guira_contract::{Amendment, Expiry, ItemState, Meta, Recency};
use guira_sync::clock::{Millis, Seconds};

/// What the number after the key of a `delete` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteTime {
    /// Nothing, as in memcached.
    Ignored,
    /// For so many seconds nothing may be added under the key.
    HoldsOff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leases {
    /// How long a token is in force before another client gets one, in milliseconds.
    pub interval_ms: u32,
    /// How long a deleted value may be served as stale, in seconds; 0 if it may not.
    pub stale_seconds: u32,
    pub delete_time: DeleteTime,
}

impl Default for Leases {
    /// One token in ten seconds, as in the paper, and no stale values.
    fn default() -> Self {
        Leases { interval_ms: 10_000, stale_seconds: 0, delete_time: DeleteTime::Ignored }
    }
}

/// A cas unique that is a lease token.
///
/// ```text
/// 63 0 | 62 1 | 61..30 when it was given, in milliseconds modulo 2^32 | 29..0 from the cas unique that was drawn for it
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) u64);

const FORM_SHIFT: u32 = 62;
const TIME_SHIFT: u32 = 30;

impl Token {
    pub(crate) fn new(now: Millis, drawn: u64) -> Self {
        let time = u64::from(now.0 as u32) << TIME_SHIFT;
        Token(1 << FORM_SHIFT | time | drawn & ((1 << TIME_SHIFT) - 1))
    }

    /// The token that this cas unique is, if it is one.
    pub(crate) fn of(unique: u64) -> Option<Self> {
        (unique >> FORM_SHIFT == 1).then_some(Token(unique))
    }

    /// Milliseconds since it was given, modulo 2^32: 49 days.
    fn age(self, now: Millis) -> u32 {
        (now.0 as u32).wrapping_sub((self.0 >> TIME_SHIFT) as u32)
    }
}

/// How far in the future a token may lie, in milliseconds: workers read the clock at different times, and after a restart it begins at a whole second.
const AHEAD: u32 = 60_000;

/// Whether a lease token of this item is in force.
pub(crate) fn in_force(state: ItemState, unique: Option<u64>, leases: Leases, now: Millis) -> bool {
    let token = unique.filter(|_| state.has(ItemState::TOKEN_SENT)).and_then(Token::of);
    token.is_some_and(|token| token.age(now).wrapping_add(AHEAD) < leases.interval_ms + AHEAD)
}

/// The next token of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) token: Token,
    /// A hidden item lives at least until then: as long as the token is in force.
    pub(crate) until: Seconds,
}

impl Grant {
    /// What an item changes when a client gets the token.
    pub(crate) fn amendment(&self, item: &Meta) -> Amendment {
        let later = match item.expiry {
            Expiry::At(at) => Expiry::At(at.max(self.until)),
            Expiry::Never => Expiry::Never,
        };
        // A stale value is prolonged once: if nobody fills it, it goes.
        let again = item.state.has(ItemState::STALE) && item.state.has(ItemState::TOKEN_SENT);
        Amendment {
            cas: Some(self.token.0),
            expiry: (item.state.has(ItemState::HIDDEN) && !again).then_some(later),
            set: ItemState::TOKEN_SENT,
            recency: Recency::Bump,
            ..Amendment::default()
        }
    }
}

/// The time, and how long tokens are in force: what decides whether a client wins an item by mg.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    pub(crate) leases: Leases,
    pub(crate) now: Millis,
}

impl Contest {
    /// Whether the item waits for a value, and no client is asked for it. An item that is not hidden keeps its winner, as in memcached.
    #[inline(always)]
    pub(crate) fn is_open(&self, item: &Meta) -> bool {
        if item.state.has(ItemState::HIDDEN) {
            !in_force(item.state, item.cas, self.leases, self.now)
        } else {
            item.state.has(ItemState::STALE) && !item.state.has(ItemState::TOKEN_SENT)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_when_it_was_given() {
        let token = Token::new(Millis(5_000), u64::MAX);
        assert_eq!(Token::of(token.0), Some(token));
        assert_eq!((token.age(Millis(5_000)), token.age(Millis(15_001))), (0, 10_001));
        // Past the range of the time, too.
        let late = Token::new(Millis((1 << 32) - 10), 1);
        assert_eq!(late.age(Millis((1 << 32) + 5)), 15);
        assert_ne!(Token::new(Millis(5), 1), Token::new(Millis(5), 2));
        assert_eq!((Token::of(7), Token::of(u64::MAX)), (None, None));
    }

    #[test]
    fn a_token_is_in_force_for_the_interval_and_to_a_clock_that_was_read_before() {
        let (leases, unique) = (Leases::default(), Some(Token::new(Millis(100_000), 1).0));
        let in_force = |at| in_force(ItemState::TOKEN_SENT, unique, leases, Millis(at));
        assert!(in_force(100_000) && in_force(109_999) && in_force(99_999) && in_force(99_000));
        assert!(!in_force(110_000) && !in_force(1_000_000) && !in_force(10_000));
    }
}
