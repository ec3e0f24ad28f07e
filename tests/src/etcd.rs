//! An etcd of a test's own.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Signal};
use guira_regions::etcd;

use crate::deadline::Deadline;
use crate::server::spawn;
use crate::tls::Certificate;

/// How long it may take to begin.
const START_MAX: Duration = Duration::from_secs(60);

/// A running etcd of one member, gone when it is dropped.
#[derive(Debug)]
pub struct Etcd {
    scratch: Scratch,
    clients: SocketAddr,
    peers: SocketAddr,
    certificate: Option<Certificate>,
    process: Option<ServerProcess>,
}

impl Etcd {
    /// Starts one; `None` when it is not installed.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn start() -> Option<Self> {
        Self::start_with(None)
    }

    /// Starts one that speaks TLS, to clients with a certificate of the same authority only.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn start_with_tls() -> Option<Self> {
        Self::start_with(Some(Certificate::issue()))
    }

    #[track_caller]
    fn start_with(certificate: Option<Certificate>) -> Option<Self> {
        if !["etcd", "etcdctl"].into_iter().all(etcd::has) {
            return None;
        }
        let free = || {
            let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            listener.expect("a port is free")
        };
        let (clients, peers) = (free(), free());
        let mut etcd = Etcd { scratch: Scratch::new(), clients, peers, certificate, process: None };
        etcd.run_again();
        Some(etcd)
    }

    /// Starts it once more after its end, with what it had.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn run_again(&mut self) {
        let mut server = etcd::daemon(&self.scratch.file("data"), &self.url(), self.peers);
        if let Some(certificate) = &self.certificate {
            server.arg("--cert-file").arg(certificate.chain()).arg("--key-file").arg(certificate.key());
            server.arg("--client-cert-auth").arg("--trusted-ca-file").arg(certificate.root());
        }
        self.process = Some(spawn(server));
        let answers = || self.try_control(&["endpoint", "health"]).is_ok().then_some(());
        Deadline::after(START_MAX).poll(answers).expect("etcd answers");
    }

    pub fn url(&self) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.clients)
    }

    /// What its clients prove and check, if it speaks TLS.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }

    /// Ends it as `kill -9` does.
    ///
    /// # Panics
    /// If it does not run.
    #[track_caller]
    pub fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }

    /// Ends it, and takes away what it has kept.
    ///
    /// # Panics
    /// If it does not run, or its files cannot be removed.
    #[track_caller]
    pub fn lose_everything(&mut self) {
        self.kill();
        std::fs::remove_dir_all(self.scratch.file("data")).expect("its files can be removed");
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If it does not run.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        self.process.as_ref().expect("it runs").signal(signal);
    }

    /// Runs etcdctl, and returns what it prints.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn control(&self, arguments: &[&str]) -> String {
        self.try_control(arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    fn try_control(&self, arguments: &[&str]) -> Result<String, String> {
        let mut control = Command::new("etcdctl");
        control.env("ETCDCTL_API", "3").args(["--endpoints", &self.url()]);
        if let Some(certificate) = &self.certificate {
            control.arg("--cacert").arg(certificate.root()).arg("--cert").arg(certificate.chain());
            control.arg("--key").arg(certificate.key());
        }
        let output = control.args(arguments).output().expect("etcdctl can be run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}
