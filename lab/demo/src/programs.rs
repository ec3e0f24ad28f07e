//! The programs of the region, and the command line of each.

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use guira_client::text::{Connection, Endpoint, Target};
use guira_control::{Etcd, EtcdOptions, Store};
use guira_protocol::client::VERSION;
use guira_protocol::word::reply;
use guira_regions::{database, etcd, http};
use guira_sql::{Server, mariadb};
use serde_json::json;

use crate::child::Spawner;
use crate::home::Home;
use crate::part::{Part, Plan, Role};
use crate::relay::{Behind, Relay};

/// The pool, and its number of slots.
pub(crate) const POOL: &str = "cache";
pub(crate) const SLOTS: usize = 4;
/// All servers of the pool: one is spare.
const NODES: usize = SLOTS + 1;
pub(crate) const ROUTERS: usize = 2;
/// The lease of a member's registration, and the time until a spare takes the slot of a lost
/// server.
const LEASE: &str = "2s";
pub(crate) const HOLD_DOWN_S: u32 = 3;
/// The expiration time of items in the gutter.
pub(crate) const GUTTER_S: u64 = 10;
pub(crate) const TARGET: &str = "routers";
/// The timeout of a check whether a part serves.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The installed programs that are not part of Guira.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Installed {
    pub(crate) etcd: bool,
    pub(crate) mariadb: bool,
}

impl Installed {
    pub(crate) fn look() -> Self {
        Installed { etcd: etcd::has("etcd"), mariadb: database::is_installed() }
    }
}

pub(crate) struct Builder<'h> {
    pub(crate) home: &'h Home,
    pub(crate) spawner: Arc<Spawner>,
}

/// Parts, and the addresses at which other parts find them.
pub(crate) struct Made {
    pub(crate) parts: Vec<Part>,
    /// etcd as the parts find it, and as this process does.
    pub(crate) etcd: Option<EtcdOptions>,
    /// The login of users to the database.
    pub(crate) database: Option<Server>,
    pub(crate) routers: Vec<Endpoint>,
}

