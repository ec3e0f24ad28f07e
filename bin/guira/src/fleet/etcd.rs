//! How etcd is reached, by the options that several subcommands have.

use guira_cli::failure::Failure;
use guira_control::{EtcdOptions, EtcdTls};
use std::path::PathBuf;

/// Files that say who asks, and who may answer.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct EtcdFiles {
    /// PEM file with the authorities that may have signed etcd's certificates; without it, those that browsers know.
    #[arg(id = "etcd-ca-cert", long = "etcd-ca-cert", value_name = "FILE")]
    pub(crate) authority: Option<PathBuf>,
    /// PEM file of the certificate that etcd is shown.
    #[arg(id = "etcd-cert", long = "etcd-cert", value_name = "FILE", requires = "etcd-key")]
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file of its key.
    #[arg(id = "etcd-key", long = "etcd-key", value_name = "FILE", requires = "etcd-cert")]
    pub(crate) key: Option<PathBuf>,
    /// Log in to etcd as the first line of this file says, USER:PASSWORD.
    #[arg(id = "etcd-login-file", long = "etcd-login-file", value_name = "FILE")]
    pub(crate) login: Option<PathBuf>,
}

impl EtcdFiles {
    /// The cluster at `endpoints`.
    pub(crate) fn options(&self, endpoints: Vec<String>, prefix: String) -> Result<EtcdOptions, Failure> {
        for endpoint in &endpoints {
            let rest = endpoint.strip_prefix("http://").or_else(|| endpoint.strip_prefix("https://"));
            if rest.is_none_or(|rest| rest.is_empty() || rest.contains('/')) {
                let reason = "give http:// or https://HOST:PORT";
                return Err(Failure::usage(format!("'{endpoint}' is no member of etcd: {reason}")));
            }
        }
        let identity = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            _ => return Err(Failure::usage("--etcd-cert and --etcd-key go together")),
        };
        let tls = EtcdTls { authority: self.authority.clone(), identity };
        Ok(EtcdOptions { prefix, tls, login_file: self.login.clone(), ..EtcdOptions::new(endpoints) })
    }
}

/// Options of a subcommand about etcd alone.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EtcdArgs {
    /// A member of etcd, as http:// or https://HOST:PORT; several with commas between.
    #[arg(long = "etcd", value_name = "URL", value_delimiter = ',')]
    endpoints: Vec<String>,
    /// What all keys begin with.
    #[arg(long = "etcd-prefix", value_name = "TEXT", default_value = "/guira/")]
    prefix: String,
    #[command(flatten)]
    files: EtcdFiles,
}

impl EtcdArgs {
    pub(crate) fn options(&self) -> Result<EtcdOptions, Failure> {
        if self.endpoints.is_empty() {
            return Err(Failure::usage(
                "--etcd is missing: a member of etcd, as http:// or https://HOST:PORT".to_owned(),
            ));
        }
        self.files.options(self.endpoints.clone(), self.prefix.clone())
    }
}
