//! The properties of a server that hashes use.

use std::borrow::Cow;

use super::error::HashError;

/// A server as a hash sees it. Hashes by name (ketama, rendezvous) look at its name only, all others at its slot, and without slots at its place
/// in the list: so its address can be replaced, and the list be put into another order, without a key that moves.
#[derive(Clone, Copy, Debug)]
pub struct ServerIdentity<'a> {
    name: Name<'a>,
    slot: Option<u32>,
    weight: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
enum Name<'a> {
    Given(&'a str),
    Address(&'a str),
}

impl<'a> ServerIdentity<'a> {
    /// A server with a name (mcrouter's tag) that remains when its address does not.
    pub fn named(name: &'a str) -> Self {
        Self { name: Name::Given(name), slot: None, weight: None }
    }

    /// A server that is known by its address: `host:port`, `[v6]:port`, `host`, or the path of a socket.
    pub fn at(address: &'a str) -> Self {
        Self { name: Name::Address(address), slot: None, weight: None }
    }

    /// Its number among the servers, from 0 on.
    pub fn in_slot(self, slot: u32) -> Self {
        Self { slot: Some(slot), ..self }
    }

    pub fn weighing(self, weight: f64) -> Self {
        Self { weight: Some(weight), ..self }
    }

    pub(super) fn name(&self) -> &'a str {
        match self.name {
            Name::Given(name) | Name::Address(name) => name,
        }
    }

    /// The text that ketama hashes for a server's points: the name, or the address as libmemcached
    /// and twemproxy write it, without port 11211.
    pub(super) fn point_text(&self) -> Cow<'a, str> {
        match self.name {
            Name::Given(name) => name.into(),
            Name::Address(address) => {
                let text = address.strip_suffix(":11211").unwrap_or(address);
                let brackets = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
                brackets.map_or(text.into(), |(host, port)| format!("{host}{port}").into())
            }
        }
    }

    pub(super) fn weight_or(
        &self,
        missing: f64,
        allowed: &'static str,
        is_allowed: impl FnOnce(f64) -> bool,
    ) -> Result<f64, HashError> {
        let weight = self.weight.unwrap_or(missing);
        if is_allowed(weight) {
            Ok(weight)
        } else {
            Err(HashError::Weight { server: self.name().to_owned(), weight, allowed })
        }
    }

    /// The weight for ketama and modula: 1 by default.
    pub(super) fn whole_weight(&self) -> Result<u32, HashError> {
        let whole = |weight: f64| weight.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&weight);
        self.weight_or(1.0, "a whole number from 1 to 4294967295", whole).map(|weight| weight as u32)
    }
}

/// The places in `servers` in the order of their slots; nothing if they have none.
pub(super) fn by_slot(servers: &[ServerIdentity<'_>]) -> Result<Option<Box<[u32]>>, HashError> {
    if servers.iter().all(|server| server.slot.is_none()) {
        return Ok(None);
    }
    let mut places = vec![None; servers.len()];
    for (place, server) in servers.iter().enumerate() {
        let name = || server.name().to_owned();
        let slot = server.slot.ok_or_else(|| HashError::SlotMissing { server: name() })?;
        let entry = places.get_mut(slot as usize).ok_or_else(|| HashError::SlotOutOfRange {
            server: name(),
            slot,
            servers: servers.len(),
        })?;
        if entry.replace(place as u32).is_some() {
            return Err(HashError::SlotTwice { slot });
        }
    }
    Ok(places.into_iter().collect())
}

/// Two servers of one name have the same scores or points, and the second never gets a key.
pub(super) fn check_names<'a>(names: impl Iterator<Item = Cow<'a, str>>) -> Result<(), HashError> {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(HashError::NameTwice { name: pair[0].to_string() }),
        None => Ok(()),
    }
}

/// `servers` as a number that a hash can give.
pub(super) fn index_limit(servers: usize, most: usize) -> Result<u32, HashError> {
    match servers {
        0 => Err(HashError::NoServers),
        _ if servers > most => Err(HashError::TooManyServers { servers, most }),
        _ => Ok(servers as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::ServerIdentity;

    #[test]
    fn text_of_points() {
        for (address, text) in [
            ("10.0.0.1:11211", "10.0.0.1"),
            ("10.0.0.1:11212", "10.0.0.1:11212"),
            ("cache1", "cache1"),
            ("[fd00::1]:11211", "fd00::1"),
            ("[fd00::1]:11212", "fd00::1:11212"),
            ("/run/cache.sock", "/run/cache.sock"),
        ] {
            assert_eq!(ServerIdentity::at(address).point_text(), text);
        }
        assert_eq!(ServerIdentity::named("cache1:11211").point_text(), "cache1:11211");
    }
}