impl Builder<'_> {
    /// Creates all parts without starting them.
    ///
    /// # Errors
    /// When there is no port, thread or file for one.
    pub(crate) fn make(&self, installed: Installed) -> io::Result<Made> {
        let mut made = Made { parts: Vec::new(), etcd: None, database: None, routers: Vec::new() };
        let etcd = if installed.etcd { Some(self.etcd(&mut made)?) } else { None };
        // Only etcd gives a slot to a spare node.
        let nodes = if etcd.is_some() { NODES } else { SLOTS };
        let mut servers = Vec::new();
        for number in 0..nodes {
            let node = self.cache(Role::Node, Some(number), "64MiB")?;
            servers.push(address(&node));
            made.parts.push(node);
        }
        let gutter = self.cache(Role::Gutter, None, "32MiB")?;
        let gutter_at = address(&gutter);
        made.parts.push(gutter);
        for (number, server) in servers.iter().enumerate() {
            made.parts.extend(etcd.as_ref().map(|etcd| self.member(number, etcd, *server)));
        }
        let configuration = configuration(etcd.as_deref(), &servers, gutter_at);
        for number in 0..ROUTERS {
            let router = self.router(number, etcd.as_deref(), &configuration)?;
            made.routers.push(tcp(address(&router)));
            made.parts.push(router);
        }
        if installed.mariadb {
            let at = self.database(&mut made)?;
            let invalidator = self.invalidator(at, made.routers[0].clone())?;
            made.parts.push(invalidator);
        }
        Ok(made)
    }

    fn part(&self, plan: Plan) -> Part {
        Part::new(plan, self.home.path(), &self.spawner)
    }

    fn guira(&self, words: &[&str]) -> Vec<OsString> {
        let guira = self.spawner.guira().as_os_str().to_owned();
        std::iter::once(guira).chain(words.iter().map(OsString::from)).collect()
    }

    fn etcd(&self, made: &mut Made) -> io::Result<String> {
        let (clients, peers) = (free_address()?, free_address()?);
        let own = format!("http://{clients}");
        let words = words_of(&etcd::daemon(&self.home.file("etcd"), &own, peers));
        let relay = Relay::open(Behind::Tcp(clients))?;
        let url = format!("http://{}", relay.address());
        let options = EtcdOptions::new(vec![own]);
        let probed = options.clone();
        let answers = Box::new(move || {
            Etcd::new(probed.clone(), Arc::default()).is_ok_and(|etcd| Store::new(etcd).view().is_ok())
        });
        let plan = Plan { role: Role::Etcd, number: None, words, socket: None, relay: Some(relay), answers };
        made.parts.push(self.part(plan));
        made.etcd = Some(options);
        Ok(url)
    }

    fn cache(&self, role: Role, number: Option<usize>, memory: &str) -> io::Result<Part> {
        let socket = self.socket(role, number);
        let listen = format!("unix:{}", socket.display());
        let words = self.guira(&["serve", "--workers", "1", "--memory", memory, "--listen", &listen]);
        self.listening(role, number, words, socket)
    }

    fn router(&self, number: usize, etcd: Option<&str>, configuration: &str) -> io::Result<Part> {
        let socket = self.socket(Role::Router, Some(number));
        let listen = format!("unix:{}", socket.display());
        let spool = spool(self.home, number);
        self.home.folder(&format!("spool-{number}"))?;
        let kept = self.home.folder(&format!("kept-{number}"))?;
        let mut words = self.guira(&["router", "--listen", &listen, "--config-str", configuration]);
        words.push(format!("--async-dir={}", spool.display()).into());
        words.push(format!("--config-dump-root={}", kept.display()).into());
        for word in [
            "--use-asynclog-version2",
            "--server-timeout-ms=500",
            "--timeouts-until-tko=3",
            "--probe-timeout-initial-ms=200",
            "--probe-timeout-max-ms=1000",
        ] {
            words.push(word.into());
        }
        if let Some(etcd) = etcd {
            words.extend(["--etcd", etcd].map(OsString::from));
        }
        self.listening(Role::Router, Some(number), reported_full_disks(words), socket)
    }

    fn socket(&self, role: Role, number: Option<usize>) -> PathBuf {
        let number = number.map_or_else(String::new, |number| format!("-{number}"));
        self.home.file(&format!("{}{number}", role.name()))
    }

    /// A server of the text protocol at a socket.
    fn listening(
        &self,
        role: Role,
        number: Option<usize>,
        words: Vec<OsString>,
        socket: PathBuf,
    ) -> io::Result<Part> {
        let relay = Some(Relay::open(Behind::Unix(socket.clone()))?);
        let probed = socket.clone();
        let answers = Box::new(move || speaks(&probed));
        Ok(self.part(Plan { role, number, words, socket: Some(socket), relay, answers }))
    }

    fn member(&self, number: usize, etcd: &str, server: SocketAddr) -> Part {
        let (lease, server) = (format!("--lease={LEASE}"), server.to_string());
        let words = ["fleet", "--etcd", etcd, "join", "--pool", POOL, "--server", &server, &lease, "-v"];
        let (words, answers) = (self.guira(&words), Box::new(|| true));
        let (role, number) = (Role::Member, Some(number));
        self.part(Plan { role, number, words, socket: None, relay: None, answers })
    }

    fn database(&self, made: &mut Made) -> io::Result<SocketAddr> {
        let socket = self.home.file("mariadb");
        self.home.folder("database-temporary")?;
        let mut server = database::daemon(1);
        server.args(database_folders(self.home)).arg("--skip-networking");
        server.arg(format!("--socket={}", socket.display()));
        database::logging(&mut server);
        // Commits survive a crash of the process, though not one of the host.
        server.arg("--innodb-flush-log-at-trx-commit=2");
        database::as_root(&mut server);
        let relay = Relay::open(Behind::Unix(socket.clone()))?;
        let at = relay.address();
        let password = self.home.write("password", "secret\n")?;
        let own =
            Server::new(&Endpoint::Unix(socket.clone()), None, "root", None).map_err(io::Error::other)?;
        let answers = Box::new(move || mariadb::connect(&own).is_ok());
        let words = words_of(&server);
        let (role, relay) = (Role::Database, Some(relay));
        made.parts.push(self.part(Plan { role, number: None, words, socket: Some(socket), relay, answers }));
        let users = Server::new(&tcp(at), None, "guira", Some(&password)).map_err(io::Error::other)?;
        made.database = Some(users);
        Ok(at)
    }

    fn invalidator(&self, database: SocketAddr, router: Endpoint) -> io::Result<Part> {
        let (file, admin) = (|name| self.home.file(name), admin_of_invalidator(self.home));
        let text = format!(
            "position = {:?}\nspool = {:?}\nspool-after-ms = 500\non-gap = \"flush\"\nadmin = \"unix:{}\"\n\
             [source.mariadb]\naddress = \"{database}\"\nuser = \"guira\"\npassword-file = {:?}\nserver-id = 4242\n\
             [[template]]\ndatabase = \"shop\"\ntable = \"rows\"\nkeys = [\"row:{{id}}\"]\n\
             [[target]]\nname = \"{TARGET}\"\naddress = \"{router}\"\ntimeout-ms = 2000\n",
            position_of_invalidator(self.home),
            file("spool-of-log"),
            admin.display(),
            file("password"),
        );
        let config = self.home.write("invalidator.toml", &text)?.display().to_string();
        let words = reported_full_disks(self.guira(&["invalidate", "-v", "--config", &config]));
        let probed = admin.clone();
        let answers = Box::new(move || http::page(&probed, "/ready").is_some());
        let (role, socket) = (Role::Invalidator, Some(admin));
        Ok(self.part(Plan { role, number: None, words, socket, relay: None, answers }))
    }
}

