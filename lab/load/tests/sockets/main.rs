//! The load generator over real sockets, against a cache that misbehaves on request.

mod fixture;
mod load;
mod replay;
mod tls;
