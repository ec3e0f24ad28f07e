//! TLS of a router: its options are mcrouter's.

use super::flags::Flags;
use super::params::path;
use guira_cli::failure::Failure;
use guira_router::ServerTls;
use guira_transport::{CipherList, NameCheck, Resumption, TlsClientOptions, TlsName, TlsOptions, VerifyMode};

/// TLS of clients, if it is used. Its own options take precedence over those for servers, which earlier versions of
/// mcrouter used for both.
pub(super) fn clients(flags: &Flags) -> Result<Option<TlsOptions>, Failure> {
    let own = ["server-pem-cert-path", "server-pem-key-path", "server-pem-ca-path"];
    let common = ["pem-cert-path", "pem-key-path", "pem-ca-path"];
    let [chain, key, authorities] =
        if path(flags, own[0]).is_some() { own } else { common }.map(|option| path(flags, option));
    let authorities = path(flags, own[2]).or(authorities);
    let wanted =
        ["btls:", "mtls:"].iter().any(|prefix| flags.texts("listen").any(|text| text.starts_with(prefix)));
    if !wanted && flags.texts("ssl-port").next().is_none() {
        return Ok(None);
    }
    let chain = chain
        .ok_or_else(|| Failure::usage("TLS for clients needs a certificate: set --server-pem-cert-path"))?;
    let is_required = flags.has("ssl-require-peer-certs");
    let verify = match (&authorities, is_required) {
        (Some(_), true) => VerifyMode::Force,
        (Some(_), false) => VerifyMode::Peer,
        (None, false) => VerifyMode::None,
        (None, true) => {
            let reason = "--ssl-require-peer-certs needs authorities: set --server-pem-ca-path";
            return Err(Failure::usage(reason.to_owned()));
        }
    };
    let resumption = Resumption::Tickets;
    Ok(Some(TlsOptions { key, authorities, verify, resumption, ..TlsOptions::new(chain) }))
}

/// TLS to the servers of pools that require it.
pub(super) fn servers(flags: &Flags) -> Result<ServerTls, Failure> {
    let chain = path(flags, "pem-cert-path");
    let authorities = path(flags, "pem-ca-path").filter(|_| flags.has("ssl-verify-peers"));
    if flags.has("ssl-verify-peers") && authorities.is_none() {
        return Err(Failure::usage("--ssl-verify-peers needs authorities: set --pem-ca-path"));
    }
    let enforce = "ssl-service-identity-authorization-enforce";
    if flags.has(enforce) && authorities.is_none() {
        return Err(Failure::usage(format!("--{enforce} needs --ssl-verify-peers")));
    }
    let identity = flags.text("ssl-service-identity").filter(|name| !name.is_empty());
    let identity = identity.map(str::parse::<TlsName>).transpose();
    let identity = identity.map_err(|error| Failure::usage(format!("--ssl-service-identity: {error}")))?;
    let options = TlsClientOptions {
        key: path(flags, "pem-key-path").filter(|_| chain.is_some()),
        chain,
        authorities,
        names: if flags.has(enforce) { NameCheck::Required } else { NameCheck::Skipped },
        resumption: if flags.has("ssl-connection-cache") { Resumption::Tickets } else { Resumption::Off },
        ciphers: CipherList::default(),
    };
    Ok(ServerTls { options, identity })
}
