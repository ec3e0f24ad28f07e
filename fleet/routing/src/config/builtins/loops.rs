//! Loops over the items of an array or the members of an object. Each pass is expanded in a scope
//! with `%item%` and `%key%`, or the names that the loop gives them.

use std::rc::Rc;
use std::sync::Arc;

use super::super::expand::{Expander, Members, Outcome, Scope, Trouble};
use super::super::json::{Json, Value};
use super::{BuiltIn, object};

pub(super) const ROWS: &[BuiltIn] = &[
    object("foreach", foreach),
    object("transform", transform),
    object("process", process),
    // Definitions are expanded where they are used.
    object("macroDef", unexpanded),
    object("constDef", unexpanded),
];

fn unexpanded(expander: &Expander<'_>, json: &Json, _: &Scope<'_>) -> Outcome<Json> {
    expander.copy(json)
}

struct Loop<'l> {
    expander: &'l Expander<'l>,
    json: &'l Json,
    kind: &'static str,
    outer: &'l Scope<'l>,
    inner: Scope<'l>,
    key: Arc<str>,
    item: Arc<str>,
}

enum Entries {
    Items(Vec<Json>),
    Members(Vec<(Arc<str>, Json)>),
}

impl<'l> Loop<'l> {
    /// `key` and `item` are the members that say what the two are called.
    fn new(
        kind: &'static str,
        expander: &'l Expander<'l>,
        json: &'l Json,
        outer: &'l Scope<'l>,
        [key, item]: [&str; 2],
    ) -> Outcome<Self> {
        let name = |member: &str, default: &str| match json.get(member) {
            None => Ok(Arc::from(default)),
            Some(name) => Ok::<_, Trouble>(Arc::clone(name.shared_text(member)?)),
        };
        let (key, item) = (name(key, "key")?, name(item, "item")?);
        let inner = Scope::within(outer);
        for name in [&key, &item] {
            inner.add(name, Rc::new(Json { place: json.place.clone(), value: Value::Null }), &json.place)?;
        }
        Ok(Self { expander, json, kind, outer, inner, key, item })
    }

    fn fail(&self, reason: impl std::fmt::Display) -> Trouble {
        Trouble::at(&self.json.place, format!("{}: {reason}", self.kind))
    }

    fn member(&self, name: &str) -> Outcome<&'l Json> {
        self.json.get(name).ok_or_else(|| self.fail(format!("has no '{name}'")))
    }

    /// A member that is expanded outside the loop.
    fn outside(&self, name: &str) -> Outcome<Json> {
        self.expander.expand(self.member(name)?, self.outer).map_err(|trouble| trouble.in_member(name))
    }

    /// A member that is expanded for the current entry.
    fn inside(&self, name: &str, json: &Json) -> Outcome<Json> {
        self.expander.expand(json, &self.inner).map_err(|trouble| trouble.in_member(name))
    }

    fn entries(&self, name: &str) -> Outcome<Entries> {
        let json = self.outside(name)?;
        match json.value {
            Value::Array(items) => Ok(Entries::Items(items)),
            Value::Object(members) => Ok(Entries::Members(members)),
            _ => Err(self.fail(format!("'{name}' is {}, an array or object expected", json.kind()))),
        }
    }

    /// Makes an entry the current one.
    fn enter(&self, key: Value, item: Json) -> Rc<Json> {
        let item = Rc::new(item);
        self.inner.assign(&self.key, Rc::new(Json { place: item.place.clone(), value: key }));
        self.inner.assign(&self.item, Rc::clone(&item));
        item
    }
}

impl Entries {
    /// Each with its key: a position, or a name.
    fn into_pairs(self) -> Box<dyn Iterator<Item = (Value, Json)>> {
        match self {
            Self::Items(items) => {
                Box::new(items.into_iter().enumerate().map(|(at, item)| (Value::Integer(at as i64), item)))
            }
            Self::Members(members) => {
                Box::new(members.into_iter().map(|(name, item)| (Value::Text(name), item)))
            }
        }
    }
}

/// Changes each item, and the names of an object.
fn transform(expander: &Expander<'_>, json: &Json, scope: &Scope<'_>) -> Outcome<Json> {
    let looped = Loop::new("transform", expander, json, scope, ["keyName", "itemName"])?;
    let item_transform = json.get("itemTransform");
    let value = match looped.entries("dictionary")? {
        Entries::Items(items) if items.is_empty() => Value::Array(items),
        entries @ Entries::Items(_) => {
            let item_transform = looped.member("itemTransform")?;
            let mut items = Vec::new();
            for (key, item) in entries.into_pairs() {
                looped.enter(key, item);
                items.push(looped.inside("itemTransform", item_transform)?);
            }
            Value::Array(items)
        }
        entries @ Entries::Members(_) => {
            let key_transform = json.get("keyTransform");
            let mut members = Members::default();
            for (key, item) in entries.into_pairs() {
                let item = looped.enter(key.clone(), item);
                let keys = match key_transform {
                    None => vec![key],
                    Some(transform) => transformed_keys(&looped, looped.inside("keyTransform", transform)?)?,
                };
                if keys.is_empty() {
                    continue;
                }
                let item = match item_transform {
                    None => item,
                    Some(transform) => Rc::new(looped.inside("itemTransform", transform)?),
                };
                for key in keys {
                    let Value::Text(key) = key else {
                        return Err(
                            looped.fail("'keyTransform' becomes an array of other things than strings")
                        );
                    };
                    members.insert(key, expander.copy(&item)?);
                }
            }
            members.into_value()
        }
    };
    Ok(Json { place: json.place.clone(), value })
}

