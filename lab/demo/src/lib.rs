//! A small region on one machine, to watch what faults do to it: etcd, nodes with their members and
//! a spare, a gutter, routers, a database and its invalidator run as real processes. Every reply to
//! a user is judged. A page shows the region, and can break each of its parts.
//!
//! | file | contents |
//! |---|---|
//! | child.rs | processes that end with this one |
//! | relay.rs, part.rs, programs.rs | the connections to a process, the process, and its start |
//! | world.rs, start.rs | the whole region, and its start |
//! | rows.rs, user.rs, truth.rs, follow.rs, followed.rs | the database, its users, and the judgement of their reads |
//! | faults.rs, chaos.rs, outcome.rs | faults, random ones, and their outcome |
//! | counts.rs, events.rs, snapshot.rs, survey.rs | the state and history of the region |
//! | status.rs, metrics.rs, web.rs | the page, the metrics and the status |
//! | control.rs | commands to a running region |

#![forbid(unsafe_code)]

mod chaos;
mod child;
mod control;
mod counts;
mod events;
mod faults;
mod follow;
mod followed;
mod home;
mod metrics;
mod outcome;
mod part;
mod programs;
mod relay;
mod rows;
mod snapshot;
mod start;
mod status;
mod survey;
mod truth;
mod up;
mod user;
mod web;
mod world;

pub use child::{Programs, become_bound};
pub use control::{Begun, ControlError, Region, Report, Wanted};
pub use faults::{KINDS, Kind};
pub use metrics::families;
pub use outcome::Outcome;
pub use up::{DemoError, Settings, up};
pub use web::LENGTH;
