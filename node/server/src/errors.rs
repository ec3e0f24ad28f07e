//! Errors of a server that starts or stops.

use crate::direct::DirectError;
use crate::takeover::TakeoverError;
use guira_contract::CloseError;
use guira_roster::{OpenError, OptionError};
use guira_sandbox::SandboxError;
use guira_serving::PortError;
use std::io;
use std::net::SocketAddr;

/// Why a server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("cannot listen for datagrams at {address}")]
    Datagrams { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Direct(#[from] DirectError),
    /// Datagrams are to be served, and clients have to say who they are.
    #[error("users (auth-file, -Y, -S) cannot be combined with UDP, mica or local: datagrams have no login")]
    NamelessDatagrams,
    /// There is no such engine.
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error("cannot open the engine")]
    Engine(#[from] OpenError),
    /// No engine can do anything with so little memory.
    #[error("memory: {memory} is too little: the minimum is {least}")]
    LittleMemory { memory: crate::Size, least: crate::Size },
    /// Connections would leave too little memory.
    #[error("--connection-memory {wanted} is too much for --memory {memory}: at most {most}")]
    ConnectionMemory { wanted: crate::Size, memory: crate::Size, most: crate::Size },
    /// It cannot take over, or be taken over.
    #[error(transparent)]
    Takeover(#[from] TakeoverError),
    #[error(transparent)]
    SystemCalls(#[from] SandboxError),
    /// The system refused something that every server needs.
    #[error("cannot start")]
    System(#[from] io::Error),
}

/// What went wrong while a server stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    #[error("a worker failed")]
    Worker(#[from] io::Error),
    #[error("a worker panicked; the items of the region are lost")]
    Panicked,
    /// Items could not be kept.
    #[error("cannot close the region; its items are lost")]
    Close(#[from] CloseError),
}
