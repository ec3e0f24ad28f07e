//! mcrouter's configuration files: JSON with comments, imports and macros (docs/reference/router-config.md).
//!
//! ```text
//! text ── parse ──► Json ── expand: macros, built-ins, imports ──► Json ── object, pools ──► what the tree is built of
//! ```

mod builtins;
mod expand;
mod globals;
mod json;
mod limits;
mod load;
mod object;
mod parse;
mod pools;
mod sources;
mod texts;

pub use globals::Globals;
pub use json::{ConfigError, Json, Place, Value};
pub use load::{Loaded, load};
pub use object::Object;
pub use pools::{
    Address, FailureDomain, Handover, Leases, Pool, Pools, PoolsRead, Qos, Resize, SRV, Security, Server,
    Stage, Target, TkoThresholds,
};
pub use sources::Sources;
pub use texts::Texts;
