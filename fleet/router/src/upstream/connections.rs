//! A worker's connections: one to each server by its number, and those that were split off when
//! servers moved to other addresses.

use super::{Destination, Server};
use crate::counters::Counters;
use guira_routing::{Claim, Departures, DestinationId};
use guira_transport::Poll;
use guira_upstream::{HealthOptions, Intake};
use std::ops::{Index, IndexMut, Range};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Connections {
    options: DestinationOptions,
    current: Vec<Destination>,
    leaving: Vec<Leaving>,
    /// Servers that have left the configuration.
    departures: Departures,
    /// The receive buffer of all servers, unless one is being read.
    intake: Option<Intake>,
}

/// Options that all connections of a worker share.
#[derive(Debug)]
pub(crate) struct DestinationOptions {
    pub(crate) health: HealthOptions,
    /// The limit of requests to one server that wait for a reply.
    pub(crate) requests_max: usize,
    pub(crate) counters: Arc<Counters>,
}

#[derive(Debug)]
struct Leaving {
    destination: Destination,
    /// The number of the server, until the last reply has arrived.
    server: Option<u32>,
}

/// The number of the first connection that was split off, above the numbers of all servers.
const LEAVING: usize = 1 << 29;

impl Connections {
    pub(crate) fn new(options: DestinationOptions) -> Self {
        Connections {
            options,
            current: Vec::new(),
            leaving: Vec::new(),
            departures: Departures::default(),
            intake: Some(Intake::default()),
        }
    }

    pub(crate) fn servers(&self) -> usize {
        self.current.len()
    }

    /// Takes over the servers of another configuration. A server whose number now belongs to
    /// another one was retired before.
    pub(crate) fn adopt(&mut self, servers: &[Server], claim: &Claim) {
        let DestinationOptions { health, requests_max, counters } = &self.options;
        let new = |server: &Server| Destination::new(server, *health, *requests_max, counters.clone());
        for (number, server) in servers.iter().enumerate() {
            match self.current.get_mut(number) {
                Some(known) if known.is_of(server) => {}
                Some(former) => {
                    debug_assert!(former.is_over(), "the number of a server in use is reused");
                    *former = new(server);
                }
                None => self.current.push(new(server)),
            }
        }
        self.departures.turn_to(claim);
    }

    /// Whether servers have left the configuration that may have requests in flight.
    #[inline]
    pub(crate) fn have_departures(&self) -> bool {
        !self.departures.is_empty()
    }

    /// Retires servers that have left the configuration, once they have no requests in flight and
    /// no tree that `has_requests` uses them.
    pub(crate) fn retire(&mut self, has_requests: impl Fn(u64) -> bool, poll: &Poll) {
        self.tidy();
        let Connections { current, leaving, departures, .. } = self;
        let is_leaving = |server| leaving.iter().any(|leaving| leaving.server == Some(server));
        let is_done = |server: DestinationId| current[server.0 as usize].is_idle() && !is_leaving(server.0);
        for server in departures.take_done(has_requests, is_done) {
            current[server.0 as usize].retire(poll);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Destination> {
        self.current.iter().chain(self.leaving.iter().map(|leaving| &leaving.destination))
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        let leaving: Range<usize> = LEAVING..LEAVING + self.leaving.len();
        (0..self.current.len()).chain(leaving).map(|number| number as u32)
    }

    /// The number of the server of a connection.
    #[inline]
    pub(crate) fn server_of(&self, number: u32) -> u32 {
        match (number as usize).checked_sub(LEAVING) {
            None => number,
            Some(place) => self.leaving[place].server.unwrap_or(number),
        }
    }

    /// The buffer to read from a connection into.
    #[inline]
    pub(crate) fn take_intake(&mut self, number: u32) -> Intake {
        let mut shared = self.intake.take();
        let intake = self[number as usize].take_intake(&mut shared);
        self.intake = shared;
        intake
    }

    #[inline]
    pub(crate) fn keep_intake(&mut self, number: u32, intake: Intake) {
        let mut shared = self.intake.take();
        self[number as usize].keep_intake(intake, &mut shared);
        self.intake = shared;
    }

    /// Adds a connection that was split off from a server. Returns its number.
    pub(crate) fn leave(&mut self, server: u32, destination: Destination) -> u32 {
        let new = Leaving { destination, server: Some(server) };
        let vacant = self.leaving.iter().position(|leaving| leaving.server.is_none());
        let place = vacant.unwrap_or(self.leaving.len());
        match self.leaving.get_mut(place) {
            Some(leaving) => *leaving = new,
            None => self.leaving.push(new),
        }
        (LEAVING + place) as u32
    }

    /// Removes split-off connections that have ended.
    pub(crate) fn tidy(&mut self) {
        for leaving in self.leaving.iter_mut().filter(|leaving| leaving.destination.is_over()) {
            if let Some(server) = leaving.server.take() {
                self.current[server as usize].absorb(&leaving.destination);
            }
        }
    }
}

impl Index<usize> for Connections {
    type Output = Destination;

    #[inline]
    fn index(&self, number: usize) -> &Destination {
        match self.current.get(number) {
            Some(destination) => destination,
            None => &self.leaving[number - LEAVING].destination,
        }
    }
}

impl IndexMut<usize> for Connections {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut Destination {
        match self.current.get_mut(number) {
            Some(destination) => destination,
            None => &mut self.leaving[number - LEAVING].destination,
        }
    }
}
