//! The database: `[source.mariadb]`, `[source.mysql]` or `[source.postgres]`.

use super::{ConfigError, yes};
use crate::source::binlog::{self, Product, Reads};
use crate::source::debezium::{self, Acknowledged, OnBadLine, Rules};
use crate::source::postgres::{self, Confirmed, SlotCreation};
use crate::source::{Source, Until};
use guira_client::text::Endpoint;
use guira_sql::mariadb::PasswordKey;
use guira_sql::{Server, Tls, endpoint};
use serde::{Deserialize, Deserializer};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Database {
    MariaDb(Binlog),
    MySql(Binlog),
    Postgres(Postgres),
    Debezium(Debezium),
    #[cfg(guira_simulated)]
    Modelled(Modelled),
}

#[cfg(guira_simulated)]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Modelled {
    #[serde(deserialize_with = "endpoint")]
    address: Endpoint,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Debezium {
    #[serde(deserialize_with = "endpoint")]
    listen: Endpoint,
    #[serde(default)]
    on_bad_line: OnBadLine,
    /// How long a sender may be silent before the invalidator is not ready.
    #[serde(default)]
    silence_max_s: Option<NonZeroU32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Binlog {
    #[serde(deserialize_with = "endpoint")]
    address: Endpoint,
    user: String,
    #[serde(default)]
    password_file: Option<PathBuf>,
    #[serde(default)]
    tls: Option<Tls>,
    server_id: NonZeroU32,
    /// The key that encrypts the password for a MySQL that requires the plain password: from a file, or sent by the
    /// database.
    #[serde(default)]
    public_key_file: Option<PathBuf>,
    #[serde(default, rename = "ask-public-key")]
    requests_public_key: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Postgres {
    #[serde(deserialize_with = "endpoint")]
    address: Endpoint,
    database: String,
    user: String,
    #[serde(default)]
    password_file: Option<PathBuf>,
    #[serde(default)]
    tls: Option<Tls>,
    #[serde(deserialize_with = "slot")]
    slot: String,
    #[serde(default = "yes")]
    create_slot: bool,
    publication: String,
}

/// The longest name of a slot, in bytes.
const SLOT_MAX: usize = 63;

fn slot<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_good = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    if text.is_empty() || text.len() > SLOT_MAX || !text.bytes().all(is_good) {
        return Err(serde::de::Error::custom(
            "a slot name has 1 to 63 lower-case letters, digits and underscores",
        ));
    }
    Ok(text)
}

impl Database {
    /// Checks that there is a file of a position, or none where nothing can be read again.
    pub(super) fn check_position(&self, position: Option<&Path>) -> Result<(), String> {
        match (self, position) {
            (Database::Debezium(_), Some(_)) => {
                Err("position is not allowed with [source.debezium]: the sender keeps the position"
                    .to_owned())
            }
            (Database::MariaDb(_) | Database::MySql(_) | Database::Postgres(_), None) => {
                Err("position is missing".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Checks what serde does not.
    pub(super) fn check(&self) -> Result<(), String> {
        let (tls, address) = match self {
            Database::MariaDb(binlog) | Database::MySql(binlog) => {
                binlog.check_key(matches!(self, Database::MySql(_)))?;
                (&binlog.tls, &binlog.address)
            }
            Database::Postgres(postgres) => (&postgres.tls, &postgres.address),
            Database::Debezium(_) => return Ok(()),
            #[cfg(guira_simulated)]
            Database::Modelled(_) => return Ok(()),
        };
        tls.as_ref()
            .map_or(Ok(()), |tls| tls.check(address))
            .map_err(|error| format!("of the database: {error}"))
    }

    /// Whether a table can be where `database` and `schema` say: MariaDB and MySQL have tables in databases, PostgreSQL in schemas of the one database.
    pub(super) fn check_place(&self, database: Option<&str>, schema: Option<&str>) -> Result<(), String> {
        match self {
            Database::MariaDb(_) | Database::MySql(_) if database.is_none() || schema.is_some() => {
                Err("needs a database and must not have a schema".to_owned())
            }
            Database::Postgres(postgres) if database.is_some() => {
                Err(format!("must not have a database, only a schema: the database is {}", postgres.database))
            }
            Database::Debezium(_) if database.is_some() == schema.is_some() => {
                Err("needs either a database (MySQL, MariaDB) or a schema (PostgreSQL)".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// How many seconds the source may be silent. Databases are requested to send something each
    /// second, and the connection is closed when they do not.
    pub(super) fn silence_max(&self) -> Option<u64> {
        match self {
            Database::Debezium(debezium) => debezium.silence_max_s.map(|seconds| seconds.get().into()),
            Database::MariaDb(_) | Database::MySql(_) | Database::Postgres(_) => None,
            #[cfg(guira_simulated)]
            Database::Modelled(_) => None,
        }
    }

    /// How it is reached, if these tables have templates. Reads the files with the password and with authorities.
    pub(super) fn source(&self, tables: Vec<(String, String)>) -> Result<Source, ConfigError> {
        Ok(match self {
            Database::MariaDb(binlog) => Source::Binlog(binlog.options(Product::MariaDb, &tables)?),
            Database::MySql(binlog) => Source::Binlog(binlog.options(Product::MySql, &tables)?),
            Database::Postgres(postgres) => Source::Postgres(postgres.options(tables)?),
            Database::Debezium(Debezium { listen, on_bad_line, .. }) => Source::Debezium(debezium::Options {
                listen: listen.clone(),
                acknowledged: Acknowledged::default(),
                rules: Rules::new(*on_bad_line),
            }),
            #[cfg(guira_simulated)]
            Database::Modelled(Modelled { address }) => {
                Source::Modelled(crate::source::modelled::Options { address: address.clone() })
            }
        })
    }
}

impl Binlog {
    fn check_key(&self, may_have_one: bool) -> Result<(), String> {
        let named = [
            self.public_key_file.is_some().then_some("public-key-file"),
            self.requests_public_key.then_some("ask-public-key"),
        ];
        match named {
            [Some(_), Some(_)] => Err("set either public-key-file or ask-public-key, not both".to_owned()),
            [Some(name), None] | [None, Some(name)] if !may_have_one => {
                Err(format!("{name} is not allowed in [source.mariadb]: MariaDB needs no public key"))
            }
            _ => Ok(()),
        }
    }

    fn options(&self, product: Product, tables: &[(String, String)]) -> Result<binlog::Options, ConfigError> {
        let key = match &self.public_key_file {
            Some(file) => PasswordKey::File(file.clone()),
            None if self.requests_public_key => PasswordKey::OfServer,
            None => PasswordKey::Missing,
        };
        key.check().map_err(ConfigError::Key)?;
        Ok(binlog::Options {
            product,
            server: Server::new(&self.address, self.tls.as_ref(), &self.user, self.password_file.as_deref())?,
            key,
            server_id: self.server_id.get(),
            until: Until::Forever,
            reads: if tables.is_empty() { Reads::Statements } else { Reads::StatementsAndRows },
        })
    }
}

impl Postgres {
    fn options(&self, tables: Vec<(String, String)>) -> Result<postgres::Options, ConfigError> {
        let creation = if self.create_slot { SlotCreation::Allowed } else { SlotCreation::Forbidden };
        Ok(postgres::Options {
            server: Server::new(&self.address, self.tls.as_ref(), &self.user, self.password_file.as_deref())?,
            database: self.database.clone(),
            slot: self.slot.clone(),
            slot_creation: creation,
            publication: self.publication.clone(),
            tables,
            confirmed: Confirmed::default(),
            until: Until::Forever,
        })
    }
}
