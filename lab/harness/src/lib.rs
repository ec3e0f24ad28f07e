//! What the laboratory and the tests of live servers have in common: a server as a child process, what a process costs, certificates, scratch
//! folders, waiting with a deadline, threads that begin together, rounds in turns, engines driven inside the process, and plots.

#![forbid(unsafe_code)]

pub mod affinity;
pub mod certificate;
pub mod deadline;
pub mod documented;
pub mod driver;
pub mod netns;
pub mod plot;
pub mod port;
pub mod process;
pub mod random;
pub mod rounds;
pub mod scratch;
pub mod server;
pub mod socket;
pub mod statements;
pub mod stats;
pub mod together;
