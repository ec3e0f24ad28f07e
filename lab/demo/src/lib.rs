//! A small region on this machine, for people who want to see what becomes of it when something breaks: etcd, nodes with their members and a spare, a gutter, routers,
//! a database and its invalidator as real processes, users whose every answer is judged, a page, and ways to break each of them.
//!
//! | file | what it knows |
//! |---|---|
//! | child.rs | processes that end with this one |
//! | relay.rs, part.rs, programs.rs | the way to a process, the process, and how each is started |
//! | world.rs, start.rs | all of it, and how it starts |
//! | rows.rs, user.rs, truth.rs, follow.rs, followed.rs | the database, who uses it, and whether what they read is right |
//! | faults.rs, chaos.rs, outcome.rs | faults, random ones, and their outcome |
//! | counts.rs, events.rs, snapshot.rs, survey.rs | what was seen |
//! | status.rs, metrics.rs, web.rs | reports about it |
//! | control.rs | the side of those who talk to a region that runs |

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
