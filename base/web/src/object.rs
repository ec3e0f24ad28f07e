//! JSON objects.

use serde_json::{Map, Value};

/// An object of these members. (`collect` sorts them first, and compiles a sort for each type of iterator.)
pub fn object(members: impl IntoIterator<Item = (String, Value)>) -> Map<String, Value> {
    let mut object = Map::new();
    members.into_iter().for_each(|(name, value)| drop(object.insert(name, value)));
    object
}
