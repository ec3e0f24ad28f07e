//! Memory: how large the process becomes for what it holds.

use guira_workload::{Expiry, KeyShape, Mix, Model, Operation, SizeModel, cachelib};
use serde::Serialize;

use super::Options;
use super::columns::{mib, rows};
use super::driver::Bench;
use super::parameters::Scale;
use crate::engine::Quiet;
use crate::equal;
use crate::error::LoadError;
use crate::request::ItemStyle;
use crate::run::Load;
use crate::server::{Kind, Server, Spec, Wire};
use crate::target::Target;

const MIB: u64 = 1 << 20;

#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    /// Memory allowed, in bytes.
    pub memory: u64,
    pub keys: u64,
    pub shape: KeyShape,
    pub sizes: SizeModel,
    pub flags: u32,
    /// Seconds until expiry, 0 for never.
    pub exptime: u32,
    pub audience: Audience,
}

/// Which servers a case is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Every cache.
    All,
    Guira,
}

impl Case {
    /// Whether `kind` is measured with this case.
    #[must_use]
    pub const fn is_for(&self, kind: &Kind) -> bool {
        matches!(self.audience, Audience::All) || matches!(kind, Kind::Guira { .. })
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct Held {
    pub case: String,
    pub server: String,
    /// Memory allowed, in bytes.
    pub memory: u64,
    /// Resident size of the process, in bytes.
    pub resident: u64,
    /// `curr_items`.
    pub items: u64,
    pub bytes_per_item: f64,
    /// Sets per second of the server's processor time while it was filled.
    pub sets_per_cpu_s: f64,
}

/// Memory allowed to the servers of all cases but the sweep's.
pub(super) const fn allowed(scale: Scale) -> u64 {
    scale.part(1024 * MIB)
}

/// Keys that are set, more than fit.
pub(super) const fn keys(scale: Scale) -> u64 {
    scale.part(25_000_000)
}

/// The case of small items: `keys` distinct keys of 16 bytes with values of 32 into `memory`.
#[must_use]
pub fn small(name: &str, memory: u64, keys: u64) -> Case {
    Case {
        name: name.to_owned(),
        memory,
        keys,
        shape: KeyShape::sixteen(),
        sizes: SizeModel::Constant(32),
        flags: 0,
        exptime: 0,
        audience: Audience::All,
    }
}

/// The same with flags of four bytes and an expiry far away.
#[must_use]
pub fn stamped(name: &str, memory: u64, keys: u64) -> Case {
    Case { flags: 0xdead_beef, exptime: 7 * 24 * 3600, ..small(name, memory, keys) }
}

/// Twenty sizes between half and twice `memory`, so that a table that doubles is met full and empty.
#[must_use]
pub fn sweep(memory: u64, keys: u64) -> Vec<Case> {
    (0..20)
        .map(|step| {
            let factor = 0.5 + 1.5 * f64::from(step) / 19.0;
            let size = (memory as f64 * factor) as u64 / MIB * MIB;
            let keys = (keys as f64 * factor) as u64;
            let case = small(&format!("{} MiB", size / MIB), size, keys);
            Case { audience: Audience::Guira, ..case }
        })
        .collect()
}

/// kvcache_reg's keys and values, more than `memory` holds.
///
/// # Errors
/// Never in practice: the model is a constant.
pub fn production(memory: u64) -> Result<Case, LoadError> {
    let fail = |error: &dyn std::error::Error| LoadError::Options(error.to_string());
    let files = cachelib::KVCACHE_REG;
    let config = cachelib::config(files.config).map_err(|error| fail(&error))?;
    let sizes = cachelib::sizes(files.sizes).map_err(|error| fail(&error))?;
    let (len_min, len_max) = config.key_len;
    let shape = KeyShape::new(len_min, len_max, config.keys).map_err(|error| fail(&error))?;
    let keys = (1.6 * memory as f64 / (sizes.mean() + shape.len_mean())) as u64;
    Ok(Case { shape, sizes, ..small("kvcache_reg", memory, keys) })
}

/// Measures every case on every server that it is for.
pub(super) fn measure_all(cases: &[Case], bench: &mut Bench<'_>) -> Result<Vec<Held>, LoadError> {
    let mut held = Vec::new();
    for case in cases {
        for kind in bench.caches(&case.name, Wire::Tcp).into_iter().filter(|kind| case.is_for(kind)) {
            bench.log(&format!("memory {}: setting {} keys in {}", case.name, case.keys, kind.name()));
            held.push(measure(case, kind, bench.options)?);
        }
    }
    Ok(held)
}

/// Fills one server with `case`; the figures are read when all sets are answered.
fn measure(case: &Case, kind: &Kind, options: &Options) -> Result<Held, LoadError> {
    let server = Server::start(&spec(case, kind, options))?;
    let process = server.process();
    let cpu = || process.cpu_ns().map_err(LoadError::system("cannot read the server's processor time"));
    let before = cpu()?;
    fill(case, &server, options)?;
    let cpu_s = (cpu()? - before) as f64 / 1e9;
    let (resident, items) = (server.resident_bytes()?, server.stat("curr_items")?);
    Ok(Held {
        case: case.name.clone(),
        server: kind.name().to_owned(),
        memory: case.memory,
        resident,
        items,
        bytes_per_item: resident as f64 / items.max(1) as f64,
        sets_per_cpu_s: case.keys as f64 / cpu_s.max(1e-9),
    })
}

/// Measures every cache of the bench with `case`: Guira (or the first) as it is, the others at its resident size.
pub(super) fn measure_at_equal_size(case: &Case, bench: &mut Bench<'_>) -> Result<Vec<Held>, LoadError> {
    bench.log(&format!(
        "items {}: setting {} keys in each cache at equal resident size",
        case.name, case.keys
    ));
    let options = bench.options;
    let mut held: Vec<Held> = Vec::new();
    let mut kinds = bench.caches(&case.name, Wire::Tcp);
    kinds.sort_by_key(|kind| !matches!(kind, Kind::Guira { .. }));
    for kind in kinds {
        let memory = match held.first() {
            None => case.memory,
            Some(first) => equal::fit(&spec(case, kind, options), first.resident, &mut |server| {
                fill(case, server, options)
            })?,
        };
        held.push(measure(&Case { memory, ..case.clone() }, kind, options)?);
    }
    Ok(held)
}

fn spec(case: &Case, kind: &Kind, options: &Options) -> Spec {
    Spec::new(kind.clone(), case.memory, &options.server_cores)
}

pub(crate) fn fill(case: &Case, server: &Server, options: &Options) -> Result<(), LoadError> {
    let model = Model {
        sizes: case.sizes.clone(),
        expiry: Expiry::after(case.exptime),
        ..Model::uniform(case.shape, case.keys, 0, Mix::Only(Operation::Set))
    };
    let load = Load {
        connections: 4,
        pipeline: 64,
        style: ItemStyle { flags: case.flags, multiget_keys: 1 },
        cores: options.client_cores.clone(),
        ..Load::new(Target::text(server.addr()), model, options.seed)
    };
    load.preload(&mut Quiet)?.require_right()
}

pub(super) fn table(held: &[Held]) -> String {
    rows(
        held,
        &[
            ("case", &|held| held.case.clone()),
            ("server", &|held| held.server.clone()),
            ("memory allowed, MiB", &|held| format!("{:.0}", mib(held.memory))),
            ("resident, MiB", &|held| format!("{:.1}", mib(held.resident))),
            ("items", &|held| held.items.to_string()),
            ("bytes per item", &|held| format!("{:.1}", held.bytes_per_item)),
            ("M sets per CPU second", &|held| format!("{:.2}", held.sets_per_cpu_s / 1e6)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::{MIB, production, sweep};

    #[test]
    fn the_sweep_goes_from_half_to_twice() {
        let cases = sweep(1024 * MIB, 25_000_000);
        assert_eq!(cases.len(), 20);
        assert_eq!((cases[0].memory / MIB, cases[19].memory / MIB), (512, 2048));
        assert_eq!((cases[0].keys, cases[19].keys), (12_500_000, 50_000_000));
    }

    #[test]
    fn production_items_are_more_than_the_memory_holds() {
        let case = production(1024 * MIB).unwrap();
        let bytes = case.keys as f64 * (case.sizes.mean() + case.shape.len_mean());
        assert!(bytes > 1.5 * (1024 * MIB) as f64);
    }
}
