//! The definitions of a pool → [`Pool`].

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;
use std::sync::Arc;

use super::super::json::{ConfigError, Json, Place, Value};
use super::super::object::Object;
use super::server::{self, Address, NO_COMPRESSION, Security};
use super::{FailureDomain, Handover, Leases, Pool, Qos, Server, Target, TkoThresholds, changes};

/// Slots are positions for hashes, which have no more than this.
const SLOT_MAX: i64 = (1 << 23) - 1;

/// The weight of a server beyond the end of `weights`: mcrouter's.
const MISSING_WEIGHT: f64 = 0.5;

/// Members that mcrouter reads and this router does not, and why.
const WITHOUT_EFFECT: [(&str, &str); 7] = [
    ("additional_fanout", "each worker has one connection to a server"),
    ("server_failure_limit", "use the router's option --timeouts-until-tko"),
    ("server_retry_timeout", "use the router's option --probe-timeout-initial-ms"),
    ("services", "services of Meta's scheduler are not supported"),
    ("service_id_override", "service identities are not supported"),
    ("security_mech_within_dc", "this router does not know which servers are in its datacenter"),
    ("port_override_within_dc", "this router does not know which servers are in its datacenter"),
];

/// A pool and what it inherits from: the first that has a member counts.
struct Definitions<'d>(Vec<Object<'d>>);

impl<'d> Definitions<'d> {
    fn optional(&mut self, name: &str) -> Option<&'d Json> {
        // In all of them it is known, wherever it comes from.
        let found: Vec<_> = self.0.iter_mut().filter_map(|object| object.optional(name)).collect();
        found.first().copied()
    }

    fn optional_as<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&'d Json, &str) -> Result<T, ConfigError>,
    ) -> Result<Option<T>, ConfigError> {
        self.optional(name).map(|json| read(json, name)).transpose()
    }

    fn shared_text(&mut self, name: &str) -> Result<Option<Arc<str>>, ConfigError> {
        self.optional_as(name, |json, name| json.shared_text(name).cloned())
    }

    fn refuse(&mut self, names: &[&str], reason: &str) -> Result<(), ConfigError> {
        match names.iter().find_map(|name| Some((name, self.optional(name)?))) {
            Some((name, json)) => Err(json.error(format!("'{name}' {reason}"))),
            None => Ok(()),
        }
    }

    /// A list with one item for each server.
    fn column(&mut self, name: &str, length: usize) -> Result<Option<&'d [Json]>, ConfigError> {
        let Some(json) = self.optional(name) else { return Ok(None) };
        let items = json.list(name)?;
        if items.len() != length {
            return Err(json.error(format!("'{name}' has {} items, 'servers' {length}", items.len())));
        }
        Ok(Some(items))
    }
}

/// Lists with one item for each server.
const COLUMNS: [&str; 7] = ["failure_domains", "handovers", "hostnames", "names", "slots", "tags", "weights"];

