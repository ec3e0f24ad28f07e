//! Limits the keys that a client requests at once, by a window over all of its servers together.
//!
//! When many servers reply to one client at the same time, their replies meet in the last switch
//! before it, whose buffers are small, and some are lost (*incast*). So a client has no more keys
//! in flight than its window allows. As in TCP's congestion control the window grows slowly while
//! replies arrive, and is halved when one is lost; unlike there, one window covers all servers
//! (*Scaling Memcache at Facebook*, section 3.1).

/// The window. It is a function of its calls: it has neither clock nor lock.
#[derive(Clone, Debug)]
pub struct Window {
    size: f64,
    least: f64,
    most: f64,
    outstanding: u32,
    era: u32,
}

/// The number of losses before a key was sent. The loss of a key from before a halving does not
/// halve the window again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Era(u32);

/// The first window: some batches of 24 keys, the paper's mean.
const FIRST: f64 = 96.0;
/// The least window: with one key at a time a client would wait for each key after a single loss …
const LEAST: f64 = 8.0;
/// … and the largest, which bounds the requests of one client.
const MOST: f64 = 4096.0;

impl Default for Window {
    fn default() -> Self {
        Window { size: FIRST, least: LEAST, most: MOST, outstanding: 0, era: 0 }
    }
}

impl Window {
    /// A window of a constant size of at least 1, for comparison.
    #[must_use]
    pub fn fixed(size: u32) -> Self {
        let size = f64::from(size.max(1));
        Window { size, least: size, most: size, outstanding: 0, era: 0 }
    }

    /// Takes places for up to `wanted` keys, as far as there is room.
    pub fn take(&mut self, wanted: u32) -> u32 {
        let taken = wanted.min(self.room());
        self.outstanding += taken;
        taken
    }

    /// The number of further keys that may be requested.
    #[must_use]
    pub fn room(&self) -> u32 {
        (self.size as u32).saturating_sub(self.outstanding)
    }

    /// The era of a key that is sent now, for [`Window::lost`].
    #[must_use]
    pub fn era(&self) -> Era {
        Era(self.era)
    }

    /// Frees the place of an answered key. The window grows by about one for each window of
    /// answered keys, unless much of it is unused.
    pub fn answered(&mut self) {
        let is_used = f64::from(self.outstanding) * 2.0 >= self.size;
        if is_used {
            self.size = (self.size + 1.0 / self.size).min(self.most);
        }
        self.put_back();
    }

    /// Frees a place without learning: the key was not sent, or its server is down.
    pub fn put_back(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// Frees the place of a lost key that was sent in this era. The window is halved once for all
    /// keys that were lost together; returns whether it was.
    pub fn lost(&mut self, sent: Era) -> bool {
        let is_news = sent == self.era();
        if is_news {
            self.era = self.era.wrapping_add(1);
            self.size = (self.size / 2.0).max(self.least);
        }
        is_news
    }

    /// The number of keys that may be in flight.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size as u32
    }

    /// The number of keys in flight.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests as many keys as there is room for, all of which are answered.
    fn round(window: &mut Window) {
        let taken = window.take(u32::MAX);
        (0..taken).for_each(|_| window.answered());
        assert_eq!(window.outstanding(), 0);
    }

    #[test]
    fn no_more_keys_are_outstanding_than_the_window_allows() {
        let mut window = Window::default();
        let size = window.size();
        assert_eq!((window.take(10), window.take(1000), window.take(1)), (10, size - 10, 0));
        window.put_back();
        assert_eq!((window.room(), window.outstanding()), (1, size - 1));
    }

    #[test]
    fn it_grows_by_about_half_of_what_is_answered_at_each_round_and_has_an_end() {
        let mut window = Window::default();
        let first = window.size();
        for rounds in 1..=100 {
            round(&mut window);
            let grown = window.size() - first;
            assert!((rounds / 3..=rounds).contains(&grown), "{grown} after {rounds} rounds");
        }
        (0..20_000).for_each(|_| round(&mut window));
        assert_eq!(window.size(), MOST as u32);
    }

    #[test]
    fn one_that_is_hardly_used_does_not_grow() {
        let mut window = Window::default();
        let first = window.size();
        for _ in 0..10_000 {
            window.take(1);
            window.answered();
        }
        assert_eq!(window.size(), first);
    }

    #[test]
    fn answers_that_are_lost_together_halve_it_once() {
        let mut window = Window::default();
        let (size, era) = (window.size(), window.era());
        assert!(window.lost(era) && !window.lost(era));
        assert_eq!(window.size(), size / 2);
        let era = window.era();
        assert!(window.lost(era));
        assert_eq!(window.size(), size / 4);
        for _ in 0..100 {
            window.lost(window.era());
        }
        assert_eq!(window.size(), LEAST as u32);
        round(&mut window);
        assert!(window.take(u32::MAX) >= LEAST as u32);
    }

    #[test]
    fn a_fixed_one_stays_as_it_is() {
        let mut window = Window::fixed(3);
        round(&mut window);
        window.lost(window.era());
        assert_eq!((window.size(), Window::fixed(0).size()), (3, 1));
    }
}
