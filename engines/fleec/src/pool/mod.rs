//! The memory of items: pages divided into chunks, and what sessions keep of them.

mod cache;
mod chunk_pool;

pub(crate) use cache::ChunkCache;
pub(crate) use chunk_pool::{ChunkPool, Taking};
