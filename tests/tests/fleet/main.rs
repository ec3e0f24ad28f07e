//! Membership: pools in a real etcd, members beside real nodes, and routers that follow them. One file per behaviour, one binary
//! for all.
#![forbid(unsafe_code)]

mod clients;
mod command_line;
mod demonstration;
mod drains;
mod etcd_away;
mod members;
mod model;
mod region;
mod resizes;
mod routers;
mod secured;
mod spares;
mod upgrades;

use region::Region;
