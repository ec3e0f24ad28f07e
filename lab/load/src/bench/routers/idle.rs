//! Clients at rest: what each of them costs a router.

use guira_workload::KeyShape;

use super::super::driver::Bench;
use super::super::idle::{Case, Crowd, Idle, MANY, allow_files, settled};
use super::{Options, Router, kinds, started};
use crate::error::LoadError;
use crate::server::Wire;
use crate::target::Target;

/// Opens clients to one router after the other, and reads its resident size before and after. Each
/// client reads a key when it connects, and again when all are connected.
pub(in crate::bench) fn run(bench: &mut Bench<'_>) -> Result<Vec<Idle>, LoadError> {
    let case = Case { name: "router-idle", connections: MANY, wire: Wire::Tcp };
    let mut results = Vec::new();
    for kind in kinds(bench) {
        // The forwarding floor has a connection to a server for each client.
        let files = if matches!(kind, Router::Relay { .. }) { 2 } else { 1 } * case.connections;
        if let Err(error) = allow_files(files) {
            bench.log(&format!("{}: skipped {}: {error}: {files} needed", case.name, kind.name()));
            continue;
        }
        bench.log(&format!("{}: opening {} connections to {}", case.name, case.connections, kind.name()));
        results.push(measure(case, kind, bench.options)?);
    }
    Ok(results)
}

fn measure(case: Case, kind: &Router, options: &Options) -> Result<Idle, LoadError> {
    let router = started(kind, options)?;
    let mut request = b"get ".to_vec();
    KeyShape::sixteen().append(0, &mut request);
    request.extend_from_slice(b"\r\n");
    let mut crowd = Crowd::new(Target::text(router.addr()));
    let open = |crowd: &mut Crowd| {
        let index = crowd.open()?;
        crowd.require_hit(index, &request)
    };
    open(&mut crowd)?;
    let resident_before = settled(router.process())?;
    for _ in 0..case.connections {
        open(&mut crowd)?;
    }
    let resident_after = settled(router.process())?;
    for index in 0..=case.connections {
        crowd.require_hit(index, &request)?;
    }
    Ok(Idle::new(case, router.name(), resident_before, resident_after))
}
