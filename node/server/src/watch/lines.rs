//! What log lines look like.

use crate::background::push_encoded;
use guira_commands::observe::{DeletedBy, Event, Got, StoreEnd};
use guira_contract::{Expiry, ItemState, Meta, MissKind};
use guira_protocol::Verb;
use guira_serving::{CloseReason, ConnectionFacts};
use guira_sync::clock::Seconds;
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// Begins a line: when, and the how manieth.
#[allow(clippy::disallowed_methods, reason = "a log line is dated by the real time")]
fn begin(gid: u64, out: &mut Vec<u8>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let _ = write!(out, "ts={}.{} gid={gid} ", now.as_secs(), now.subsec_micros());
}

fn key(key: &[u8], out: &mut Vec<u8>) {
    out.extend(b" key=");
    push_encoded(key, out);
}

fn of_item(item: Option<Meta>) -> (u8, usize) {
    item.map_or((0, 0), |meta| (meta.class, meta.value_len))
}

fn got_name(got: Got) -> &'static str {
    match got {
        Got::Found => "found",
        Got::Created | Got::Missed(MissKind::Absent) => "not_found",
        Got::Missed(MissKind::Flushed) => "flushed",
        Got::Missed(MissKind::Expired) => "expired",
    }
}

fn verb_name(verb: Verb) -> &'static str {
    match verb {
        Verb::Set => "set",
        Verb::Add => "add",
        Verb::Replace => "replace",
        Verb::Append => "append",
        Verb::Prepend => "prepend",
        Verb::Cas(_) => "cas",
        Verb::Lease(_) => "lease-set",
    }
}

fn end_name(end: StoreEnd) -> &'static str {
    match end {
        StoreEnd::Stored => "stored",
        StoreEnd::NotStored => "not_stored",
        StoreEnd::Exists => "exists",
        StoreEnd::NotFound => "not_found",
        StoreEnd::TooLarge => "too_large",
        StoreEnd::NoMemory => "no_memory",
    }
}

/// Something that a command of connection `cfd` did.
pub(super) fn command(gid: u64, cfd: i32, event: &Event<'_>, out: &mut Vec<u8>) {
    begin(gid, out);
    let _ = match event {
        Event::Get { key: name, got, item } | Event::Lookup { key: name, got, item } => {
            let (class, size) = of_item(*item);
            out.extend(b"type=item_get");
            key(name, out);
            writeln!(out, " status={} clsid={class} cfd={cfd} size={size}", got_name(*got))
        }
        Event::Store { key: name, verb, end, ttl, class, value_len, .. } => {
            out.extend(b"type=item_store");
            key(name, out);
            let (end, verb) = (end_name(*end), verb_name(*verb));
            writeln!(out, " status={end} cmd={verb} ttl={ttl} clsid={class} cfd={cfd} size={value_len}")
        }
        Event::Delete { key: name, by, item } => {
            let (class, size) = of_item(*item);
            let by = if *by == DeletedBy::Delete { "delete" } else { "md" };
            out.extend(b"type=deleted");
            key(name, out);
            writeln!(out, " cmd={by} clsid={class} size={size}")
        }
        // Not for watchers.
        Event::Use { .. } => Ok(()),
    };
}

pub(super) fn eviction(gid: u64, name: &[u8], meta: &Meta, now: Seconds, out: &mut Vec<u8>) {
    begin(gid, out);
    out.extend(b"type=eviction");
    key(name, out);
    let fetched = if meta.state.has(ItemState::FETCHED) { "yes" } else { "no" };
    let ttl = match meta.expiry {
        Expiry::Never => -1,
        Expiry::At(at) => i64::from(at.0) - i64::from(now.0),
    };
    let idle = now.0.saturating_sub(meta.last_access.0);
    let (class, size) = (meta.class, meta.value_len);
    let _ = writeln!(out, " fetch={fetched} ttl={ttl} la={idle} clsid={class} size={size}");
}

pub(super) fn connection_new(gid: u64, facts: &ConnectionFacts, out: &mut Vec<u8>) {
    begin(gid, out);
    let (ip, port, transport) = facts.endpoint();
    let _ = writeln!(out, "type=conn_new rip={ip} rport={port} transport={transport} cfd={}", facts.id);
}

pub(super) fn connection_close(gid: u64, facts: &ConnectionFacts, reason: CloseReason, out: &mut Vec<u8>) {
    begin(gid, out);
    let (ip, port, transport) = facts.endpoint();
    let reason = match reason {
        CloseReason::Error => "error",
        CloseReason::Normal => "normal",
        CloseReason::IdleTimeout => "idle_timeout",
        CloseReason::Shutdown => "shutdown",
    };
    let cfd = facts.id;
    let _ = writeln!(
        out,
        "type=conn_close rip={ip} rport={port} transport={transport} reason={reason} cfd={cfd}"
    );
}
