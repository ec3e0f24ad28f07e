//! Listeners, and the TLS of their connections.

use crate::{Listen, ListenTraits, Security, Speaks};
use guira_transport::{Address, ListenError, ListenOptions, Listener, Stream, TlsAcceptor, VerifyMode};
use std::io;
use std::sync::Arc;

/// A listener, and the protocol and TLS of its connections.
#[derive(Debug)]
pub struct Port {
    pub listener: Listener,
    pub address: Arc<Address>,
    pub speaks: Speaks,
    pub tls: Option<TlsAcceptor>,
}

/// The reason that a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A listener has a TLS prefix, but the server has no certificate.
    #[error("a listener with notls:, btls: or mtls: needs TLS: set a certificate")]
    NoTls,
}

impl Port {
    fn new(
        listener: Listener,
        traits: &ListenTraits,
        speaks: Speaks,
        tls: Option<&TlsAcceptor>,
    ) -> Result<Self, PortError> {
        let address = Arc::new(listener.address().clone());
        let tls = security(&listener, traits.security, tls)?;
        Ok(Port { listener, address, speaks: traits.speaks.unwrap_or(speaks), tls })
    }

    /// Returns the `inherited` listeners and one for each address of `listen`: an `earlier` listener at the same address, or a new one.
    /// `speaks` and `tls` apply to listeners without settings of their own.
    ///
    /// # Errors
    /// If an address cannot be bound, or a listener needs TLS and the server has none.
    pub fn open_all(
        inherited: Vec<Listener>,
        earlier: &mut Vec<Listener>,
        listen: &[Listen],
        how: ListenOptions,
        speaks: Speaks,
        tls: Option<&TlsAcceptor>,
    ) -> Result<Vec<Self>, PortError> {
        let mut ports = Vec::new();
        for listener in inherited {
            ports.push(Port::new(listener, &ListenTraits::default(), speaks, tls)?);
        }
        for listen in listen {
            if let Some(listener) = take_earlier(earlier, &listen.address) {
                ports.push(Port::new(listener, &listen.traits, speaks, tls)?);
                continue;
            }
            match Listener::bind(&listen.address, how) {
                Ok(listener) => ports.push(Port::new(listener, &listen.traits, speaks, tls)?),
                Err(error) if listen.optional && error.is_absent() => {
                    tracing::info!(address = %listen.address, "this machine does not have this address; \
                        no listener was opened for it");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(ports)
    }

    pub(crate) fn secure(&self, stream: Stream) -> io::Result<Stream> {
        match &self.tls {
            Some(tls) => tls.accept(stream),
            None => Ok(stream),
        }
    }
}

/// Takes the listener at this address out of `earlier`. Port 0 matches any port.
fn take_earlier(earlier: &mut Vec<Listener>, wanted: &Address) -> Option<Listener> {
    let is_it = |listener: &Listener| match (listener.address(), wanted) {
        (Address::Tcp(has), Address::Tcp(wanted)) if wanted.port() == 0 => has.ip() == wanted.ip(),
        (has, wanted) => has == wanted,
    };
    let place = earlier.iter().position(is_it)?;
    Some(earlier.remove(place))
}

/// The TLS of a listener's connections. UNIX sockets have none unless their prefix demands it.
fn security(
    listener: &Listener,
    security: Security,
    tls: Option<&TlsAcceptor>,
) -> Result<Option<TlsAcceptor>, PortError> {
    let local = matches!(listener.address(), Address::Unix(_));
    let Some(tls) = tls else {
        return if security == Security::Default { Ok(None) } else { Err(PortError::NoTls) };
    };
    let verify = match security {
        Security::Plain => return Ok(None),
        Security::Default if local => return Ok(None),
        Security::Default => return Ok(Some(tls.clone())),
        Security::Basic => VerifyMode::None,
        // Each client has to present a certificate, even if other listeners do not demand one.
        Security::Mutual => VerifyMode::Force,
    };
    if verify != VerifyMode::None && tls.options().authorities.is_none() {
        // Operator: Set `tls-ca` to the file of the authorities that sign client certificates.
        tracing::warn!(address = %listener.address(), "mtls listener without tls-ca: the server will \
            reject every client certificate");
    }
    Ok(Some(tls.with_verify(verify)))
}
