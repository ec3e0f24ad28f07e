//! Bytes in and out: addresses, listeners and streams, and the event loop's view of them. No protocol.

mod address;
mod datagram;
mod inherited;
mod listener;
mod mailbox;
pub mod net;
mod passing;
mod path;
mod poll;
mod stream;
mod tls;

pub use address::{Address, AddressError};
pub use datagram::{
    DATAGRAMS_AT_ONCE, DATAGRAMS_BYTES, Datagrams, Outgoing, Peer, PortSharing, datagram_socket,
};
pub use inherited::{Inherited, inherited_sockets};
pub use listener::{AcceptError, ListenError, ListenOptions, Listener};
pub use mailbox::Mailbox;
pub use passing::{FDS_AT_ONCE, PeerProcess, receive_fds, send_fds};
pub use path::{
    BURST_MAX, ClientPath, Lender, LossMeter, Losses, PAYLOAD_MAX, Park, RING_PATH_BYTES, RingClientPath,
    RingError, RingServerPath, Sent, ServerPath, UDP_PATH_BYTES, UdpClientPath, UdpServerPath, XdpAttach,
    XdpChecksums, XdpClientOptions, XdpClientPath, XdpError, XdpFacts, XdpMode, XdpServerOptions,
    XdpServerPath, client_rings_bytes, ring_paths,
};
pub use poll::{Event, Interest, Poll, Token, wait_for};
pub use stream::{Progress, Stream};
pub use tls::{
    CipherList, MinVersion, NameCheck, Resumption, TlsAcceptor, TlsClientOptions, TlsConnector, TlsCounters,
    TlsError, TlsFacts, TlsFailure, TlsFault, TlsName, TlsOptionError, TlsOptions, TlsStatus, TlsStream,
    VerifyMode,
};
