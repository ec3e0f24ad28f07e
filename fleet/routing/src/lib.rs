//! Where a router sends a request, and what it makes of the replies: mcrouter's configuration language, its hashes, and its tree of
//! route handles. No I/O, no threads, no clock.
//!
//! ```text
//! text ── config: preprocessor ──► Json ── builder ──► Tree of handles ── hash ──► destinations
//! ```

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a comment is there where it tells more than the name")]

pub mod config;
pub mod hash;
