//! Answers of caches and of the database.

use crate::judge::Tag;
use crate::sight::{Cached, Content};

/// An answer to a question.
#[derive(Debug)]
pub(crate) enum Answer {
    Cache { tag: Tag, cluster: usize, cached: Cached },
    Database { tag: Tag, found: Option<Content> },
}
