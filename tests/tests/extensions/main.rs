//! What memcached does not have, with each engine: one file per behaviour.
#![forbid(unsafe_code)]

mod advice;
mod ceiling;
mod delete_hold_off;
mod flush_prefix;
mod full_without_evictions;
mod huge_values;
mod kept_policy;
mod leases;
mod policy;
mod region_damage;
mod restart;
mod short_lived;
mod sizes;
mod top_keys;
