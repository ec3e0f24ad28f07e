//! Another child for each group of operations.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::request::{Group, Request};
use crate::step::{Cx, NodeId, Step};

#[derive(Debug)]
pub(crate) struct RoutingGroup {
    default: NodeId,
    get: NodeId,
    update: NodeId,
    delete: NodeId,
    arithmetic: NodeId,
}

impl Handle for RoutingGroup {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let default = members.main_child_or_null("default_policy")?;
        let mut it =
            RoutingGroup { default, get: default, update: default, delete: default, arithmetic: default };
        if let Some(policies) = members.json("routing_group_policies") {
            for (name, policy) in policies.object("routing_group_policies")?.members() {
                let child = members.node(policy)?;
                match &**name {
                    "get_like" => it.get = child,
                    "update_like" => it.update = child,
                    "delete_like" => it.delete = child,
                    "arithmetic_like" => it.arithmetic = child,
                    _ => {
                        return Err(policy.error(format!(
                            "unknown group {name}; use one of get_like, update_like, delete_like and \
                             arithmetic_like"
                        )));
                    }
                }
            }
        }
        members.end();
        Ok(it)
    }

    #[inline]
    fn enter(&self, _cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        Step::Tail(match request.op.group() {
            Group::Get => self.get,
            Group::Update => self.update,
            Group::Delete => self.delete,
            Group::Arithmetic => self.arithmetic,
            Group::Touch | Group::Flush => self.default,
        })
    }
}
