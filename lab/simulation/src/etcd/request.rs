//! Requests of the JSON gateway: numbers of 64 bits are texts, bytes are base64.

use super::{Compare, Etcd, Put};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::ops::Range;
use std::time::Duration;

/// A status of HTTP, and a text.
pub(super) type Answer = (u16, String);

fn bytes(value: &Value, name: &str) -> Vec<u8> {
    let text = value.get(name).and_then(Value::as_str).unwrap_or_default();
    STANDARD.decode(text).expect("bytes are base64")
}

fn number(value: &Value, name: &str) -> i64 {
    value.get(name).and_then(Value::as_str).map_or(0, |text| text.parse().expect("numbers are texts"))
}

fn list<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

pub(super) fn keys(request: &Value) -> Range<Vec<u8>> {
    bytes(request, "key")..bytes(request, "range_end")
}

pub(super) fn first_revision(request: &Value) -> i64 {
    number(request, "start_revision")
}

pub(super) fn header(etcd: &Etcd) -> Value {
    json!({"cluster_id": "14841639068965178418", "revision": etcd.revision.to_string(), "raft_term": "2"})
}

/// An error as the gateway writes it.
pub(super) fn failure(status: u16, message: &str) -> Answer {
    let code = if status == 404 { 5 } else { 14 };
    (status, json!({"error": message, "code": code, "message": message}).to_string())
}

/// Executes a request that has one answer.
pub(super) fn execute(etcd: &mut Etcd, name: &str, request: &Value) -> Answer {
    let done = match name {
        "kv/range" => Ok(range(etcd, request)),
        "kv/txn" => change(etcd, request),
        "lease/grant" => {
            let ttl = number(request, "TTL");
            let id = etcd.grant(Duration::from_secs(ttl.unsigned_abs()));
            Ok(json!({"header": header(etcd), "ID": id.to_string(), "TTL": ttl.to_string()}))
        }
        "lease/keepalive" => {
            let id = number(request, "ID");
            let mut result = json!({"header": header(etcd), "ID": id.to_string()});
            // The gateway leaves out a number that is 0.
            if let Some(ttl) = etcd.keep_alive(id) {
                result["TTL"] = ttl.as_secs().to_string().into();
            }
            Ok(json!({"result": result}))
        }
        "lease/revoke" => etcd.revoke(number(request, "ID")).map(|()| json!({"header": header(etcd)})),
        _ => return failure(501, &format!("{name} is not modelled")),
    };
    match done {
        Ok(answer) => (200, answer.to_string()),
        Err(message) => failure(404, message),
    }
}

fn range(etcd: &Etcd, request: &Value) -> Value {
    let keys = keys(request);
    let entries = etcd.range(keys).map(|(key, entry)| {
        let mut text = json!({
            "key": STANDARD.encode(key),
            "mod_revision": entry.mod_revision.to_string(),
            "value": STANDARD.encode(&entry.value),
        });
        if entry.lease != 0 {
            text["lease"] = entry.lease.to_string().into();
        }
        text
    });
    let entries: Vec<Value> = entries.collect();
    json!({"header": header(etcd), "count": entries.len().to_string(), "kvs": entries})
}

fn change(etcd: &mut Etcd, request: &Value) -> Result<Value, &'static str> {
    let compare = |one: &Value| {
        assert!(one["target"] == "MOD" && one["result"] == "EQUAL", "no other condition is modelled: {one}");
        Compare { key: bytes(one, "key"), mod_revision: number(one, "mod_revision") }
    };
    let put = |one: &Value| {
        let put = one.get("request_put").expect("no other change is modelled");
        Put { key: bytes(put, "key"), value: bytes(put, "value"), lease: number(put, "lease") }
    };
    let conditions: Vec<Compare> = list(request, "compare").map(compare).collect();
    let is_done = etcd.change(&conditions, list(request, "success").map(put).collect())?;
    let mut answer = json!({"header": header(etcd)});
    if is_done {
        answer["succeeded"] = true.into();
    }
    Ok(answer)
}
