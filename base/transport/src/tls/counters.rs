//! Counters of TLS connections, and the kinds of their failures.

use guira_sync::atomic::{AtomicU64, Ordering};
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// The other end does not speak TLS: its first byte does not begin a handshake.
    PlainText,
    /// Client and server have no version, cipher suite or other method in common.
    NothingInCommon,
    /// The other end's certificate is missing or invalid.
    Certificate,
    /// The client's SNI is no DNS name, which the library refuses.
    ServerName,
    /// The other end disconnected during the handshake.
    Gone,
    /// Another failure of the handshake, such as an end that rejects the other's certificate.
    Handshake,
    /// The data after the handshake is not TLS.
    Protocol,
}

impl TlsFailure {
    pub const ALL: [TlsFailure; 7] = [
        TlsFailure::PlainText,
        TlsFailure::NothingInCommon,
        TlsFailure::Certificate,
        TlsFailure::ServerName,
        TlsFailure::Gone,
        TlsFailure::Handshake,
        TlsFailure::Protocol,
    ];

    /// The kind of an error of the library.
    pub(super) fn of(error: &rustls::Error, handshake: Handshake) -> Self {
        use rustls::{AlertDescription, Error, PeerMisbehaved};
        if handshake == Handshake::Done {
            return TlsFailure::Protocol;
        }
        match error {
            Error::PeerIncompatible(_) => TlsFailure::NothingInCommon,
            Error::NoCertificatesPresented | Error::InvalidCertificate(_) => TlsFailure::Certificate,
            Error::PeerMisbehaved(PeerMisbehaved::ServerNameMustContainOneHostName) => TlsFailure::ServerName,
            Error::AlertReceived(alert) => match alert {
                AlertDescription::CloseNotify | AlertDescription::UserCanceled => TlsFailure::Gone,
                AlertDescription::ProtocolVersion
                | AlertDescription::HandshakeFailure
                | AlertDescription::InsufficientSecurity => TlsFailure::NothingInCommon,
                _ => TlsFailure::Handshake,
            },
            _ => TlsFailure::Handshake,
        }
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            TlsFailure::PlainText => "the other end does not use TLS",
            TlsFailure::NothingInCommon => "no version or cipher suite in common",
            TlsFailure::Certificate => "no valid certificate",
            TlsFailure::ServerName => {
                "the client's server name (SNI) is not a DNS name: send another one, or none"
            }
            TlsFailure::Gone => "the other end closed the connection during the handshake",
            TlsFailure::Handshake => "the handshake failed",
            TlsFailure::Protocol => "broken TLS",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    UnderWay,
    Done,
}

/// The failure of a connection: the inner error of the [`std::io::Error`] that its reads and writes return.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{failure}: {detail}")]
pub struct TlsFault {
    pub failure: TlsFailure,
    pub detail: String,
}

/// Counters of all connections of an acceptor or a connector. Relaxed: statistics.
#[derive(Debug, Default)]
pub struct TlsCounters {
    full: AtomicU64,
    resumed: AtomicU64,
    failures: [AtomicU64; TlsFailure::ALL.len()],
}

impl TlsCounters {
    /// Successful handshakes that did not resume a session.
    pub fn full(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }

    pub fn resumed(&self) -> u64 {
        self.resumed.load(Ordering::Relaxed)
    }

    /// Failures of one kind. A client or server that disconnected before it sent a byte does not count.
    pub fn failures(&self, failure: TlsFailure) -> u64 {
        self.failures[failure as usize].load(Ordering::Relaxed)
    }

    /// Failed handshakes of any kind (memcached's `ssl_handshake_errors`).
    pub fn failed_handshakes(&self) -> u64 {
        let handshakes = TlsFailure::ALL.iter().filter(|failure| **failure != TlsFailure::Protocol);
        handshakes.map(|failure| self.failures(*failure)).sum()
    }

    pub(super) fn succeeded(&self, kind: Option<rustls::HandshakeKind>) {
        let is_resumed = kind == Some(rustls::HandshakeKind::Resumed);
        if is_resumed { &self.resumed } else { &self.full }.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, failure: TlsFailure) {
        self.failures[failure as usize].fetch_add(1, Ordering::Relaxed);
    }
}
