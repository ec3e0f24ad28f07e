use guira_routing::config::{Json, Place, Value};
pub fn json(text: &str) -> Json {
    fn of(v: &serde_json::Value) -> Json {
        let value = match v {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(b) => Value::Bool(*b),
            serde_json::Value::Number(n) => Value::Integer(n.as_i64().unwrap_or(0)),
            serde_json::Value::String(s) => Value::Text(s.as_str().into()),
            serde_json::Value::Array(a) => Value::Array(a.iter().map(of).collect()),
            serde_json::Value::Object(o) => Value::Object(o.iter().map(|(k, v)| (k.as_str().into(), of(v))).collect()),
        };
        Json { place: Place::default(), value }
    }
    of(&serde_json::from_str(text).unwrap())
}