/// `of_record` are the servers, if they come from an SRV record.
pub(super) fn read(
    name: &Arc<str>,
    definitions: &[Rc<Json>],
    of_record: Option<&Json>,
    warnings: &mut Vec<ConfigError>,
) -> Result<Pool, ConfigError> {
    let place = definitions[0].place.clone();
    let objects = definitions.iter().map(|json| json.object("pool"));
    let mut members = Definitions(objects.collect::<Result<_, _>>()?);
    let written = members.optional("servers").ok_or_else(|| place.error("has no 'servers'"))?;
    let servers = of_record.unwrap_or(written).list("servers")?;
    if of_record.is_some() {
        members
            .refuse(&COLUMNS, "has an item for each server, and which servers an SRV record has changes")?;
    }
    replaced_protocol(members.optional("protocol"), servers, warnings);
    let transport = Transport::read(&mut members)?;
    let mut pool = Pool {
        name: Arc::clone(name),
        servers: servers.iter().map(|json| transport.server(json)).collect::<Result<_, _>>()?,
        server_timeout: members.optional_as("server_timeout", Json::milliseconds)?,
        connect_timeout: members.optional_as("connect_timeout", Json::milliseconds)?,
        region: members.shared_text("region")?,
        cluster: members.shared_text("cluster")?,
        keep_routing_prefix: members.optional_as("keep_routing_prefix", Json::boolean)?.unwrap_or_default(),
        qos: members.optional("qos").map_or_else(|| Ok(Qos::default()), |json| qos(json, warnings))?,
        tko_thresholds: members
            .optional("tko_tracker")
            .map(|json| tko_thresholds(json, servers.len(), warnings))
            .transpose()?,
        error_on_empty: members.optional_as("error_on_empty", Json::boolean)?.unwrap_or(true),
        disable_request_deadline_check: members
            .optional_as("disable_request_deadline_check", Json::boolean)?,
        max_outstanding: members
            .optional_as("max_outstanding", |json, name| json.integer(name, 0..=i64::MAX))?
            .map(i64::unsigned_abs)
            .filter(|most| *most > 0),
        auto_eject_hosts: members
            .optional("auto_eject_hosts")
            .map(|json| json.boolean("auto_eject_hosts").map(|is_on| is_on.then(|| json.place.clone())))
            .transpose()?
            .flatten(),
        leases: members.optional_as("leases", leases)?.unwrap_or_default(),
        tags: members.column("tags", servers.len())?.map(texts).transpose()?,
        resize: members.optional_as("resize", |json, name| changes::resize(json, name, servers.len()))?,
        place,
    };
    columns(&mut pool.servers, &mut members, warnings)?;
    handovers(&mut pool.servers, &mut members, &transport)?;
    weights(&mut pool.servers, &mut members, warnings)?;
    repeated(&pool.servers, warnings);
    for (name, reason) in WITHOUT_EFFECT {
        let unread = members.optional(name);
        warnings.extend(unread.map(|json| json.error(format!("'{name}' has no effect: {reason}"))));
    }
    for mut object in members.0 {
        // How definitions are found, which has happened.
        for known in ["type", "name", "inherit"] {
            object.optional(known);
        }
        object.finish(warnings);
    }
    Ok(pool)
}

/// Warns of the pool, or the first server, whose protocol is replaced by the text protocol.
fn replaced_protocol<'j>(of_pool: Option<&'j Json>, servers: &'j [Json], warnings: &mut Vec<ConfigError>) {
    let of_pool = of_pool.and_then(|json| Some((json, json.text("protocol").ok()?)));
    let of_pool = of_pool.filter(|(_, name)| server::is_replaced(name));
    let of_server = |json: &'j Json| match &json.value {
        Value::Text(text) => Some((json, server::replaced_protocol(text)?)),
        _ => None,
    };
    if let Some((json, name)) = of_pool.or_else(|| servers.iter().find_map(of_server)) {
        let reason = format!(
            "the protocol {name:?} is replaced by \"ascii\": a server that does not know the text protocol fails"
        );
        warnings.push(json.error(reason));
    }
}

fn leases(json: &Json, name: &str) -> Result<Leases, ConfigError> {
    match json.text(name)? {
        "native" => Ok(Leases::Native),
        "meta" => Ok(Leases::Meta),
        other => Err(json.error(format!("'{name}' is {other:?}, \"native\" or \"meta\" expected"))),
    }
}

fn texts(items: &[Json]) -> Result<Vec<Arc<str>>, ConfigError> {
    items.iter().map(|json| json.shared_text("tags").cloned()).collect()
}

/// The transport settings of a pool, unless a server has its own.
struct Transport {
    port: Option<u16>,
    security: Security,
    /// Overrides the settings of all servers.
    security_override: Option<Security>,
}

