//! Makes a tree of a whole configuration.

use super::domains::Domains;
use super::named::Named;
use super::nesting::Nesting;
use super::{Builder, BuiltPool, PoolHandles};
use crate::config::{ConfigError, Json, Pools, Sources};
use crate::destinations::Destinations;
use crate::settings::Settings;
use crate::tree::Tree;
use std::collections::HashMap;
use std::sync::Arc;

/// The tree built from a configuration, with its pools, imports and warnings.
#[derive(Debug)]
pub struct Built {
    pub tree: Tree,
    /// The pools that routes name, sorted by name.
    pub pools: Vec<BuiltPool>,
    /// Files that pools are imported from.
    pub imports: Vec<Arc<str>>,
    pub warnings: Vec<ConfigError>,
}

/// Builds the tree of a configuration that [`crate::config::load`] has read.
///
/// # Errors
/// The fault in the configuration, and its place.
pub fn build(
    json: &Json,
    sources: &dyn Sources,
    settings: &Settings,
    destinations: &mut Destinations,
) -> Result<Built, ConfigError> {
    let mut top = json.object("configuration")?;
    for known in ["pools", "macros", "routing_options"] {
        top.optional(known);
    }
    let (named, route, routes) =
        (top.optional("named_handles"), top.optional("route"), top.optional("routes"));
    let mut builder = Builder {
        handles: Vec::new(),
        pools: Pools::new(json, sources)?,
        built_pools: HashMap::new(),
        named: Named::default(),
        domains: Domains::default(),
        logs: HashMap::new(),
        settings,
        destinations,
        tally: settings.counts.tally(),
        warnings: Vec::new(),
        nesting: Nesting::default(),
    };
    top.finish(&mut builder.warnings);
    if let Some(named) = named {
        builder.named_handles(named)?;
    }
    let prefixes = builder.roots(json, route, routes)?;
    let everywhere = builder.everywhere();
    let Builder { handles, pools, built_pools, logs, domains, mut warnings, .. } = builder;
    let read = pools.finish();
    warnings.extend(read.warnings);
    let mut pools: Vec<BuiltPool> = built_pools.into_values().map(PoolHandles::built).collect();
    pools.sort_by(|one, other| one.name.cmp(&other.name));
    let tree = Tree::new(handles, prefixes, everywhere, logs, domains.finish());
    Ok(Built { tree, pools, imports: read.imports, warnings })
}