/// The options of the database that name its folders.
pub(crate) fn database_folders(home: &Home) -> [String; 2] {
    [("datadir", "database"), ("tmpdir", "database-temporary")]
        .map(|(option, name)| format!("--{option}={}", home.file(name).display()))
}

/// The admin listener of the invalidator, which also has its progress.
pub(crate) fn admin_of_invalidator(home: &Home) -> PathBuf {
    home.file("invalidator")
}

pub(crate) fn position_of_invalidator(home: &Home) -> PathBuf {
    home.file("position")
}

pub(crate) fn spool(home: &Home, router: usize) -> PathBuf {
    home.file(&format!("spool-{router}"))
}

/// The configuration of routers: the pool, with the gutter in its place for a short time.
fn configuration(etcd: Option<&str>, servers: &[SocketAddr], gutter: SocketAddr) -> String {
    let cache = match etcd {
        Some(_) => json!({ "inherit": format!("etcd:{POOL}") }),
        None => json!({ "servers": servers }),
    };
    let route = json!({
        "type": "FailoverWithExptimeRoute",
        "normal": "PoolRoute|cache",
        "failover": "PoolRoute|gutter",
        "failover_exptime": GUTTER_S,
    });
    json!({ "pools": { "cache": cache, "gutter": { "servers": [gutter] } }, "route": route }).to_string()
}

/// Wraps a program so that it receives EFBIG instead of SIGXFSZ when its files cannot grow: a
/// process inherits the signals that its shell ignores.
fn reported_full_disks(words: Vec<OsString>) -> Vec<OsString> {
    let shell = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"].map(OsString::from);
    shell.into_iter().chain(words).collect()
}

fn words_of(command: &Command) -> Vec<OsString> {
    std::iter::once(command.get_program()).chain(command.get_args()).map(OsString::from).collect()
}

/// An address with a free port.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

pub(crate) fn tcp(address: SocketAddr) -> Endpoint {
    Endpoint::Tcp { host: address.ip().to_string(), port: address.port() }
}

/// The address of a part's relay.
fn address(part: &Part) -> SocketAddr {
    part.relay().expect("it has a relay").address()
}

/// A connection to the server at a Unix socket.
pub(crate) fn open(socket: &Path) -> Option<Connection> {
    Connection::open(&Target::new(Endpoint::Unix(socket.to_owned()), ANSWER_MAX)).ok()
}

fn speaks(socket: &Path) -> bool {
    let Some(mut connection) = open(socket) else { return false };
    connection.send(VERSION).is_ok() && connection.line().is_ok_and(|line| line.starts_with(reply::VERSION))
}