impl Transport {
    fn read(members: &mut Definitions<'_>) -> Result<Self, ConfigError> {
        if let Some(json) = members.optional("protocol") {
            server::protocol(json.text("protocol")?).map_err(|reason| json.error(reason))?;
        }
        if let Some(json) = members.optional("enable_compression")
            && json.boolean("enable_compression")?
        {
            return Err(json.error(NO_COMPRESSION));
        }
        let security = |json: &Json, name: &str| {
            server::security(json.text(name)?).map_err(|reason| json.error(format!("'{name}' {reason}")))
        };
        let port = |json: &Json, name: &str| {
            let port = json.integer(name, 1..=i64::from(u16::MAX))?;
            Ok(u16::try_from(port).expect("the range is within 16 bits"))
        };
        let uses_tls = members.optional_as("use_ssl", Json::boolean)?;
        let own = members.optional_as("security_mech", security)?;
        let own_port = members.optional_as("port_override", port)?;
        Ok(Self {
            port: members.optional_as("port_override_cross_dc", port)?.or(own_port),
            security: own.unwrap_or(if uses_tls == Some(true) { Security::Tls } else { Security::Plain }),
            security_override: members.optional_as("security_mech_cross_dc", security)?,
        })
    }

    fn server(&self, json: &Json) -> Result<Server, ConfigError> {
        let target = match &json.value {
            Value::Text(text) => {
                let parsed = server::parse(text, self.port);
                let (address, own) =
                    parsed.map_err(|reason| json.error(format!("server {text:?} {reason}")))?;
                // Connections within a host are plain.
                let common =
                    if matches!(address, Address::Unix(_)) { Security::Plain } else { self.security };
                let forced = self.security_override.filter(|_| matches!(address, Address::Tcp { .. }));
                Target::Server { address, security: forced.or(own).unwrap_or(common) }
            }
            Value::Object(_) => Target::Route(json.clone()),
            _ => return Err(json.error(format!("a server is {}, a string or a route expected", json.kind()))),
        };
        let place = json.place.clone();
        Ok(Server {
            place,
            target,
            weight: None,
            failure_domain: None,
            hostname: None,
            name: None,
            slot: None,
            handover: None,
        })
    }
}

fn qos(json: &Json, warnings: &mut Vec<ConfigError>) -> Result<Qos, ConfigError> {
    let mut object = json.object("qos")?;
    let mut read = |name: &str, max: u8| {
        let value = object.optional_as(name, |json, name| json.integer(name, 0..=i64::from(max)))?;
        Ok(value.map(|value| u8::try_from(value).expect("the range is within 8 bits")))
    };
    let qos = Qos { class: read("class", 4)?, path: read("path", 3)? };
    object.finish(warnings);
    Ok(qos)
}

/// Numbers of servers, or a percentage of them.
fn tko_thresholds(
    json: &Json,
    servers: usize,
    warnings: &mut Vec<ConfigError>,
) -> Result<TkoThresholds, ConfigError> {
    let mut object = json.object("tko_tracker")?;
    warnings.push(json.error(
        "'tko_tracker' has no effect: a server is marked as failed no matter how many of its pool have failed",
    ));
    let mut read = |bound: &str| {
        let number = object.optional_as(&format!("num_tko_threshold_{bound}"), |json, name| {
            json.integer(name, 1..=i64::from(u32::MAX))
        })?;
        let percent = object.optional_as(&format!("percent_tko_threshold_{bound}"), |json, name| {
            json.integer(name, 1..=100)
        })?;
        let number = number.or_else(|| percent.map(|percent| percent * servers as i64 / 100));
        let number = number.filter(|number| *number > 0);
        let number =
            number.ok_or_else(|| json.error(format!("'tko_tracker' has no {bound} threshold above 0")))?;
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    };
    let thresholds = TkoThresholds { upper: read("upper")?, lower: read("lower")? };
    if thresholds.lower > thresholds.upper {
        let TkoThresholds { upper, lower } = thresholds;
        return Err(
            json.error(format!("the lower threshold of 'tko_tracker' is {lower}, the upper one {upper}"))
        );
    }
    object.finish(warnings);
    Ok(thresholds)
}

