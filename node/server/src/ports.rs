//! Everything that requests come by.
//!
//! It is opened before the engine: a server that opens a region and then cannot listen would keep the items from the next one.

use crate::direct::{self, OpenPath};
use crate::node::StartError;
use crate::options::Options;
use crate::udp;
use guira_serving::Port;
use guira_transport::{Address, Inherited, ListenOptions, Listener, TlsAcceptor};
use std::net::{SocketAddr, UdpSocket};

/// Everything that requests come by.
pub(crate) struct Ports {
    pub(crate) streams: Vec<Port>,
    /// Each worker's.
    pub(crate) udp: Vec<Vec<UdpSocket>>,
    pub(crate) paths: Vec<Vec<OpenPath>>,
    /// The admin listener's.
    pub(crate) admin: Option<Port>,
}

/// The sockets that were handed over to the server.
pub(crate) struct Handed {
    pub(crate) streams: Vec<Listener>,
    pub(crate) datagrams: Vec<UdpSocket>,
}

impl Handed {
    /// Sorts them.
    pub(crate) fn of(inherited: Vec<Inherited>) -> Self {
        let mut handed = Handed { streams: Vec::new(), datagrams: Vec::new() };
        for socket in inherited {
            match socket {
                Inherited::Stream(listener) => handed.streams.push(listener),
                Inherited::Datagram(socket) => handed.datagrams.push(socket),
            }
        }
        handed
    }
}

impl Ports {
    /// Opens what `options` name, and takes what was handed over. UDP is served at `udp` beside that.
    ///
    /// # Errors
    /// If an address cannot be had, or there is no TLS for a listener that wants it.
    pub(crate) fn open(
        options: &Options,
        udp: &[SocketAddr],
        handed: Handed,
        tls: Option<&TlsAcceptor>,
    ) -> Result<Self, StartError> {
        let how = ListenOptions { backlog: options.backlog, unix_mode: options.unix_mode.0 };
        let streams = Port::open_all(handed.streams, &options.listen, how, options.protocol, tls)?;
        let udp = udp::open(options, udp, &handed.datagrams)
            .map_err(|(address, source)| StartError::Datagrams { address, source })?;
        let admin = options.admin.iter().map(|admin| admin.0.clone()).collect::<Vec<_>>();
        let admin = Port::open_all(Vec::new(), &admin, how, options.protocol, tls)?.pop();
        Ok(Ports { streams, udp, paths: direct::open(options)?, admin })
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.streams.iter().map(|port| port.listener.address().clone()).collect()
    }

    /// Where datagrams are taken from, each address once.
    pub(crate) fn udp_addresses(&self) -> Vec<SocketAddr> {
        let mut addresses = Vec::new();
        for address in self.udp.iter().flatten().filter_map(|socket| socket.local_addr().ok()) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    /// Where MICA's datagrams for the first worker are taken from, over the network.
    pub(crate) fn mica_addresses(&self, options: &Options) -> Vec<SocketAddr> {
        let ports = self.paths.first().into_iter().flatten().map(|path| path.port);
        options.mica.iter().zip(ports).map(|(address, port)| SocketAddr::new(address.ip(), port)).collect()
    }
}
