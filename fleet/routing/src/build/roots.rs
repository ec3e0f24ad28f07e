//! The entry routes of a configuration: `route`, or `routes` for several prefixes.

use super::Builder;
use crate::config::{ConfigError, Json, Value};
use crate::handle::{AnyHandle, BigValue, LoggingRoute, RoutingPrefixes};
use crate::prefix::{self, Prefixes};
use crate::settings::Logging;
use crate::step::NodeId;
use std::collections::HashMap;
use std::sync::Arc;

/// Prefixes and what they lead to.
type Roots = Vec<(Arc<str>, NodeId)>;

impl Builder<'_> {
    pub(super) fn roots(
        &mut self,
        top: &Json,
        route: Option<&Json>,
        routes: Option<&Json>,
    ) -> Result<Prefixes, ConfigError> {
        let default_route = self.settings.default_route.clone();
        let mut roots = Roots::new();
        match (route, routes) {
            (Some(route), None) => roots.push((default_route.clone(), self.node(route)?)),
            (None, Some(routes)) => self.several(routes, &mut roots)?,
            (Some(_), Some(routes)) => return Err(routes.error("'route' and 'routes' exclude each other")),
            (None, None) => return Err(top.error("neither 'route' nor 'routes' is set")),
        }
        if let Some(values) = self.settings.big_values {
            self.put_in_front(&mut roots, |target| AnyHandle::BigValue(BigValue::new(target, values)));
        }
        if self.settings.logging == Logging::On {
            self.put_in_front(&mut roots, |target| AnyHandle::LoggingRoute(LoggingRoute::new(target)));
        }
        let default = roots.iter().find(|(prefix, _)| *prefix == default_route).map(|(_, node)| *node);
        let default = default.ok_or_else(|| {
            top.error(format!("no route has the default prefix {default_route} among its aliases"))
        })?;
        let known = roots.iter().map(|(prefix, node)| (prefix.as_bytes().into(), *node)).collect();
        let nearest_first = nearest_first(roots, &default_route);
        let patterns = self.add(AnyHandle::RoutingPrefixes(RoutingPrefixes::new(nearest_first)));
        Ok(Prefixes { known, default, patterns, unknown: self.settings.unknown_prefix })
    }

    /// Puts a handle in front of each route. A route that several prefixes lead to has one.
    fn put_in_front(&mut self, roots: &mut Roots, handle: impl Fn(NodeId) -> AnyHandle) {
        let mut front: HashMap<NodeId, NodeId> = HashMap::new();
        for (_, node) in roots {
            let target = *node;
            *node = *front.entry(target).or_insert_with(|| self.add(handle(target)));
        }
    }

    /// A list of routes with their aliases, or an object of prefixes.
    fn several(&mut self, routes: &Json, roots: &mut Roots) -> Result<(), ConfigError> {
        match &routes.value {
            Value::Array(list) => {
                for item in list {
                    let mut object = item.object("routes")?;
                    let node = self.node(object.required("route")?)?;
                    for alias in object.required_as("aliases", Json::list)? {
                        add(roots, alias, alias.shared_text("aliases")?, node)?;
                    }
                    object.finish(&mut self.warnings);
                }
            }
            Value::Object(members) => {
                for (prefix, route) in members {
                    let node = self.node(route)?;
                    add(roots, route, prefix, node)?;
                }
            }
            _ => return Err(routes.expected("routes", "an array or an object")),
        }
        Ok(())
    }
}

fn add(roots: &mut Roots, at: &Json, prefix: &Arc<str>, node: NodeId) -> Result<(), ConfigError> {
    if prefix::parts(prefix).is_none_or(|(region, cluster)| region == "*" || cluster == "*") {
        return Err(at.error(format!("{prefix:?} is no prefix: it has the form /region/cluster/")));
    }
    if roots.iter().any(|(known, _)| known == prefix) {
        return Err(at.error(format!("{prefix} has a route already")));
    }
    roots.push((prefix.clone(), node));
    Ok(())
}

/// The roots that are nearest to the default come first.
fn nearest_first(mut roots: Roots, default: &str) -> Roots {
    let home = prefix::parts(default).map(|(region, _)| region);
    roots.sort_by_key(|(prefix, _)| {
        let is_near = prefix::parts(prefix).map(|(region, _)| region) == home;
        (**prefix != *default, !is_near)
    });
    roots
}