/// A name becomes one, several or none.
fn transformed_keys(looped: &Loop<'_>, keys: Json) -> Outcome<Vec<Value>> {
    match keys.value {
        Value::Text(_) => Ok(vec![keys.value]),
        Value::Array(keys) => Ok(keys.into_iter().map(|key| key.value).collect()),
        _ => Err(looped.fail(format!("'keyTransform' becomes {}, a string or array expected", keys.kind()))),
    }
}

/// Carries a value, which each entry changes, through the loop.
fn process(expander: &Expander<'_>, json: &Json, scope: &Scope<'_>) -> Outcome<Json> {
    let looped = Loop::new("process", expander, json, scope, ["keyName", "itemName"])?;
    let entries = looped.entries("dictionary")?;
    let mut value = looped.outside("initialValue")?;
    let transform = looped.member("transform")?;
    let name = match json.get("valueName") {
        None => Arc::from("value"),
        Some(name) => Arc::clone(name.shared_text("valueName")?),
    };
    let null = Rc::new(Json { place: json.place.clone(), value: Value::Null });
    looped.inner.add(&name, null, &json.place)?;
    for (key, item) in entries.into_pairs() {
        looped.enter(key, item);
        looped.inner.assign(&name, Rc::new(value));
        value = looped.inside("transform", transform)?;
    }
    Ok(value)
}

/// Puts together what the first `top` entries that satisfy `where` come to.
fn foreach(expander: &Expander<'_>, json: &Json, scope: &Scope<'_>) -> Outcome<Json> {
    let looped = Loop::new("foreach", expander, json, scope, ["key", "item"])?;
    let entries = looped.entries("from")?;
    let top = match json.get("top") {
        None => usize::MAX,
        Some(top) => {
            let top = expander.expand(top, scope)?.integer("top", 0..=i64::MAX)?;
            usize::try_from(top).unwrap_or(usize::MAX)
        }
    };
    let (condition, used) = (json.get("where"), json.get("use"));
    let mut sum = Sum::Nothing;
    let mut taken = 0;
    let is_object = matches!(entries, Entries::Members(_));
    for (key, item) in entries.into_pairs() {
        if taken == top {
            break;
        }
        let item = looped.enter(key.clone(), item);
        if let Some(condition) = condition
            && !looped.inside("where", condition)?.boolean("where")?
        {
            continue;
        }
        taken += 1;
        match (used, key) {
            (Some(used), _) => sum.add(&looped, looped.inside("use", used)?)?,
            (None, Value::Text(key)) => sum.insert(key, expander.copy(&item)?),
            (None, _) => sum.push(expander.copy(&item)?),
        }
    }
    let value = match (sum, json.get("noMatchResult")) {
        (Sum::Nothing, Some(_)) => return looped.outside("noMatchResult"),
        (Sum::Nothing, None) if is_object => Value::Object(Vec::new()),
        (Sum::Nothing, None) => Value::Array(Vec::new()),
        (Sum::Items(items), _) => Value::Array(items),
        (Sum::Members(members), _) => members.into_value(),
    };
    Ok(Json { place: json.place.clone(), value })
}

/// The result of `foreach` so far. The first part determines its type.
enum Sum {
    Nothing,
    Items(Vec<Json>),
    Members(Members),
}

impl Sum {
    fn push(&mut self, item: Json) {
        match self {
            Self::Items(items) => items.push(item),
            _ => *self = Self::Items(vec![item]),
        }
    }

    fn insert(&mut self, name: Arc<str>, item: Json) {
        if !matches!(self, Self::Members(_)) {
            *self = Self::Members(Members::default());
        }
        if let Self::Members(members) = self {
            members.insert(name, item);
        }
    }

    fn add(&mut self, looped: &Loop<'_>, part: Json) -> Outcome<()> {
        if matches!(self, Self::Nothing) {
            *self = match part.value {
                Value::Array(_) => Self::Items(Vec::new()),
                Value::Object(_) => Self::Members(Members::default()),
                _ => {
                    return Err(
                        looped.fail(format!("'use' becomes {}, an array or object expected", part.kind()))
                    );
                }
            };
        }
        match (self, part.value) {
            (Self::Items(items), Value::Array(more)) => items.extend(more),
            (Self::Members(members), Value::Object(more)) => {
                more.into_iter().for_each(|(name, item)| members.insert(name, item));
            }
            _ => return Err(looped.fail("'use' becomes an array for one entry and an object for another")),
        }
        Ok(())
    }
}
