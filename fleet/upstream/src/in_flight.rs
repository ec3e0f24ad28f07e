//! Requests to one server that have no reply yet.

use std::collections::VecDeque;
use std::collections::vec_deque::IterMut;

/// Requests in the order in which their replies arrive. One that has timed out stays at the front
/// until its late reply has arrived, which is discarded.
#[derive(Debug)]
pub struct InFlight<R> {
    requests: VecDeque<R>,
    /// How many requests at the front have timed out.
    timed_out: usize,
}

/// Whether a reply came before its request timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    InTime,
    Late,
}

impl<R> Default for InFlight<R> {
    fn default() -> Self {
        InFlight { requests: VecDeque::new(), timed_out: 0 }
    }
}

impl<R> InFlight<R> {
    #[inline]
    pub fn push(&mut self, request: R) {
        self.requests.push_back(request);
    }

    /// The request that the next reply belongs to.
    #[inline]
    pub fn first(&self) -> Option<&R> {
        self.requests.front()
    }

    #[inline]
    pub fn last_mut(&mut self) -> Option<&mut R> {
        self.requests.back_mut()
    }

    /// Removes the first request: its reply has arrived.
    #[inline]
    pub fn complete(&mut self) -> Arrival {
        self.requests.pop_front();
        if self.timed_out == 0 {
            return Arrival::InTime;
        }
        self.timed_out -= 1;
        Arrival::Late
    }

    /// Removes the first request, which gets no reply.
    pub fn remove_first(&mut self) {
        self.requests.pop_front();
        self.timed_out = self.timed_out.saturating_sub(1);
    }

    /// The oldest request that has not timed out.
    #[inline]
    pub fn oldest(&self) -> Option<&R> {
        self.requests.get(self.timed_out)
    }

    #[inline]
    pub fn oldest_mut(&mut self) -> Option<&mut R> {
        self.requests.get_mut(self.timed_out)
    }

    /// The oldest request has timed out.
    pub fn time_out_oldest(&mut self) {
        self.timed_out = (self.timed_out + 1).min(self.requests.len());
    }

    #[inline]
    pub fn has_timed_out(&self) -> bool {
        self.timed_out > 0
    }

    /// How many requests have not timed out.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.requests.len() - self.timed_out
    }

    /// The requests that have not timed out.
    pub fn iter_waiting(&self) -> impl DoubleEndedIterator<Item = &R> + Clone {
        self.requests.iter().skip(self.timed_out)
    }

    /// How many requests there are, with those that have timed out.
    #[inline]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    #[inline]
    pub fn get(&self, index: usize) -> Option<&R> {
        self.requests.get(index)
    }

    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut R> {
        self.requests.get_mut(index)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &R> {
        self.requests.iter()
    }

    /// The requests from `index` on.
    pub fn iter_mut_from(&mut self, index: usize) -> IterMut<'_, R> {
        self.requests.range_mut(index..)
    }

    /// How many requests at the front satisfy `predicate`, which holds for none behind the first
    /// that does not.
    pub fn partition_point(&self, predicate: impl FnMut(&R) -> bool) -> usize {
        self.requests.partition_point(predicate)
    }

    pub fn clear(&mut self) {
        self.requests.clear();
        self.timed_out = 0;
    }
}

impl<R> FromIterator<R> for InFlight<R> {
    fn from_iter<I: IntoIterator<Item = R>>(requests: I) -> Self {
        InFlight { requests: requests.into_iter().collect(), timed_out: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_to_a_request_that_timed_out_is_late() {
        let mut requests: InFlight<u8> = [1, 2, 3].into_iter().collect();
        requests.time_out_oldest();
        assert_eq!((requests.first(), requests.oldest(), requests.waiting()), (Some(&1), Some(&2), 2));
        assert_eq!((requests.complete(), requests.complete()), (Arrival::Late, Arrival::InTime));
        assert_eq!((requests.first(), requests.waiting()), (Some(&3), 1));
    }

    #[test]
    fn no_more_requests_time_out_than_there_are() {
        let mut requests: InFlight<u8> = [1].into_iter().collect();
        (0..3).for_each(|_| requests.time_out_oldest());
        assert_eq!((requests.waiting(), requests.oldest()), (0, None));
        requests.remove_first();
        requests.push(2);
        assert_eq!(requests.complete(), Arrival::InTime);
    }
}
