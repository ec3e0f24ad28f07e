//! TLS as clients see it, with generated certificates and the library's own client.

mod client;
mod files;
mod handshake;
mod server;
mod support;
mod traffic;
