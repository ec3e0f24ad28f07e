//! Looks up a name in /etc/hosts, then in DNS, with hickory.

use super::book::Found;
use super::membership::Target;
use guira_disk as disk;
use guira_disk::MetadataExt;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup_ip::LookupIp;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::{Hosts, Resolver as Hickory, TokioResolver, system_conf};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// The files that lookups depend on.
const FILES: [&str; 2] = ["/etc/hosts", "/etc/resolv.conf"];

/// The server if none is configured, as in the system's own resolver.
const DEFAULT_SERVER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The timeout of a lookup.
const PATIENCE: Duration = Duration::from_secs(10);
/// The wait for addresses of both kinds.
const PATIENCE_FOR_BOTH: Duration = Duration::from_secs(2);
/// The lifetime of an entry in a file, unless the file changes.
const OF_FILES: Duration = Duration::from_secs(300);

/// Identifies a version of the files: modification times and sizes.
type Stamps = [Option<(i64, i64, u64)>; 2];

#[derive(Debug)]
pub(crate) struct Resolver {
    hickory: TokioResolver,
    /// A resolver that queries IPv6 addresses only for names without IPv4 addresses.
    by_turns: TokioResolver,
    hosts: Hosts,
    stamps: Stamps,
}

fn stamps() -> Stamps {
    FILES.map(|file| {
        let found = disk::metadata(Path::new(file)).ok()?;
        Some((found.mtime(), found.mtime_nsec(), found.size()))
    })
}

impl Resolver {
    /// By the system's configuration, but for the DNS server if one is given.
    pub(crate) fn new(server: Option<SocketAddr>) -> Result<Self, NetError> {
        let stamps = stamps();
        let (config, mut options) = system_conf::read_system_conf().unwrap_or_else(|_| {
            let servers = vec![NameServerConfig::udp_and_tcp(DEFAULT_SERVER)];
            (ResolverConfig::from_parts(None, Vec::new(), servers), ResolverOpts::default())
        });
        let config = match server {
            Some(server) => {
                let (domain, search, _) = config.into_parts();
                ResolverConfig::from_parts(domain, search, vec![server_at(server)])
            }
            None => config,
        };
        // Results are kept in the book, so hickory's cache is off.
        options.cache_size = 0;
        let with = |ip_strategy: LookupIpStrategy| {
            let mut builder = Hickory::builder_with_config(config.clone(), TokioRuntimeProvider::default());
            *builder.options_mut() = options.clone();
            builder.options_mut().ip_strategy = ip_strategy;
            builder.build()
        };
        let hickory = with(LookupIpStrategy::Ipv4AndIpv6)?;
        let by_turns = with(LookupIpStrategy::Ipv4thenIpv6)?;
        Ok(Resolver { hickory, by_turns, hosts: Hosts::from_system().unwrap_or_default(), stamps })
    }

    /// Whether the system's configuration is another one by now.
    pub(crate) fn is_outdated(&self) -> bool {
        self.stamps != stamps()
    }

    pub(crate) async fn host(&self, host: &str) -> Result<Found<IpAddr>, String> {
        let name = name(host)?;
        let records = self.of_files(&name);
        if !records.is_empty() {
            return Ok(Found { records, ttl: OF_FILES });
        }
        let found = in_time(self.lookup_ip(name)).await?;
        let answers = found.as_lookup().answers();
        let ttl = answers.iter().map(|record| record.ttl).min().unwrap_or_default();
        let records = found.iter().collect();
        Ok(Found { records, ttl: Duration::from_secs(ttl.into()) })
    }

    /// There are DNS servers that pass over questions for addresses of IPv6 in silence (RFC 4074, section 4.1).
    async fn lookup_ip(&self, name: Name) -> Result<LookupIp, NetError> {
        match tokio::time::timeout(PATIENCE_FOR_BOTH, self.hickory.lookup_ip(name.clone())).await {
            Ok(found) => found,
            Err(_) => self.by_turns.lookup_ip(name).await,
        }
    }

    /// The addresses in /etc/hosts. If there are any, DNS is not queried.
    fn of_files(&self, name: &Name) -> Vec<IpAddr> {
        let types = [RecordType::A, RecordType::AAAA];
        let found = types.map(|kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind)));
        let answers = found.iter().flatten().flat_map(|lookup| lookup.answers());
        answers.filter_map(|record| record.data.ip_addr()).collect()
    }

    /// The targets of an SRV record, whatever their priorities and weights.
    pub(crate) async fn service(&self, service: &str) -> Result<Found<Target>, String> {
        let found = in_time(self.hickory.srv_lookup(name(service)?)).await?;
        let answers = found.answers();
        let ttl = answers.iter().map(|record| record.ttl).min().unwrap_or_default();
        let records = answers.iter().filter_map(|record| match &record.data {
            RData::SRV(srv) => target(&srv.target, srv.port),
            _ => None,
        });
        Ok(Found { records: records.collect(), ttl: Duration::from_secs(ttl.into()) })
    }
}

fn server_at(server: SocketAddr) -> NameServerConfig {
    let at_port = |mut connection: ConnectionConfig| {
        connection.port = server.port();
        connection
    };
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(at_port);
    NameServerConfig::new(server.ip(), true, connections.into())
}

fn name(text: &str) -> Result<Name, String> {
    // Names of hosts may have underscores, which are none of an internationalized name.
    Name::from_ascii(text).or_else(|_| Name::from_utf8(text)).map_err(|error| error.to_string())
}

/// The root as a target says that there is no such service.
fn target(name: &Name, port: u16) -> Option<Target> {
    let host = name.to_lowercase().to_ascii();
    let host = host.trim_end_matches('.');
    let is_host = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    (is_host && !host.is_empty() && port != 0).then(|| Target { host: host.into(), port })
}

async fn in_time<T>(lookup: impl Future<Output = Result<T, NetError>>) -> Result<T, String> {
    match tokio::time::timeout(PATIENCE, lookup).await {
        Ok(found) => found.map_err(|error| error.to_string()),
        Err(_) => Err("no reply from any DNS server".to_owned()),
    }
}
