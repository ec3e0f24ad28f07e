//! The admin listener: metrics for Prometheus, whether the server is well, and a page for people, over HTTP.
//!
//! It is a service on a worker of its own, with connections, limits and memory of its own: whoever asks much of it takes nothing from
//! the server's clients (docs/develop/decisions/0030-admin-listener.md). What it tells is up to a [`Site`].

#![forbid(unsafe_code)]

mod admin;
mod exposition;
mod history;
mod http;
mod listener;
mod object;
mod page;
mod place;
mod readiness;
mod table;
mod token;
mod usage;

pub use admin::{Admin, AdminError};
pub use exposition::{Exposition, Family, Form, Labels, metric_name};
pub use history::Reading;
pub use listener::{MEMORY_BYTES, Site, open, start};
pub use object::object;
pub use page::Page;
pub use place::place;
pub use readiness::Readiness;
pub use table::MetricTable;
pub use token::{Token, TokenError};
pub use usage::Usage;
