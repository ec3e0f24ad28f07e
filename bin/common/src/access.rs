//! How servers are reached that a subcommand asks: TLS, and who asks.

use std::path::PathBuf;
use std::time::Duration;

use guira_client::text::{Endpoint, Login, Target};
use guira_client::tls::Trust;

use crate::failure::Failure;

/// Options of TLS.
#[derive(Debug, clap::Args)]
pub struct TlsArgs {
    /// Speak TLS.
    #[arg(long)]
    tls: bool,
    /// PEM file with the certificates of the authorities that may have signed the server's.
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_ca: Option<PathBuf>,
    /// Speak TLS with any server, whatever certificate it shows.
    #[arg(long, requires = "tls", conflicts_with = "tls_ca")]
    tls_insecure: bool,
}

impl TlsArgs {
    /// Whom to believe; none without TLS.
    pub fn trust(&self) -> Result<Option<Trust<'_>>, Failure> {
        match (self.tls, self.tls_insecure, &self.tls_ca) {
            (false, ..) => Ok(None),
            (true, true, _) => Ok(Some(Trust::Anyone)),
            (true, false, Some(path)) => Ok(Some(Trust::Authority(path))),
            (true, false, None) => Err(Failure::usage("--tls needs --tls-ca or --tls-insecure")),
        }
    }
}

/// Options of connections that speak text.
#[derive(Debug, clap::Args)]
pub struct Access {
    #[command(flatten)]
    tls: TlsArgs,
    /// Log in as the first line of this file says, USER:PASSWORD, as in the server's auth-file.
    #[arg(long, value_name = "FILE")]
    login_file: Option<PathBuf>,
}

impl Access {
    /// The server at `endpoint`, which may take `timeout` to answer.
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
