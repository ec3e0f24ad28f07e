//! The sockets and paths on which a server receives requests.
//!
//! They are opened before the engine: a server that opened a region and then failed to listen would
//! keep the items from the next server.

use crate::direct::{self, OpenPath};
use crate::errors::StartError;
use crate::options::Options;
use crate::takeover::Sockets;
use crate::udp;
use guira_serving::Port;
use guira_transport::net::UdpSocket;
use guira_transport::{Address, Inherited, ListenOptions, Listener, TlsAcceptor};
use std::io;
use std::net::SocketAddr;

pub(crate) struct Ports {
    pub(crate) streams: Vec<Port>,
    pub(crate) udp: Vec<Vec<UdpSocket>>,
    pub(crate) paths: Vec<Vec<OpenPath>>,
    pub(crate) admin: Option<Port>,
}

/// The sockets that were handed over to the server.
pub(crate) struct Handed {
    pub(crate) streams: Vec<Listener>,
    pub(crate) datagrams: Vec<UdpSocket>,
}

impl Handed {
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
    /// Opens the ports in `options`, and takes the inherited ones. UDP is also served at `udp`.
    /// Sockets of an `earlier` server are reused; those that this server does not need are left
    /// alone.
    ///
    /// # Errors
    /// If an address is not available, or a listener needs TLS and there is none.
    pub(crate) fn open(
        options: &Options,
        udp: &[SocketAddr],
        handed: Handed,
        earlier: &mut Sockets,
        tls: Option<&TlsAcceptor>,
    ) -> Result<Self, StartError> {
        let how = ListenOptions { backlog: options.backlog, unix_mode: options.unix_mode.0 };
        let streams = Port::open_all(
            handed.streams,
            &mut earlier.streams,
            &options.listen,
            how,
            options.protocol,
            tls,
        )?;
        let udp = udp::open(options, udp, &handed.datagrams, &mut earlier.datagrams)
            .map_err(|(address, source)| StartError::Datagrams { address, source })?;
        let admin = options.admin.iter().map(|admin| admin.0.clone()).collect::<Vec<_>>();
        let admin =
            Port::open_all(Vec::new(), &mut earlier.streams, &admin, how, options.protocol, tls)?.pop();
        Ok(Ports { streams, udp, paths: direct::open(options)?, admin })
    }

    /// Keeps copies of all sockets, for a successor. The first `managed` listeners, and the last UDP sockets of each worker, are those of
    /// a service manager. What files they have belongs to the copies.
    ///
    /// # Errors
    /// If the system has no descriptors.
    pub(crate) fn keep(&mut self, managed: [usize; 2]) -> io::Result<Sockets> {
        let mut kept = Sockets::default();
        for (number, port) in self.streams.iter_mut().enumerate() {
            let copy = port.listener.share()?;
            let listener = std::mem::replace(&mut port.listener, copy);
            let is_managed = number < managed[0];
            if is_managed { &mut kept.managed_streams } else { &mut kept.streams }.push(listener);
        }
        if let Some(port) = &mut self.admin {
            let copy = port.listener.share()?;
            kept.streams.push(std::mem::replace(&mut port.listener, copy));
        }
        for sockets in &self.udp {
            let own = sockets.len() - managed[1];
            for socket in &sockets[..own] {
                kept.datagrams.push(socket.try_clone()?);
            }
        }
        for socket in self.udp.first().iter().flat_map(|first| &first[first.len() - managed[1]..]) {
            kept.managed_datagrams.push(socket.try_clone()?);
        }
        Ok(kept)
    }

    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.streams.iter().map(|port| port.listener.address().clone()).collect()
    }

    /// The addresses that receive datagrams, each once.
    pub(crate) fn udp_addresses(&self) -> Vec<SocketAddr> {
        let mut addresses = Vec::new();
        for address in self.udp.iter().flatten().filter_map(|socket| socket.local_addr().ok()) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    /// The network addresses that receive MICA's datagrams for the first worker.
    pub(crate) fn mica_addresses(&self, options: &Options) -> Vec<SocketAddr> {
        let ports = self.paths.first().into_iter().flatten().map(|path| path.port);
        options.mica.iter().zip(ports).map(|(address, port)| SocketAddr::new(address.ip(), port)).collect()
    }
}
