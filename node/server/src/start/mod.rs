//! The start of a server, and its end.
//!
//! | file | step |
//! |---|---|
//! | prepare.rs | checks the options and opens the ports |
//! | open.rs | opens the engine, or takes it over from a predecessor |
//! | serve.rs | makes what workers share, starts the admin listener, and lets the workers begin |
//! | workers.rs | makes the workers |
//! | running.rs | the running server, and how it stops |

mod open;
mod prepare;
mod running;
mod serve;
mod workers;

pub use open::{release_start, start_after};
pub use prepare::{OpenEngine, Starting, check};
pub use running::{Ending, Running, ServerStatus};

#[cfg(test)]
pub(crate) use prepare::setup;
pub(crate) use prepare::{Prepared, StartOptions, prepare};
pub(crate) use running::{Held, close_unserved, log_closed};

#[cfg(test)]
mod tests;
