//! PostgreSQL's protocol.
//!
//! | file | what it knows |
//! |---|---|
//! | message.rs | how messages are framed |
//! | login.rs, scram.rs | the beginning of a connection, and passwords |
//! | query.rs | statements, their results, and errors |

mod login;
mod message;
mod query;
mod scram;

pub use login::{Purpose, connect};
#[cfg(any(test, feature = "testing"))]
pub(crate) use message::testing;
pub use message::{Message, Messages, framed};
pub use query::{Row, first_row, identifier, literal, query, refusal, start_copy};
