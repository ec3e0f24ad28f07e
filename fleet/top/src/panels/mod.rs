//! The panels: tables of the figures of a node.

mod classes;
mod commands;
mod connections;
mod keys;
mod nodes;
mod overview;
mod servers;

pub(crate) use classes::classes;
pub(crate) use commands::{commands, latency};
pub(crate) use connections::connections;
pub(crate) use keys::keys;
pub(crate) use nodes::nodes;
pub(crate) use overview::{header, memory, rates, ratio, server};
pub(crate) use servers::servers;

use crate::block::Align;

const PAIRS: &[(&str, Align)] = &[("", Align::Left), ("", Align::Right)];
