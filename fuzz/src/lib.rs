//! What the fuzz targets share: the laws of the parsers, and the model of a cache.

#![forbid(unsafe_code)]

pub mod cache;
pub mod laws;
pub mod meta;
mod world;
