//! Options of connections to servers: TLS and login.

use std::path::PathBuf;
use std::time::Duration;

use guira_client::text::{Endpoint, Login, Target};
use guira_client::tls::Trust;

use crate::failure::Failure;

/// Options of TLS.
#[derive(Debug, clap::Args)]
pub struct TlsArgs {
    /// Use TLS.
    #[arg(long)]
    tls: bool,
    /// PEM file of the authorities for the server's certificate.
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_ca: Option<PathBuf>,
    /// Accept any certificate of the server.
    #[arg(long, requires = "tls", conflicts_with = "tls_ca")]
    tls_insecure: bool,
}

impl TlsArgs {
    /// The trust in certificates; none without TLS.
    pub fn trust(&self) -> Result<Option<Trust<'_>>, Failure> {
        match (self.tls, self.tls_insecure, &self.tls_ca) {
            (false, ..) => Ok(None),
            (true, true, _) => Ok(Some(Trust::Anyone)),
            (true, false, Some(path)) => Ok(Some(Trust::Authority(path))),
            (true, false, None) => Err(Failure::usage("--tls needs --tls-ca or --tls-insecure")),
        }
    }
}

/// Options of connections with the text protocol.
#[derive(Debug, clap::Args)]
pub struct Access {
    #[command(flatten)]
    tls: TlsArgs,
    /// Log in with the first line of this file, USER:PASSWORD, as in the server's auth-file.
    #[arg(long, value_name = "FILE")]
    login_file: Option<PathBuf>,
}

impl Access {
    /// The server at `endpoint`, with a `timeout` for replies.
    pub fn target(&self, endpoint: &Endpoint, timeout: Duration) -> Result<Target, Failure> {
        let target = Target::new(endpoint.clone(), timeout);
        let target = match self.tls.trust()? {
            Some(trust) => target.with_tls(trust)?,
            None => target,
        };
        Ok(match &self.login_file {
            Some(path) => target.with_login(Login::of_file(path)?),
            None => target,
        })
    }
}
