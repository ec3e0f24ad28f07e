//! Errors of a server that starts or stops.

use crate::direct::DirectError;
use crate::takeover::TakeoverError;
use guira_contract::CloseError;
use guira_roster::{OpenError, OptionError};
use guira_serving::PortError;
use std::io;
use std::net::SocketAddr;

/// Why a server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot listen.
    #[error(transparent)]
    Port(#[from] PortError),
    /// It cannot take datagrams.
    #[error("cannot listen for datagrams at {address}")]
    Datagrams {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot take MICA's datagrams.
    #[error(transparent)]
    Direct(#[from] DirectError),
    /// Datagrams are to be served, and clients have to say who they are.
    #[error("users (auth-file, -Y, -S) cannot be combined with UDP, mica or local: datagrams have no login")]
    NamelessDatagrams,
    /// There is no such engine.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The engine cannot be opened.
    #[error("cannot open the engine")]
    Engine(#[from] OpenError),
    /// No engine can do anything with so little memory.
    #[error("memory: {memory} is too little: the minimum is {least}")]
    LittleMemory {
        /// What was given.
        memory: crate::Size,
        /// What it must be.
        least: crate::Size,
    },
    /// Connections would leave too little memory.
    #[error("--connection-memory {wanted} is too much for --memory {memory}: at most {most}")]
    ConnectionMemory {
        /// What was given to them.
        wanted: crate::Size,
        /// What was given to all.
        memory: crate::Size,
        /// What they may have.
        most: crate::Size,
    },
    /// It cannot take over, or be taken over.
    #[error(transparent)]
    Takeover(#[from] TakeoverError),
    /// The system refused something that every server needs.
    #[error("cannot start")]
    System(#[from] io::Error),
}

/// What went wrong while a server stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// A worker has failed.
    #[error("a worker failed")]
    Worker(#[from] io::Error),
    /// A worker has panicked.
    #[error("a worker panicked; the items of the region are lost")]
    Panicked,
    /// Items could not be kept.
    #[error("cannot close the region; its items are lost")]
    Close(#[from] CloseError),
}