/// Applies the lists next to `servers` that have an entry for each server.
fn columns(
    servers: &mut [Server],
    members: &mut Definitions<'_>,
    warnings: &mut Vec<ConfigError>,
) -> Result<(), ConfigError> {
    let length = servers.len();
    for (server, json) in servers.iter_mut().zip(members.column("hostnames", length)?.unwrap_or_default()) {
        server.hostname = Some(Arc::clone(json.shared_text("hostnames")?));
    }
    for (server, json) in
        servers.iter_mut().zip(members.column("failure_domains", length)?.unwrap_or_default())
    {
        server.failure_domain = match &json.value {
            Value::Integer(number) => Some(FailureDomain::Number(*number)),
            Value::Text(name) => Some(FailureDomain::Name(Arc::clone(name))),
            _ => {
                warnings
                    .push(json.error(format!("a failure domain is {}: the server has none", json.kind())));
                None
            }
        };
    }
    let mut names = HashMap::new();
    for (server, json) in servers.iter_mut().zip(members.column("names", length)?.unwrap_or_default()) {
        let name = json.shared_text("names")?;
        only_one(&mut names, Arc::clone(name), json, "name")?;
        server.name = Some(Arc::clone(name));
    }
    let mut slots = HashMap::new();
    for (server, json) in servers.iter_mut().zip(members.column("slots", length)?.unwrap_or_default()) {
        let slot = json.integer("slots", 0..=SLOT_MAX)?;
        only_one(&mut slots, slot, json, "slot")?;
        server.slot = Some(u32::try_from(slot).expect("the range is within 32 bits"));
    }
    Ok(())
}

/// The other server in a handover of each server's keys; null for those without one.
fn handovers(
    servers: &mut [Server],
    members: &mut Definitions<'_>,
    transport: &Transport,
) -> Result<(), ConfigError> {
    let column = members.column("handovers", servers.len())?.unwrap_or_default();
    for (server, json) in servers.iter_mut().zip(column) {
        if matches!(json.value, Value::Null) {
            continue;
        }
        let mut object = json.object("handovers")?;
        let other = transport.server(object.required("other")?)?.target;
        let stage = object.required_as("stage", changes::stage)?;
        server.handover = Some(Handover { other, stage });
    }
    Ok(())
}

fn only_one<T: std::hash::Hash + Eq + std::fmt::Debug>(
    seen: &mut HashMap<T, Place>,
    value: T,
    json: &Json,
    what: &str,
) -> Result<(), ConfigError> {
    match seen.entry(value) {
        Entry::Vacant(entry) => {
            entry.insert(json.place.clone());
            Ok(())
        }
        Entry::Occupied(entry) => Err(json.error(format!(
            "two servers have the {what} {:?}; the other is on line {}",
            entry.key(),
            entry.get().line
        ))),
    }
}

/// Sets the weights of servers. As in mcrouter, the list may have another length: extra weights are
/// ignored, and a missing one is a half.
fn weights(
    servers: &mut [Server],
    members: &mut Definitions<'_>,
    warnings: &mut Vec<ConfigError>,
) -> Result<(), ConfigError> {
    let Some(json) = members.optional("weights") else { return Ok(()) };
    let weights = json.list("weights")?;
    if weights.len() != servers.len() {
        let reason = format!("'weights' has {} items, 'servers' {}", weights.len(), servers.len());
        let effect = if weights.len() < servers.len() {
            "the others have the weight 0.5"
        } else {
            "the last weights have no effect"
        };
        warnings.push(json.error(format!("{reason}: {effect}")));
    }
    for (at, server) in servers.iter_mut().enumerate() {
        let weight = weights.get(at).map(|json| json.number("weights", 0.0..=1.0)).transpose()?;
        server.weight = Some(weight.unwrap_or(MISSING_WEIGHT));
    }
    Ok(())
}

/// Servers that come twice are allowed, and mostly a slip.
fn repeated(servers: &[Server], warnings: &mut Vec<ConfigError>) {
    let mut seen: HashMap<&Address, &Place> = HashMap::new();
    for server in servers {
        let Target::Server { address, .. } = &server.target else { continue };
        if let Some(earlier) = seen.insert(address, &server.place) {
            let reason = format!(
                "server {address} is already in this pool, on line {}; it receives two shares of the keys",
                earlier.line
            );
            warnings.push(server.place.error(reason));
        }
    }
}
