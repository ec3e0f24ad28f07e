//! A blocking connection that speaks memcached's text protocol over TCP, UNIX sockets and TLS, and
//! logs in if the server requires it; and the blocking sockets below, for programs that speak
//! another protocol.

mod connection;
mod endpoint;
mod input;
mod listener;
mod login;
mod refusal;
mod socket;
#[cfg(test)]
mod tests;

pub use connection::{Connection, StatsReply, Target, TextError};
pub use endpoint::{Endpoint, EndpointError};
pub use listener::Listener;
pub use login::{Login, LoginError};
pub use refusal::is_refusal;
pub use socket::Socket;
