//! A few items that are read again and again, beside a stream of items of other sizes.

use super::sink::{hits, sevens, store};
use crate::Expiry;
use crate::{Engine, Pace, Session};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);
/// How often what is cold fills the cache.
const FILLS: usize = 3;

/// What is stored.
#[derive(Clone, Copy, Debug)]
pub struct HotItems {
    /// Bytes of memory that the engine has.
    pub memory: usize,
    /// How many items are hot.
    pub hot: usize,
    /// Bytes of their values.
    pub hot_len: usize,
    /// Bytes of the values of the others.
    pub cold_len: usize,
    /// All that is hot is read whenever one part in this many of memory was stored.
    pub reads_a_fill: usize,
}

impl HotItems {
    /// As many hot items as fill this part of `pages` pages.
    #[must_use]
    pub fn of_pages(memory: usize, pages: usize, hot_len: usize, cold_len: usize) -> Self {
        HotItems { memory, hot: pages * (200 << 10) / (hot_len + 24), hot_len, cold_len, reads_a_fill: 8 }
    }

    /// Runs it on an empty engine. Returns how many of the hot items are gone after the cache was filled several times over.
    ///
    /// # Panics
    /// If an item is refused, or none was evicted.
    pub fn lost<E: Engine>(self, engine: &E) -> usize {
        let mut session = engine.session();
        let hot: Vec<String> = (0..self.hot).map(|number| format!("hot{number}")).collect();
        hot.iter().for_each(|key| put(&mut session, key, self.hot_len));
        let cold = FILLS * self.memory / (self.cold_len + 40);
        let between = (self.memory / self.reads_a_fill / (self.cold_len + 40)).max(1);
        for number in 0..cold {
            put(&mut session, &format!("cold{number}"), self.cold_len);
            if number % between == 0 {
                hot.iter().for_each(|key| _ = hits(&mut session, key.as_bytes(), NOW));
            }
            if number % 16 == 0 {
                session.quiesce();
                session.maintain(NOW, Pace::Busy, 32);
            }
        }
        assert!(engine.stats().evictions > 0, "{self:?}");
        hot.iter().filter(|key| !hits(&mut session, key.as_bytes(), NOW)).count()
    }
}

fn put<S: Session>(session: &mut S, key: &str, length: usize) {
    let stored = store(session, key.as_bytes(), sevens(length), 0, Expiry::Never, NOW);
    assert!(stored.is_ok(), "{key}: {stored:?}");
}
