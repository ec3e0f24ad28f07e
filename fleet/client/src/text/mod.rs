//! A blocking connection that speaks memcached's text protocol, over TCP, UNIX sockets and TLS, with a login if the
//! server asks for one.

mod connection;
mod endpoint;
mod login;
mod refusal;
#[cfg(test)]
mod tests;

pub use connection::{Connection, StatsReply, Target, TextError};
pub use endpoint::{Endpoint, EndpointError};
pub use login::{Login, LoginError};
pub use refusal::is_refusal;
