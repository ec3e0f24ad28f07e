//! The laws that hold for any input of the parsers, and a model of a cache: for the fuzz targets, and for tests that try the
//! same on random inputs.

#![forbid(unsafe_code)]

pub mod cache;
pub mod datagrams;
pub mod laws;
pub mod meta;
pub mod packets;
pub mod router_config;
pub mod traces;
pub mod words;
mod world;
