//! Membership: pools in a real etcd, members beside real nodes, and routers that follow them. One file per behaviour, one binary
//! for all.
#![forbid(unsafe_code)]

mod command_line;
mod etcd_away;
mod members;
mod region;
mod routers;
mod secured;
mod spares;

use region::Region;
