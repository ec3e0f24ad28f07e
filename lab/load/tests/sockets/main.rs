//! The load generator over real sockets, against a cache that can be told to misbehave.

mod fixture;
mod load;
mod replay;
mod tls;
