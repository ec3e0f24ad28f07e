//! Everything that requests come by.
//!
//! It is opened before the engine: a server that opens a region and then cannot listen would keep the items from the next one.

use crate::direct::{self, OpenPath};
use crate::node::StartError;
use crate::options::Options;
use crate::udp;
use guira_serving::{ListenTraits, Port, Security};
use guira_transport::{Address, Inherited, ListenOptions, Listener, TlsAcceptor, VerifyMode};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// Everything that requests come by.
pub(crate) struct Ports {
    pub(crate) streams: Vec<Port>,
    /// Each worker's.
    pub(crate) udp: Vec<Vec<UdpSocket>>,
    pub(crate) paths: Vec<Vec<OpenPath>>,
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
        let streams = open_streams(options, handed.streams, tls)?;
        let udp = udp::open(options, udp, &handed.datagrams)
            .map_err(|(address, source)| StartError::Datagrams { address, source })?;
        Ok(Ports { streams, udp, paths: direct::open(options)? })
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

/// Opens everything that connections come from.
fn open_streams(
    options: &Options,
    inherited: Vec<Listener>,
    tls: Option<&TlsAcceptor>,
) -> Result<Vec<Port>, StartError> {
    let port = |listener: Listener, traits: &ListenTraits| {
        let address = Arc::new(listener.address().clone());
        let speaks = traits.speaks.unwrap_or(options.protocol);
        let tls = security(&listener, traits.security, tls)?;
        Ok::<Port, StartError>(Port { listener, address, speaks, tls })
    };
    let how = ListenOptions { backlog: options.backlog, unix_mode: options.unix_mode.0 };
    let mut ports = Vec::new();
    for listener in inherited {
        ports.push(port(listener, &ListenTraits::default())?);
    }
    for listen in &options.listen {
        match Listener::bind(&listen.address, how) {
            Ok(listener) => ports.push(port(listener, &listen.traits)?),
            Err(error) if listen.optional && error.is_absent() => {
                tracing::info!(address = %listen.address, "this machine does not have the address");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ports)
}

/// How connections of a listener are secured. UNIX sockets are not, unless they say so.
fn security(
    listener: &Listener,
    security: Security,
    tls: Option<&TlsAcceptor>,
) -> Result<Option<TlsAcceptor>, StartError> {
    let local = matches!(listener.address(), Address::Unix(_));
    let Some(tls) = tls else {
        return if security == Security::Default { Ok(None) } else { Err(StartError::NoTls) };
    };
    let verify = match security {
        Security::Plain => return Ok(None),
        Security::Default if local => return Ok(None),
        Security::Default => return Ok(Some(tls.clone())),
        Security::Basic => VerifyMode::None,
        Security::Mutual if tls.options().verify == VerifyMode::None => VerifyMode::Force,
        Security::Mutual => tls.options().verify,
    };
    if verify != VerifyMode::None && tls.options().authorities.is_none() {
        tracing::warn!(address = %listener.address(), "no certificate of a client will hold: no authority is named");
    }
    Ok(Some(tls.with_verify(verify)))
}
