//! Names of routes: those of `named_handles`, and of routes that have one.

use super::Builder;
use super::named::{Meaning, only};
use crate::config::{ConfigError, Json, Value};
use crate::handle::Children;
use crate::step::NodeId;
use std::sync::Arc;

impl<'c> Builder<'c> {
    pub(super) fn named_handles(&mut self, json: &'c Json) -> Result<(), ConfigError> {
        match &json.value {
            Value::Array(list) => list.iter().try_for_each(|item| self.node(item).map(|_| ())),
            Value::Object(members) => {
                let members = members.iter().map(|(name, member)| (name.clone(), Meaning::Waiting(member)));
                self.named.extend(members);
                Ok(())
            }
            _ => Err(json.expected("named_handles", "an array or an object")),
        }
    }

    /// The routes with this name, if there are any; `depth` is the number of named handles around
    /// `json`.
    pub(super) fn named(
        &mut self,
        json: &Json,
        name: &Arc<str>,
        depth: usize,
    ) -> Result<Option<Children>, ConfigError> {
        let member: &'c Json = match self.named.get(name) {
            None => return Ok(None),
            Some(Meaning::UnderWay) => {
                return Err(json.error(format!("the route {name:?} is a part of itself")));
            }
            Some(Meaning::Failed(error)) => return Err(error.clone()),
            Some(Meaning::Routes(nodes, _)) => {
                let nodes = nodes.clone();
                self.nesting.reach_again(json, &nodes, depth)?;
                return Ok(Some(nodes));
            }
            Some(Meaning::Waiting(member)) => member,
        };
        self.named.insert(name.clone(), Meaning::UnderWay);
        let nodes: Children = match self.nodes(member) {
            Ok(nodes) => nodes.into(),
            Err(error) => {
                self.named.insert(name.clone(), Meaning::Failed(error.clone()));
                return Err(error);
            }
        };
        self.named.insert(name.clone(), Meaning::Routes(nodes.clone(), member.place.clone()));
        Ok(Some(nodes))
    }

    /// A route with a name: the one that has it already, or else the one that `make` makes.
    pub(super) fn defined(
        &mut self,
        json: &Json,
        name: &Arc<str>,
        make: impl FnOnce(&mut Self) -> Result<NodeId, ConfigError>,
    ) -> Result<NodeId, ConfigError> {
        match self.named.get(name) {
            None => {
                let node = make(self)?;
                let place = json.place.clone();
                self.named.insert(name.clone(), Meaning::Routes([node].into(), place));
                return Ok(node);
            }
            // It is the member of that name.
            Some(Meaning::UnderWay) => return make(self),
            Some(Meaning::Waiting(_) | Meaning::Failed(_) | Meaning::Routes(..)) => {}
        }
        let nodes = self.named(json, name, self.nesting.depth())?.unwrap_or_default();
        if let Some(Meaning::Routes(_, place)) = self.named.get(name).filter(|known| known.is_elsewhere(json))
        {
            let warning =
                format!("route {name:?} is already defined at {place}; this definition has no effect");
            self.warnings.push(json.error(warning));
        }
        only(json, &nodes)
    }
}
