//! The loads of the bench.

use guira_workload::mix::Weights;
use guira_workload::{Expiry, KeyShape, Mix, Model, OnMiss, Operation, Popularity, SizeModel, cachelib};

use crate::error::LoadError;
use crate::protocol::Protocol;
use crate::server::Wire;

const MIB: u64 = 1 << 20;

/// The items of a server during a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSet {
    pub keys: u64,
    pub sizes: SizeModel,
    /// The server's memory in bytes.
    pub memory: u64,
    pub workers: usize,
    /// By what the server is reached.
    pub wire: Wire,
}

#[derive(Debug, Clone)]
pub struct LoadSpec {
    /// Its name on the command line and in tables.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    pub data: DataSet,
    pub protocol: Protocol,
    pub connections: usize,
    /// Requests in flight on each connection.
    pub pipeline: usize,
    pub multiget_keys: u32,
    pub mix: Mix,
    pub popularity: Popularity,
    pub on_miss: OnMiss,
    /// Requests sent before the first round, until the cache holds what it will hold.
    pub settle: u64,
}

impl LoadSpec {
    /// The model from which requests are drawn.
    #[must_use]
    pub fn model(&self, keys: KeyShape) -> Model {
        Model {
            popularity: self.popularity.clone(),
            keys,
            sizes: self.data.sizes.clone(),
            mix: self.mix.clone(),
            expiry: Expiry::NEVER,
            on_miss: self.on_miss,
        }
    }
}

/// The loads of few keys, which are run only when they are named.
pub(super) const FEW: [&str; 3] = ["get32-few", "mget100-few", "set32-few"];

pub(super) const fn small() -> DataSet {
    DataSet {
        keys: 1_000_000,
        sizes: SizeModel::Constant(32),
        memory: 1024 * MIB,
        workers: 1,
        wire: Wire::Tcp,
    }
}

fn by_udp() -> DataSet {
    DataSet { wire: Wire::Udp, ..small() }
}

pub(super) fn uniform(name: &'static str, about: &'static str, data: DataSet, only: Operation) -> LoadSpec {
    LoadSpec {
        name,
        about,
        protocol: Protocol::Text,
        connections: 16,
        pipeline: 1,
        multiget_keys: 100,
        mix: Mix::Only(only),
        popularity: Popularity::Uniform { count: data.keys },
        on_miss: OnMiss::Leave,
        settle: 0,
        data,
    }
}

/// All loads, in the order in which they run.
///
/// # Errors
/// Never in practice: the models are constants.
pub fn all() -> Result<Vec<LoadSpec>, LoadError> {
    let large = |keys, len| DataSet { keys, sizes: SizeModel::Constant(len), ..small() };
    let mut loads = vec![
        LoadSpec {
            connections: 50,
            ..uniform("get1", "50 connections, one get in flight on each", small(), Operation::Get)
        },
        LoadSpec {
            pipeline: 32,
            ..uniform("get32", "16 connections, 32 gets pipelined", small(), Operation::Get)
        },
        LoadSpec {
            pipeline: 32,
            protocol: Protocol::Binary,
            ..uniform(
                "bget32",
                "16 connections, 32 gets of the binary protocol pipelined",
                small(),
                Operation::Get,
            )
        },
        uniform("mget100", "16 connections, one get of 100 keys in flight", small(), Operation::Multiget),
        LoadSpec {
            pipeline: 32,
            ..uniform("set32", "16 connections, 32 sets pipelined", small(), Operation::Set)
        },
        LoadSpec {
            pipeline: 8,
            ..uniform(
                "get4k",
                "16 connections, 8 gets of 4 KiB values pipelined",
                large(50_000, 4096),
                Operation::Get,
            )
        },
        uniform(
            "get1m",
            "16 connections, gets of values of 1,048,000 bytes",
            large(200, 1_048_000),
            Operation::Get,
        ),
        mixed()?,
        uniform(
            "mget100-2w",
            "mget100 with two workers",
            DataSet { workers: 2, ..small() },
            Operation::Multiget,
        ),
    ];
    loads.extend(by_other_wires());
    loads.extend(of_few_keys());
    Ok(loads)
}

/// The load of this name.
///
/// # Errors
/// If there is no load of this name.
pub(super) fn named(name: &str) -> Result<LoadSpec, LoadError> {
    let found = all()?.into_iter().find(|spec| spec.name == name);
    found.ok_or_else(|| LoadError::Options(format!("unknown load {name:?}")))
}

/// With few keys nothing misses the processor's caches, so all cost above the floor is
/// instructions.
fn of_few_keys() -> [LoadSpec; FEW.len()] {
    let few = || DataSet { keys: 10_000, ..small() };
    let [get32, mget100, set32] = FEW;
    [
        LoadSpec { pipeline: 32, ..uniform(get32, "get32 over 10,000 keys", few(), Operation::Get) },
        uniform(mget100, "mget100 over 10,000 keys", few(), Operation::Multiget),
        LoadSpec { pipeline: 32, ..uniform(set32, "set32 over 10,000 keys", few(), Operation::Set) },
    ]
}

/// Loads over UDP and TLS. memcached is used over UDP both ways: a client with few sockets that sends the gets of a
/// page at once (its server is never without work), and many processes with one socket and one get each. A server of
/// datagrams has one queue for all of them, so they differ only in how much of it there is to take at once.
fn by_other_wires() -> Vec<LoadSpec> {
    vec![
        LoadSpec {
            pipeline: 8,
            ..uniform(
                "uget1",
                "UDP: 16 sockets, up to 8 gets in flight on each, one key per datagram",
                by_udp(),
                Operation::Get,
            )
        },
        LoadSpec {
            connections: 50,
            ..uniform(
                "uget1-50",
                "UDP: 50 sockets, one get in flight on each, for comparison with get1",
                by_udp(),
                Operation::Get,
            )
        },
        LoadSpec {
            pipeline: 32,
            ..uniform(
                "tget32",
                "get32 over TLS 1.3 with AES-128-GCM",
                DataSet { wire: Wire::Tls, ..small() },
                Operation::Get,
            )
        },
    ]
}

fn mixed() -> Result<LoadSpec, LoadError> {
    let options = |error: &dyn std::error::Error| LoadError::Options(error.to_string());
    let keys = 4_000_000;
    let sizes = cachelib::sizes(cachelib::KVCACHE_REG.sizes).map_err(|error| options(&error))?;
    let bytes = keys as f64 * (sizes.mean() + 16.0);
    let memory = (bytes / 10.0) as u64 / MIB * MIB;
    let data = DataSet { keys, sizes, memory, workers: 1, wire: Wire::Tcp };
    let mix =
        Mix::new(&Weights { get: 0.95, set: 0.05, ..Weights::default() }).map_err(|error| options(&error))?;
    Ok(LoadSpec {
        mix,
        popularity: Popularity::zipf(keys, 0.99).map_err(|error| options(&error))?,
        on_miss: OnMiss::Fill,
        settle: 6_000_000,
        pipeline: 32,
        ..uniform(
            "mixed",
            "16 connections, 32 pipelined, 95 % gets and 5 % sets, misses followed by sets, Zipf 0.99, kvcache_reg sizes",
            data,
            Operation::Get,
        )
    })
}
