//! The pools that requests of clients came to first, until they are answered.

use crate::ticket::Ticket;
use guira_routing::{ArrivalWanted, CountedPool};
use std::collections::HashMap;

/// The first arrival of each request that reached a counted pool.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(HashMap<Ticket, First>);

#[derive(Clone, Copy, Debug)]
struct First {
    pool: CountedPool,
    wanted: ArrivalWanted,
    /// When the client sent the request, in microseconds of the worker.
    sent_us: u64,
}

impl Arrivals {
    /// Notes that a request reached a pool. The first arrival that a client waits for counts;
    /// without one, the first arrival.
    pub(crate) fn note(&mut self, ticket: Ticket, pool: CountedPool, wanted: ArrivalWanted, sent_us: u64) {
        let new = First { pool, wanted, sent_us };
        let first = self.0.entry(ticket).or_insert(new);
        if (first.wanted, wanted) == (ArrivalWanted::No, ArrivalWanted::Yes) {
            *first = new;
        }
    }

    /// The request is answered: the pool that it is counted for, and how many microseconds it has taken.
    pub(crate) fn end(&mut self, ticket: Ticket, now_us: u64) -> Option<(CountedPool, u64)> {
        let First { pool, sent_us, .. } = self.0.remove(&ticket)?;
        Some((pool, now_us.saturating_sub(sent_us).max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ArrivalWanted::{No, Yes};

    #[test]
    fn the_first_pool_counts_that_is_waited_for_and_the_first_of_others_if_there_is_none() {
        let ticket = |call| Ticket { call, part: 0 };
        let mut arrivals = Arrivals::default();
        for (call, pool, wanted) in
            [(0, 5, Yes), (0, 6, Yes), (1, 7, No), (1, 8, Yes), (1, 9, Yes), (2, 3, No), (2, 4, No)]
        {
            arrivals.note(ticket(call), CountedPool(pool), wanted, 100);
        }
        let ended = [0, 1, 2, 3].map(|call| arrivals.end(ticket(call), 100 + u64::from(call)));
        assert_eq!(
            ended,
            [Some((CountedPool(5), 1)), Some((CountedPool(8), 1)), Some((CountedPool(3), 2)), None]
        );
        assert!(arrivals.0.is_empty());
    }
}
