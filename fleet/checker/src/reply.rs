//! Replies of caches and of the database.

use crate::judge::Tag;
use crate::sight::{Cached, Content};

#[derive(Debug)]
pub(crate) enum Reply {
    Cache { tag: Tag, cluster: usize, cached: Cached },
    Database { tag: Tag, found: Option<Content> },
}
