//! TLS as clients see it: certificates that the tests make, and the library's own client on the other side.

mod files;
mod handshake;
mod server;
mod support;
mod traffic;
