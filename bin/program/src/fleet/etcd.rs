//! Options of connections to etcd, which several subcommands have.

use guira_cli::failure::Failure;
use guira_control::{EtcdOptions, EtcdTls};
use std::path::PathBuf;

/// Files of credentials for etcd.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct EtcdFiles {
    /// PEM file of the authorities for etcd's certificates [default: those of browsers]
    #[arg(id = "etcd-ca-cert", long = "etcd-ca-cert", value_name = "FILE")]
    pub(crate) authority: Option<PathBuf>,
    /// PEM file of the client certificate for etcd.
    #[arg(id = "etcd-cert", long = "etcd-cert", value_name = "FILE", requires = "etcd-key")]
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file of the key of --etcd-cert.
    #[arg(id = "etcd-key", long = "etcd-key", value_name = "FILE", requires = "etcd-cert")]
    pub(crate) key: Option<PathBuf>,
    /// Log in to etcd with the first line of this file, USER:PASSWORD.
    #[arg(id = "etcd-login-file", long = "etcd-login-file", value_name = "FILE")]
    pub(crate) login: Option<PathBuf>,
}

impl EtcdFiles {
    /// The cluster at `endpoints`.
    pub(crate) fn options(&self, endpoints: Vec<String>, prefix: String) -> Result<EtcdOptions, Failure> {
        for endpoint in &endpoints {
            let rest = endpoint.strip_prefix("http://").or_else(|| endpoint.strip_prefix("https://"));
            if rest.is_none_or(|rest| rest.is_empty() || rest.contains('/')) {
                let remedy = "use http://HOST:PORT or https://HOST:PORT";
                return Err(Failure::usage(format!("'{endpoint}' is not a URL of etcd: {remedy}")));
            }
        }
        let identity = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            _ => return Err(Failure::usage("--etcd-cert and --etcd-key must be used together")),
        };
        let tls = EtcdTls { authority: self.authority.clone(), identity };
        Ok(EtcdOptions { prefix, tls, login_file: self.login.clone(), ..EtcdOptions::new(endpoints) })
    }
}

/// Options of a subcommand that needs etcd.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EtcdArgs {
    /// URLs of the members of etcd, http:// or https://HOST:PORT, separated by commas.
    #[arg(long = "etcd", value_name = "URL", value_delimiter = ',')]
    endpoints: Vec<String>,
    /// Prefix of the keys in etcd.
    #[arg(long = "etcd-prefix", value_name = "TEXT", default_value = "/guira/")]
    prefix: String,
    #[command(flatten)]
    files: EtcdFiles,
}

impl EtcdArgs {
    pub(crate) fn options(&self) -> Result<EtcdOptions, Failure> {
        if self.endpoints.is_empty() {
            return Err(Failure::usage(
                "--etcd is missing: give the URL of a member of etcd, http:// or https://HOST:PORT"
                    .to_owned(),
            ));
        }
        self.files.options(self.endpoints.clone(), self.prefix.clone())
    }
}
