//! Where requests begin: `route`, or `routes` for several prefixes.

use super::Builder;
use crate::config::{ConfigError, Json, Value};
use crate::handle::{AllInitial, AllSync, AnyHandle, BigValue, OperationSelector};
use crate::prefix::{self, Prefixes};
use crate::settings::BigValues;
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
            self.split_values(&mut roots, values);
        }
        let default = roots.iter().find(|(prefix, _)| *prefix == default_route).map(|(_, node)| *node);
        let default = default.ok_or_else(|| {
            top.error(format!("no route has the default prefix {default_route} among its aliases"))
        })?;
        let mut known: HashMap<Box<[u8]>, NodeId> =
            roots.iter().map(|(prefix, node)| (prefix.as_bytes().into(), *node)).collect();
        for (pattern, nodes) in patterns(&roots, &default_route) {
            let node = match *nodes {
                [only] => only,
                _ => self.all_roots(nodes),
            };
            known.insert(pattern.into_bytes().into(), node);
        }
        Ok(Prefixes::new(known, default, self.settings.unknown_prefix))
    }

    /// What a prefix with an asterisk leads to. As in mcrouter, the nearest root answers and the others are sent the same; a delete is only
    /// acknowledged when all roots have acknowledged it, as otherwise one that fails elsewhere would be lost.
    fn all_roots(&mut self, nodes: Vec<NodeId>) -> NodeId {
        let deletes = self.add(AnyHandle::AllSync(AllSync::new(nodes.clone().into())));
        let others = self.add(AnyHandle::AllInitial(AllInitial::new(nodes)));
        self.add(AnyHandle::OperationSelector(OperationSelector::with_deletes(deletes, others)))
    }

    /// Puts a handle in front of each route that splits values; one that several prefixes lead to stays one.
    fn split_values(&mut self, roots: &mut Roots, values: BigValues) {
        let mut split: HashMap<NodeId, NodeId> = HashMap::new();
        for (_, node) in roots {
            let target = *node;
            *node = *split
                .entry(target)
                .or_insert_with(|| self.add(AnyHandle::BigValue(BigValue::new(target, values))));
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

/// Prefixes with an asterisk, and the roots that each stands for: those nearest to the default come first, since their answers are the
/// client's.
fn patterns(roots: &Roots, default: &str) -> Vec<(String, Vec<NodeId>)> {
    let home = prefix::parts(default);
    let mut patterns: Vec<(String, Vec<(u8, NodeId)>)> = Vec::new();
    for (prefix, node) in roots {
        let Some((region, cluster)) = prefix::parts(prefix) else { continue };
        let distance = match home {
            _ if **prefix == *default => 0,
            Some((near, _)) if near == region => 1,
            _ => 2,
        };
        for pattern in ["/*/*/".to_owned(), format!("/{region}/*/"), format!("/*/{cluster}/")] {
            match patterns.iter_mut().find(|(known, _)| *known == pattern) {
                Some((_, nodes)) => nodes.push((distance, *node)),
                None => patterns.push((pattern, vec![(distance, *node)])),
            }
        }
    }
    let nearest_first = |(pattern, mut nodes): (String, Vec<(u8, NodeId)>)| {
        nodes.sort_by_key(|(distance, _)| *distance);
        let mut distinct = Vec::new();
        for (_, node) in nodes {
            if !distinct.contains(&node) {
                distinct.push(node);
            }
        }
        (pattern, distinct)
    };
    patterns.into_iter().map(nearest_first).collect()
}
