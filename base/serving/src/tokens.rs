//! Tokens by which the pollers of workers know sockets.

use guira_transport::Token;

pub(crate) const FIRST_SERVICE: u64 = 1 << 31;
/// Connections come after everything else.
pub(crate) const FIRST_CONNECTION: u64 = 1 << 32;

/// The token of a service's socket with this number, which is below 2³¹.
pub fn service_token(number: u32) -> Token {
    debug_assert!(u64::from(number) < FIRST_CONNECTION - FIRST_SERVICE);
    Token(FIRST_SERVICE + u64::from(number))
}
