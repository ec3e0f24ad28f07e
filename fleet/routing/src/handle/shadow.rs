//! Also sends a part of the requests to other children, and drops their replies.

use super::{AnyHandle, Children, Handle, OutstandingLimit};
use crate::build::{Builder, Members};
use crate::config::{ConfigError, Json};
use crate::hash::spooky;
use crate::request::Request;
use crate::step::{Cx, NodeId, Rewrite, Step};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Shadow {
    normal: NodeId,
    shadows: Box<[(NodeId, Chosen)]>,
}

#[derive(Clone, Debug)]
struct Chosen {
    keys: Keys,
    /// The number of requests for these keys, out of 2^32, that are shadowed.
    share: u64,
}

#[derive(Clone, Debug)]
enum Keys {
    /// By hash, both ends included.
    Hashes(u32, u32),
    Listed(Arc<[Arc<str>]>),
}

#[derive(Debug)]
struct Setting {
    target: NodeId,
    chosen: Chosen,
    /// Places of the children with this shadow: from the first to before the end.
    first: i64,
    end: i64,
}

const WHOLE: f64 = 4_294_967_296.0;

impl Setting {
    fn parse(members: &mut Members<'_, '_, '_>, json: &Json) -> Result<Self, ConfigError> {
        let mut object = json.object("shadows")?;
        let target = object.required("target")?;
        let pair = |json: &Json, name: &str| match json.list(name)? {
            [first, last] => Ok([first.clone(), last.clone()]),
            _ => Err(json.error(format!("'{name}' is not a list of two numbers"))),
        };
        let fraction = |json: &Json| json.number("key_fraction_range", 0.0..=1.0);
        let place = |json: &Json| json.integer("index_range", 0..=i64::from(u32::MAX));
        let range = object.optional_as("key_fraction_range", pair)?;
        let index = object.optional_as("index_range", pair)?;
        let share = object.optional_as("requests_fraction", |json, name| json.number(name, 0.0..=1.0))?;
        let keys = object.optional_as("keys_to_shadow", Json::list)?.unwrap_or_default();
        let names = keys.iter().map(|key| key.shared_text("keys_to_shadow").cloned());
        let keys = names.collect::<Result<Arc<[_]>, _>>()?;
        if !keys.is_empty() && (range.is_some() || index.is_some()) {
            return Err(json.error("'keys_to_shadow' excludes 'index_range' and 'key_fraction_range'"));
        }
        let (first, end) = match &index {
            _ if !keys.is_empty() => (0, i64::MAX),
            Some([first, end]) => (place(first)?, place(end)?),
            None => (0, 0),
        };
        let [low, high] = match &range {
            Some([low, high]) => [fraction(low)?, fraction(high)?],
            None => [0.0, 0.0],
        };
        if low > high || first > end {
            return Err(json.error("a range of this shadow ends before it begins"));
        }
        let hash = |fraction: f64| (fraction * f64::from(u32::MAX)) as u32;
        let keys = if keys.is_empty() { Keys::Hashes(hash(low), hash(high)) } else { Keys::Listed(keys) };
        let chosen = Chosen { keys, share: (share.unwrap_or(1.0) * WHOLE) as u64 };
        for known in ["key_fraction_range_rv", "validate_replies"] {
            members.warn_of(object.optional(known), known, "this router has nothing of the kind");
        }
        members.finish(object);
        // The last that is read: servers of a shadow that is left out are none of the tree's.
        let mut target = members.node(target)?;
        if let Some(most) = members.shadow_limit() {
            target = members.add(AnyHandle::OutstandingLimit(OutstandingLimit::new(target, most)));
        }
        Ok(Setting { target, chosen, first, end })
    }
}

impl Chosen {
    fn has(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> bool {
        let key = request.routing_key();
        let has_key = match &self.keys {
            Keys::Hashes(low, high) => (*low..=*high).contains(&spooky::hash32(key, 0)),
            Keys::Listed(keys) => keys.iter().any(|listed| listed.as_bytes() == key),
        };
        has_key && (cx.random(1 << 32) as u64) < self.share
    }
}

impl Shadow {
    /// Reads a list of children of which some have shadows.
    pub(crate) fn list(build: &mut Builder<'_>, json: &Json) -> Result<Vec<NodeId>, ConfigError> {
        let mut members = build.members(json)?;
        let mut children = members.children("children")?;
        if let Some(shadows) = members.json("shadows") {
            Self::wrap(&mut members, shadows, &mut children);
        }
        members.end();
        Ok(children.into())
    }

    /// Puts those of `children` that have shadows behind a handle that sends them. As in mcrouter, a shadow that is wrong is left out:
    /// it is no reason to refuse a configuration.
    pub(crate) fn wrap(
        members: &mut Members<'_, '_, '_>,
        shadows: &Json,
        children: &mut Children,
    ) {
        members.without_effect("shadow_policy", "shadows get what the children get");
        let list = shadows.list("shadows").unwrap_or_else(|error| {
            members.left_out("there are no shadows", error);
            &[]
        });
        let mut settings = Vec::new();
        for json in list {
            match Setting::parse(members, json) {
                Ok(setting) => settings.push(setting),
                Err(error) => members.left_out("this shadow is left out", error),
            }
        }
        for (child, place) in children.iter_mut().zip(0..) {
            let own = settings.iter().filter(|setting| (setting.first..setting.end).contains(&place));
            let own: Box<[_]> = own.map(|setting| (setting.target, setting.chosen.clone())).collect();
            if !own.is_empty() {
                *child = members.add(AnyHandle::Shadow(Shadow { normal: *child, shadows: own }));
            }
        }
    }
}

impl Handle for Shadow {
    fn parse(_build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        Err(json.error("ShadowRoute is only allowed in a list of children"))
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        for (target, chosen) in &self.shadows {
            if chosen.has(cx, request) {
                cx.notify(*target, Rewrite::NONE);
            }
        }
        Step::Tail(self.normal)
    }
}
