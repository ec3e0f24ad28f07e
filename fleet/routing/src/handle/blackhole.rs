//! Sends requests with certain fields to another child, which answers as a cache without items does unless the configuration names one.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json, Value};
use crate::request::Request;
use crate::step::{Cx, NodeId, Step};

#[derive(Debug)]
pub(crate) struct Blackhole {
    default: NodeId,
    blackhole: NodeId,
    /// For each field, one of its conditions has to hold.
    fields: Box<[(Field, Box<[Condition]>)]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Key,
    Flags,
    Exptime,
    Value,
}

const FIELDS: [(&str, Field); 4] =
    [("key", Field::Key), ("flags", Field::Flags), ("exptime", Field::Exptime), ("value", Field::Value)];

#[derive(Debug)]
struct Condition {
    is: Is,
    value: Box<[u8]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Equal,
    Other,
}

impl Condition {
    fn parse(json: &Json) -> Result<Self, ConfigError> {
        let mut object = json.object("policies")?;
        let is = match object.required_as("op", Json::text)? {
            "equals" => Is::Equal,
            "not_equals" => Is::Other,
            other => return Err(json.error(format!("'op' is equals or not_equals, not {other}"))),
        };
        let value = match &object.required("value")?.value {
            Value::Text(text) => text.as_bytes().into(),
            Value::Integer(number) => number.to_string().into_bytes().into(),
            _ => return Err(json.error("'value' is neither a string nor an integer")),
        };
        Ok(Condition { is, value })
    }
}

impl Handle for Blackhole {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let default = members.child("default")?;
        let blackhole = members.child_or_null("blackhole_child")?;
        let mut fields = Vec::new();
        if let Some(policies) = members.json("policies") {
            for (name, list) in policies.object("policies")?.members() {
                let field = FIELDS.iter().find(|(known, _)| **known == **name).map(|(_, field)| *field);
                let known = || FIELDS.map(|(known, _)| known).join(", ");
                let field = field
                    .ok_or_else(|| list.error(format!("requests have no field {name}; they have {}", known())))?;
                let conditions = list.list(name)?.iter().map(Condition::parse);
                fields.push((field, conditions.collect::<Result<_, _>>()?));
            }
        }
        members.end();
        Ok(Blackhole { default, blackhole, fields: fields.into() })
    }

    fn enter(&self, _cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let has = |field: Field, conditions: &[Condition]| {
            let number = match field {
                Field::Flags => request.flags.to_string(),
                Field::Exptime => request.exptime.to_string(),
                Field::Key | Field::Value => String::new(),
            };
            let value = match field {
                Field::Key => request.key,
                Field::Value => request.value,
                Field::Flags | Field::Exptime => number.as_bytes(),
            };
            conditions.iter().any(|condition| (*condition.value == *value) == (condition.is == Is::Equal))
        };
        let is_matched =
            !self.fields.is_empty() && self.fields.iter().all(|(field, conditions)| has(*field, conditions));
        Step::Tail(if is_matched { self.blackhole } else { self.default })
    }
}
