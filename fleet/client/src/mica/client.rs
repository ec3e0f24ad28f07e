//! A blocking client: one request at a time.

use super::error::ClientError;
use super::in_flight::Outcome;
use super::options::ClientOptions;
use super::pipeline::{PipelinedClient, fetch_directory};
use super::request::{Request, Ticket};
use guira_protocol::mica::{Directory, Operation, Status};
use guira_sync::clock::Stopwatch;
use guira_transport::{ClientPath, UdpClientPath};
use std::net::SocketAddr;
use std::time::Duration;

/// A value that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredValue {
    /// The value.
    pub value: Vec<u8>,
    /// The item's flags.
    pub flags: u32,
}

/// A client that sends one request at a time and waits for the reply.
#[derive(Debug)]
pub struct Client<P> {
    pub(super) client: PipelinedClient<P>,
    watch: Stopwatch,
    sent: u64,
}

/// The time after which a directory request is sent again.
const DIRECTORY_TIMEOUT: Duration = Duration::from_millis(20);

impl Client<UdpClientPath> {
    /// A client of the server whose first worker receives datagrams at `server`.
    ///
    /// # Errors
    /// If the server does not answer, or the system reports an error.
    pub fn udp(server: SocketAddr, options: ClientOptions) -> Result<Self, ClientError> {
        Client::new(UdpClientPath::connect(server)?, options)
    }
}

impl<P: ClientPath> Client<P> {
    /// A client of the server at the other end of `path`.
    ///
    /// # Errors
    /// If the server does not answer, or the system reports an error.
    pub fn new(mut path: P, options: ClientOptions) -> Result<Self, ClientError> {
        let id = guira_sync::random::seed();
        let directory = fetch_directory(&mut path, DIRECTORY_TIMEOUT)?;
        let client = PipelinedClient::new(path, directory, id, options)?;
        Ok(Client { client, watch: Stopwatch::start(), sent: 0 })
    }

    /// The server's directory.
    pub fn directory(&self) -> Directory {
        self.client.directory()
    }

    /// Reads a key.
    ///
    /// # Errors
    /// If no reply arrives, or the value does not fit into a datagram.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<StoredValue>, ClientError> {
        let (status, flags, value) = self.call(&Request::of(Operation::Get, key))?;
        match status {
            Status::Done => Ok(Some(StoredValue { value, flags })),
            Status::NotFound => Ok(None),
            status => Err(ClientError::Refused(status)),
        }
    }

    /// Stores a value, with memcached's expiration time.
    ///
    /// # Errors
    /// If no reply arrives, or the item is too large.
    pub fn set(&mut self, key: &[u8], value: &[u8], flags: u32, exptime: i32) -> Result<(), ClientError> {
        let request = Request { operation: Operation::Set, key, value, flags, exptime };
        match self.call(&request)? {
            (Status::Done, ..) => Ok(()),
            (status, ..) => Err(ClientError::Refused(status)),
        }
    }

    /// Removes a key, and returns whether it existed. If a reply was lost and the request was sent again, the first
    /// one may have removed it.
    ///
    /// # Errors
    /// If no reply arrives.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, ClientError> {
        match self.call(&Request::of(Operation::Delete, key))? {
            (Status::Done, ..) => Ok(true),
            (Status::NotFound, ..) => Ok(false),
            (status, ..) => Err(ClientError::Refused(status)),
        }
    }

    /// Sends any request, and returns the status, flags and value of the reply.
    ///
    /// # Errors
    /// If no reply arrives, or the request cannot be sent.
    pub fn call(&mut self, request: &Request<'_>) -> Result<(Status, u32, Vec<u8>), ClientError> {
        self.sent += 1;
        let ticket = Ticket(self.sent);
        // The only request always fits.
        let _ = self.client.submit(request, ticket)?;
        self.client.flush(self.watch.elapsed())?;
        let mut answer = None;
        loop {
            self.client.poll(self.watch.elapsed(), &mut |reported, outcome| {
                if reported == ticket {
                    answer = Some(match outcome {
                        Outcome::Answered(reply) => Ok((reply.status, reply.flags, reply.value.to_vec())),
                        Outcome::Lost => Err(ClientError::Lost),
                    });
                }
            })?;
            match answer {
                Some(answer) => return answer,
                None => self.client.wait(Duration::from_millis(1))?,
            }
        }
    }
}
