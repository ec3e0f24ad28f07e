//! The requests of a workload as a trace has them.

use std::convert::Infallible;

use super::Recipe;
use crate::trace::{Action, Key, Request};
use crate::{Generator, Operation, Rng};

/// An iterator over a workload's requests, which ends after as many as it has. A multiget is a request for each of its
/// keys.
#[derive(Debug)]
pub struct Requests {
    generator: Generator,
    operation: Operation,
    /// Keys that the operation still asks for.
    keys_left: u32,
    multiget_keys: u32,
    number: u64,
    count: u64,
    seconds: u32,
}

impl Requests {
    pub(super) fn new(recipe: &Recipe) -> Self {
        Self {
            generator: Generator::new(recipe.model.clone(), Rng::new(recipe.seed)),
            operation: Operation::Get,
            keys_left: 0,
            multiget_keys: recipe.multiget_keys.max(1),
            number: 0,
            count: recipe.requests,
            seconds: recipe.seconds,
        }
    }
}

impl Iterator for Requests {
    type Item = Result<Request, Infallible>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.number >= self.count {
            return None;
        }
        if self.keys_left == 0 {
            self.operation = self.generator.operation();
            self.keys_left = if self.operation == Operation::Multiget { self.multiget_keys } else { 1 };
        }
        self.keys_left -= 1;
        let id = self.generator.id(self.operation);
        let model = self.generator.model();
        // Time runs evenly from the first request to the last.
        let time = (u128::from(self.number) * u128::from(self.seconds) / u128::from(self.count)) as u64;
        self.number += 1;
        Some(Ok(Request {
            key: Key::Number(id),
            key_len: Some(model.keys.len_of(id)),
            action: match self.operation {
                Operation::Get | Operation::Multiget => Action::Get,
                Operation::LoneGet => Action::LoneGet,
                Operation::Set => Action::Set,
                Operation::Delete => Action::Delete,
                Operation::LoneDelete => Action::LoneDelete,
            },
            value_len: Some(model.sizes.of(id)),
            ttl: model.expiry.of(id),
            time,
        }))
    }
}
