//! The leases of one fill.

use super::leases::{self, Store, Stored, Token};
use super::links::{Link, Urgency};
use super::shared::Shared;
use guira_sync::simulated::sometimes;

/// Tokens of keys that are being filled. Those with which nothing is stored are given back in the end, so that others need not wait: when
/// the fill fails, when it panics, and when the cache does not take the value.
pub(super) struct Leased<'s, 'k> {
    shared: &'s Shared,
    /// The connection that granted the tokens, if they are valid only on it.
    link: Option<Link>,
    tokens: Vec<(&'k str, Token)>,
}

impl<'s, 'k> Leased<'s, 'k> {
    pub(super) fn new(shared: &'s Shared, link: Option<Link>, tokens: Vec<(&'k str, Token)>) -> Self {
        Self { shared, link, tokens }
    }

    /// Drops a token without giving it back.
    pub(super) fn forget(&mut self, key: &str) {
        self.tokens.retain(|(leased, _)| *leased != key);
    }

    pub(super) fn store(&mut self, stores: &[Store<'_>]) {
        let counts = &self.shared.counts;
        for batch in stores.chunks(leases::BATCH) {
            for (store, stored) in batch.iter().zip(self.set(batch)) {
                match stored {
                    Stored::Yes => counts.stores.add(1),
                    Stored::Refused => {
                        sometimes("lease-set-refused");
                        counts.refusals.add(1);
                    }
                    Stored::Failed => {
                        counts.failed_stores.add(1);
                        continue;
                    }
                }
                self.forget(store.key);
            }
        }
    }

    fn set(&mut self, batch: &[Store<'_>]) -> Vec<Stored> {
        let links = &self.shared.links;
        let is_bound = batch.iter().any(|store| store.token.is_of_connection());
        let stored = match self.link.take() {
            Some(link) => links.go_on(link, |link| leases::set(link, batch)).ok().map(|(stored, link)| {
                self.link = Some(link);
                stored
            }),
            None if is_bound => None,
            None => links.with(Urgency::Optional, |link| leases::set(link, batch)).ok(),
        };
        stored.unwrap_or_else(|| {
            // The connection would not answer to returned tokens either.
            self.tokens.clear();
            vec![Stored::Failed; batch.len()]
        })
    }
}

impl Drop for Leased<'_, '_> {
    fn drop(&mut self) {
        let (links, tokens) = (&self.shared.links, std::mem::take(&mut self.tokens));
        let mut link = self.link.take();
        // If it fails, others wait a little longer.
        if !tokens.is_empty() {
            link = match link {
                Some(link) => {
                    links.go_on(link, |link| leases::give_back(link, &tokens)).ok().map(|(_, link)| link)
                }
                None => links
                    .lend(Urgency::Optional, |link| leases::give_back(link, &tokens))
                    .ok()
                    .map(|(_, link)| link),
            };
        }
        if let Some(link) = link {
            links.keep(link);
        }
    }
}
