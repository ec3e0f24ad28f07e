//! Another child for each operation.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json, Value};
use crate::request::{OPS, Op, Request};
use crate::step::{Cx, NodeId, Step};

#[derive(Debug)]
pub(crate) struct OperationSelector([NodeId; OPS.len()]);

impl Handle for OperationSelector {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let default = members.main_child_or_null("default_policy")?;
        let policies = members.json("operation_policies");
        members.end();
        let mut children = [default; OPS.len()];
        let Some(policies) = policies else {
            return Ok(OperationSelector(children));
        };
        let Value::Object(list) = &policies.value else {
            return Err(policies.error("operation_policies is not an object"));
        };
        for (name, policy) in list {
            let op = Op::from_name(name).ok_or_else(|| {
                let known = OPS.map(|(known, _)| known).join(", ");
                policy.error(format!("unknown operation {name}; use one of {known}"))
            })?;
            children[op as usize] = build.node(policy)?;
        }
        Ok(OperationSelector(children))
    }

    #[inline]
    fn enter(&self, _cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        Step::Tail(self.0[request.op as usize])
    }
}
