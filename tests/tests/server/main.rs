//! The server where its engine makes no difference, or where the tests name their engines themselves: one file per
//! behaviour.
#![forbid(unsafe_code)]

mod cluster;
mod failed_start;
mod fairness;
mod forwarded;
mod forwarded_binary;
mod full_file_system;
mod logs;
mod mica_datagrams;
mod mica_packets;
mod mica_rings;
mod profile;
mod store_engine;
mod system_calls;
mod takeover;
mod tls;
mod upgrade;
