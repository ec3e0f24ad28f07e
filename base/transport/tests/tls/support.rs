//! An authority, files, and a client and a server at the two ends of a socket.

use guira_transport::net::UnixStream;
use guira_transport::{Progress, Stream, TlsAcceptor, TlsFault, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// The time that acceptors are given.
pub(crate) const NOW: u64 = 1_800_000_000;

/// A folder that is removed after the test.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("guira-tls-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A certificate with its key, as PEM.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) chain: String,
    pub(crate) key: String,
}

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate that is valid until the end of February of `year`.
    pub(crate) fn issue_until(&self, name: &str, year: i32) -> Pair {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_after = date_time_ymd(year, 2, 28);
        let key = KeyPair::generate().unwrap();
        let chain = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair { chain, key: key.serialize_pem() }
    }

    pub(crate) fn issue(&self, name: &str) -> Pair {
        self.issue_until(name, 2090)
    }
}

/// Files for a server, and the authority behind them.
pub(crate) struct World {
    pub(crate) folder: Folder,
    pub(crate) authority: Authority,
    pub(crate) options: TlsOptions,
}

impl World {
    pub(crate) fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let authority = Authority::new();
        let server = authority.issue("the server");
        let mut options = TlsOptions::new(folder.write("server.crt", &server.chain));
        options.key = Some(folder.write("server.key", &server.key));
        options.authorities = Some(folder.write("authority.crt", &authority.pem));
        World { folder, authority, options }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::new(self.options.clone(), NOW).unwrap()
    }

    /// Options of a client that trusts the authority.
    pub(crate) fn client(&self) -> ClientOptions {
        ClientOptions { trusted: self.authority.pem.clone(), ..ClientOptions::default() }
    }
}

#[derive(Clone, Default)]
pub(crate) struct ClientOptions {
    pub(crate) trusted: String,
    pub(crate) certificate: Option<Pair>,
    pub(crate) versions: Option<&'static SupportedProtocolVersion>,
    pub(crate) suites: Option<Vec<rustls::SupportedCipherSuite>>,
}

impl ClientOptions {
    /// Connections made from the same configuration resume each other's sessions.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        let mut provider = rustls::crypto::ring::default_provider();
        if let Some(suites) = &self.suites {
            provider.cipher_suites = suites.clone();
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(provider));
        let builder = match self.versions {
            Some(version) => builder.with_protocol_versions(&[version]).unwrap(),
            None => builder.with_safe_default_protocol_versions().unwrap(),
        };
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.trusted.as_bytes()).unwrap()).unwrap();
        let builder = builder.with_root_certificates(roots);
        Arc::new(match &self.certificate {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = vec![CertificateDer::from_pem_slice(pair.chain.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        })
    }
}

pub(crate) fn session(config: &Arc<ClientConfig>) -> ClientConnection {
    ClientConnection::new(config.clone(), ServerName::try_from("localhost").unwrap()).unwrap()
}

/// A client that the test advances step by step.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: UnixStream,
    pub(crate) session: ClientConnection,
    pub(crate) received: Vec<u8>,
    /// The server has sent a close_notify.
    pub(crate) closed: bool,
    pub(crate) error: Option<rustls::Error>,
}

impl Client {
    pub(crate) fn new(socket: UnixStream, config: &Arc<ClientConfig>) -> Self {
        Client { socket, session: session(config), received: Vec::new(), closed: false, error: None }
    }

    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.session.set_buffer_limit(None);
        self.session.writer().write_all(bytes).unwrap();
    }

    pub(crate) fn outgoing(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.session.wants_write() {
            self.session.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// Sends and receives as much as possible. Returns whether bytes moved.
    pub(crate) fn step(&mut self) -> bool {
        let mut moved = false;
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(_) => moved = true,
                Err(_) => break,
            }
        }
        loop {
            match self.session.read_tls(&mut self.socket) {
                Ok(0) => break,
                Ok(_) => moved = true,
                Err(_) => break,
            }
            if !self.process() {
                break;
            }
        }
        moved
    }

    fn process(&mut self) -> bool {
        match self.session.process_new_packets() {
            Ok(state) => {
                self.closed |= state.peer_has_closed();
                let mut plaintext = vec![0; state.plaintext_bytes_to_read()];
                self.session.reader().read_exact(&mut plaintext).unwrap();
                self.received.extend(plaintext);
                true
            }
            Err(error) => {
                self.error.get_or_insert(error);
                // So that the server notices.
                let _ = self.session.write_tls(&mut self.socket);
                false
            }
        }
    }
}

/// A server that stores its input.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) stream: Stream,
    pub(crate) received: Vec<u8>,
    pub(crate) ended: bool,
    pub(crate) error: Option<io::Error>,
    pub(crate) buffer: Vec<u8>,
}

impl Server {
    pub(crate) fn new(stream: Stream) -> Self {
        Server { stream, received: Vec::new(), ended: false, error: None, buffer: vec![0; 128 << 10] }
    }

    /// Reads as long as there is input. Returns whether there was any.
    pub(crate) fn step(&mut self) -> bool {
        let mut moved = false;
        while !self.ended && self.error.is_none() {
            match self.stream.read(&mut self.buffer) {
                Ok(Progress::Moved(bytes)) => {
                    moved = true;
                    self.received.extend_from_slice(&self.buffer[..bytes]);
                }
                Ok(Progress::Blocked) => break,
                Ok(Progress::Ended) => self.ended = true,
                Err(error) => self.error = Some(error),
            }
        }
        moved
    }

    /// Writes all bytes, which the socket must accept.
    pub(crate) fn say(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Progress::Moved(taken) = self.stream.write(bytes).unwrap() else { panic!("no room") };
            bytes = &bytes[taken..];
        }
    }

    /// The error that ended its reads.
    pub(crate) fn fault(&self) -> Option<TlsFault> {
        self.error.as_ref()?.get_ref()?.downcast_ref::<TlsFault>().cloned()
    }
}

/// Both ends, before the first byte.
pub(crate) fn connect(acceptor: &TlsAcceptor, config: &Arc<ClientConfig>) -> (Client, Server) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let stream = acceptor.accept(Stream::Unix(ours)).unwrap();
    (Client::new(theirs, config), Server::new(stream))
}

/// Advances both ends until neither makes progress.
pub(crate) fn settle(client: &mut Client, server: &mut Server) {
    // A handshake moves no plaintext at the server; the client notices its result.
    while client.step() | server.step() | client.step() {}
}

/// Both ends, after the handshake.
pub(crate) fn connected(acceptor: &TlsAcceptor, config: &Arc<ClientConfig>) -> (Client, Server) {
    let (mut client, mut server) = connect(acceptor, config);
    settle(&mut client, &mut server);
    assert!(server.error.is_none() && client.error.is_none(), "{:?} {:?}", server.error, client.error);
    assert!(server.stream.tls_facts().is_some() && !client.session.is_handshaking());
    (client, server)
}

/// A deterministic pseudorandom sequence (xorshift64*).
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Dice(seed.max(1))
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.roll() % end as u64) as usize
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.roll() as u8).collect()
    }
}
