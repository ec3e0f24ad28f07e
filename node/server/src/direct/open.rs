//! Opening the paths of all workers.

use super::DirectPath;
use super::bytes::of_rings;
use super::directory::describe;
use crate::options::Options;
use guira_contract::Partitioning;
use guira_memory::Budget;
use guira_transport::{Lender, RingError, ServerPath, UdpServerPath, XdpError, XdpServerPath, ring_paths};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Ports are taken in a row: with a port of the system's choice it may take some tries to find one.
const TRIES: u32 = 100;

#[derive(Debug, thiserror::Error)]
pub enum DirectError {
    #[error("cannot listen for MICA datagrams at {address} for {workers} workers from that port on")]
    Network { address: SocketAddr, workers: usize, source: io::Error },
    #[error("cannot receive MICA datagrams by AF_XDP")]
    Interface(#[from] XdpError),
    /// There are several ports to take them from.
    #[error("with xdp, all mica addresses must have the same port")]
    Ports,
    /// From clients on the same host.
    #[error("cannot open the listener for shared-memory rings at {path}")]
    Local {
        path: PathBuf,
        /// Why not.
        source: RingError,
    },
}

/// A path that was opened, and is not announced to clients yet.
pub(crate) struct OpenPath {
    path: Box<dyn ServerPath>,
    /// The port at which the first worker takes the path's datagrams; 0 if it has none.
    pub(crate) port: u16,
}

/// Opens the paths of all workers.
///
/// # Errors
/// If an address cannot be had.
pub(crate) fn open(options: &Options) -> Result<Vec<Vec<OpenPath>>, DirectError> {
    let mut workers: Vec<Vec<OpenPath>> = (0..options.workers).map(|_| Vec::new()).collect();
    for address in &options.mica {
        let paths = bind_row(*address, options.workers);
        let paths = paths.map_err(|source| DirectError::Network {
            address: *address,
            workers: options.workers,
            source,
        })?;
        let port = paths.first().map_or(0, |(taken, _)| taken.port());
        deal(&mut workers, paths.into_iter().map(|(_, path)| path), port);
    }
    if let Some(interface) = &options.xdp {
        let first: Vec<u16> = workers[0].iter().map(|path| path.port).collect();
        let Some(port) = first.first().copied().filter(|port| first.iter().all(|it| it == port)) else {
            return Err(DirectError::Ports);
        };
        let addresses = options.mica.iter().map(SocketAddr::ip).collect();
        let paths = XdpServerPath::open(&interface.options(addresses, port, options.workers))?;
        tracing::info!(%interface, facts = ?paths.first().map(XdpServerPath::facts), "receiving MICA datagrams by AF_XDP");
        // Sockets of the kernel's stay: clients on this host come by them.
        deal(&mut workers, paths, port);
    }
    if let Some(path) = &options.local {
        let budget = RingBudget(Budget::new(of_rings(options, options.memory.0)));
        let lender: Arc<dyn Lender> = Arc::new(budget);
        let paths = ring_paths(path.clone(), options.unix_mode.0, options.workers, &lender)
            .map_err(|source| DirectError::Local { path: path.clone(), source })?;
        deal(&mut workers, paths, 0);
    }
    Ok(workers)
}

fn deal<P: ServerPath + 'static>(
    workers: &mut [Vec<OpenPath>],
    paths: impl IntoIterator<Item = P>,
    port: u16,
) {
    for (own, path) in workers.iter_mut().zip(paths) {
        own.push(OpenPath { path: Box::new(path), port });
    }
}

/// The paths with what their clients have to know: how the engine is divided.
pub(crate) fn describe_all(
    workers: Vec<Vec<OpenPath>>,
    partitioning: Option<Partitioning>,
    count: usize,
) -> Vec<Vec<DirectPath>> {
    let way = |OpenPath { path, port }| DirectPath { path, directory: describe(partitioning, count, port) };
    workers.into_iter().map(|paths| paths.into_iter().map(way).collect()).collect()
}

/// The memory budget of clients' rings.
#[derive(Debug)]
struct RingBudget(Budget);

impl Lender for RingBudget {
    fn lend(&self, bytes: usize) -> bool {
        self.0.take(bytes)
    }

    fn take_back(&self, bytes: usize) {
        self.0.give(bytes);
    }
}

/// Opens a socket for each worker, at ports next to each other.
fn bind_row(address: SocketAddr, workers: usize) -> io::Result<Vec<(SocketAddr, UdpServerPath)>> {
    let mut tries = if address.port() == 0 { TRIES } else { 1 };
    loop {
        tries -= 1;
        match try_bind_row(address, workers) {
            Err(error) if tries > 0 && error.kind() == io::ErrorKind::AddrInUse => {}
            result => return result,
        }
    }
}

fn try_bind_row(address: SocketAddr, workers: usize) -> io::Result<Vec<(SocketAddr, UdpServerPath)>> {
    let mut row = Vec::new();
    let mut next = address;
    for worker in 0..workers {
        if worker > 0 {
            let port = next.port().checked_add(1);
            next.set_port(port.ok_or(io::Error::from(io::ErrorKind::AddrInUse))?);
        }
        let path = UdpServerPath::bind(next)?;
        next = path.address()?;
        row.push((next, path));
    }
    Ok(row)
}
