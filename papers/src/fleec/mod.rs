//! *FLeeC* (Costa, Preguiça and Lourenço): each claim again.
//!
//! The paper's machine has many cores and its contention comes from them. Here there are two, so that beside the rates the
//! mechanism is measured: what is tried in vain, waited for, and written by several; and what happens when a thread stands
//! still, which is the worst that contention comes to.

pub(crate) mod contention;
pub(crate) mod drivers;
pub(crate) mod growth;
pub(crate) mod hits;
mod network;
pub(crate) mod parked;
pub(crate) mod skew;
pub(crate) mod writes;

use crate::caches::Config;

/// The engines, in the order of tables.
const ENGINES: [Config; 4] = [
    Config { name: "classic", engine: "classic", policy: "seg-lru" },
    Config { name: "memc3", engine: "memc3", policy: "clock" },
    Config { name: "memclock", engine: "memclock", policy: "bucket-clock" },
    Config { name: "fleec", engine: "fleec", policy: "bucket-clock" },
];

const CLASSIC: usize = 0;
const MEMC3: usize = 1;
const MEMCLOCK: usize = 2;
const FLEEC: usize = 3;
