//! Pools of which it is counted how requests of clients end that came to them first.

use std::sync::Arc;

/// Names by which pools are counted. A pool belongs to the longest one that its own name begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedPools(Arc<[Box<str>]>);

/// The place of a name among [`CountedPools`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CountedPool(pub u32);

/// A client's request reaches a server of a counted pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub pool: CountedPool,
    /// When the client sent the request, as in [`crate::Facts::now_ms`].
    pub sent_ms: u64,
    pub wanted: ArrivalWanted,
}

/// Whether a client waits for the server's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalWanted {
    Yes,
    /// The request of a shadow, or a copy of an AllAsyncRoute. It is sent before the requests that
    /// a client waits for; mcrouter sends it after them.
    No,
}

impl CountedPools {
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        CountedPools(names.into_iter().map(String::into_boxed_str).collect())
    }

    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }

    /// The name that a pool belongs to.
    pub fn of(&self, pool: &str) -> Option<CountedPool> {
        let names = (0..).zip(self.names()).filter(|(_, name)| pool.starts_with(name));
        names.max_by_key(|(_, name)| name.len()).map(|(place, _)| CountedPool(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_belongs_to_the_longest_name() {
        let names = CountedPools::new(["web", "web.east"].map(str::to_owned));
        let of = |pool| names.of(pool).map(|CountedPool(place)| place);
        assert_eq!((of("web.west"), of("web.east.1"), of("db")), (Some(0), Some(1), None));
    }
}
