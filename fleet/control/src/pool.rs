//! A pool: its slots, and the server of each.

use crate::change::{Handover, Resize};
use guira_client::text::Endpoint;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::time::Duration;

/// A pool as stored in etcd. Keys belong to slots, and slots do not depend on addresses: a new
/// server in a slot moves no key to another slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    pub slots: Vec<Slot>,
    /// When a lost server is replaced.
    #[serde(default)]
    pub rules: Rules,
    /// Set while the pool is being resized; `slots` are those of the larger size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resize: Option<Resize>,
}

/// A slot, and the server in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// In the syntax of a router's configuration; `None` until a server first takes the slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// 0 to 1. Either all slots of a pool have a weight, or none has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Set while its keys move to another server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover: Option<Handover>,
}

impl Slot {
    /// Whether the slot has this server, whatever its protocol, security or compression.
    pub fn is_served_by(&self, server: &str) -> bool {
        self.server.as_deref().is_some_and(|own| is_same(own, server))
    }

    /// Whether the slot's keys move to this server, or from it.
    pub fn is_handed_over_with(&self, server: &str) -> bool {
        self.handover.as_ref().is_some_and(|handover| is_same(&handover.other, server))
    }
}

pub(crate) fn is_same(one: &str, other: &str) -> bool {
    address(one) == address(other)
}

/// The address of a server, without the protocol, security and compression behind its port.
pub(crate) fn address(server: &str) -> &str {
    if server.starts_with("unix:") {
        return server;
    }
    let start = server.find(']').unwrap_or(0);
    let second = server[start..].match_indices(':').nth(1).map_or(server.len(), |(at, _)| start + at);
    &server[..second]
}

/// When a lost server is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// A server is replaced after it was gone for this many seconds.
    pub hold_down_s: u32,
    /// The most servers that are replaced at once. If more are gone, or more than a tenth of the
    /// pool, none is replaced: the fault is more likely the network between the servers and etcd.
    pub at_once: u32,
    /// The fewest servers that commands of an operator leave in the pool.
    pub minimum: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { hold_down_s: 60, at_once: 1, minimum: 0 }
    }
}

impl Rules {
    pub(crate) fn hold_down(self) -> Duration {
        Duration::from_secs(self.hold_down_s.into())
    }
}

/// The reason that a pool cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The text is not JSON of this form.
    #[error("the entry cannot be parsed: {0}")]
    Unreadable(String),
    /// There would be no server for any key.
    #[error("the pool has no slots")]
    Empty,
    /// One server would have the keys of two slots.
    #[error("server {0} is in two slots")]
    Twice(String),
    /// Routers would refuse the pool.
    #[error("'{0}' is not a server: use HOST:PORT or unix:PATH")]
    Address(String),
    /// Weighted hashes need all weights.
    #[error("slot {0} has a weight but others have none: set all or none")]
    Weights(usize),
    /// Without a hold-down the number of replacements would have no bound.
    #[error("hold_down_s is 0: the minimum is 1 second")]
    HoldDown,
    /// Not between 0 and 1.
    #[error("the weight of slot {0} is not between 0 and 1")]
    Weight(usize),
    #[error("the minimum of {0} servers exceeds the {1} slots")]
    Minimum(u32, usize),
    /// There is nothing to hand over.
    #[error("slot {0} is being drained but has no server")]
    Handover(usize),
    /// Routers could not read such a pool.
    #[error("the pool is being resized from {0} to {1} slots but has {2}")]
    Resize(usize, usize, usize),
    /// It would be unclear which keys move where.
    #[error("the pool is being resized while slot {0} is being drained: only one of both is allowed")]
    Both(usize),
}

impl Pool {
    /// A pool with this many slots, none of which has a server.
    pub fn of_empty_slots(number: usize, rules: Rules) -> Self {
        Pool { slots: vec![Slot::default(); number], rules, resize: None }
    }

    /// Reads the output of [`Pool::text`].
    ///
    /// # Errors
    /// When the text has another form, or the pool is invalid.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, PoolError> {
        let pool: Pool =
            serde_json::from_slice(text).map_err(|error| PoolError::Unreadable(error.to_string()))?;
        pool.check()?;
        Ok(pool)
    }

    /// Checks that the pool can be used.
    ///
    /// # Errors
    /// When it is invalid.
    pub(crate) fn check(&self) -> Result<(), PoolError> {
        if self.slots.is_empty() {
            return Err(PoolError::Empty);
        }
        if self.rules.hold_down_s == 0 {
            return Err(PoolError::HoldDown);
        }
        let mut seen = HashSet::new();
        if self.rules.minimum as usize > self.slots.len() {
            return Err(PoolError::Minimum(self.rules.minimum, self.slots.len()));
        }
        self.check_changes()?;
        let others = self.slots.iter().filter_map(|slot| Some(slot.handover.as_ref()?.other.as_str()));
        for server in self.servers().chain(others) {
            if address(server).parse::<Endpoint>().is_err() {
                return Err(PoolError::Address(server.to_owned()));
            }
            if !seen.insert(address(server)) {
                return Err(PoolError::Twice(server.to_owned()));
            }
        }
        let have_weights = self.slots.iter().any(|slot| slot.weight.is_some());
        for (number, slot) in self.slots.iter().enumerate() {
            match slot.weight {
                None if have_weights => {
                    let with = self.slots.iter().position(|slot| slot.weight.is_some());
                    return Err(PoolError::Weights(with.unwrap_or(number)));
                }
                Some(weight) if !(0.0..=1.0).contains(&weight) => return Err(PoolError::Weight(number)),
                _ => {}
            }
        }
        Ok(())
    }

    fn check_changes(&self) -> Result<(), PoolError> {
        let slots = self.slots.len();
        if let Some(Resize { from, to, .. }) = self.resize
            && (from == to || from.min(to) == 0 || from.max(to) != slots)
        {
            return Err(PoolError::Resize(from, to, slots));
        }
        let handed_over = self.slots.iter().enumerate().filter(|(_, slot)| slot.handover.is_some());
        for (number, slot) in handed_over {
            if self.resize.is_some() {
                return Err(PoolError::Both(number));
            }
            if slot.server.is_none() {
                return Err(PoolError::Handover(number));
            }
        }
        Ok(())
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().filter_map(|slot| slot.server.as_deref())
    }

    /// The slot that has, had or will have this server during a handover.
    pub fn slot_of(&self, server: &str) -> Option<usize> {
        self.slots.iter().position(|slot| slot.is_served_by(server) || slot.is_handed_over_with(server))
    }

    /// The pool in the syntax of a router's configuration, for inheriting. Consistent hashes use
    /// the name of the slot, not that of the server.
    pub(crate) fn definition(&self, name: &str) -> String {
        let servers = self.slots.iter().map(|slot| match &slot.server {
            Some(server) => serde_json::Value::from(server.as_str()),
            // An empty slot behaves as a failed server.
            None => serde_json::json!({"type": "ErrorRoute", "result": "tko"}),
        });
        let names: Vec<String> = (0..self.slots.len()).map(|number| format!("{name}-{number}")).collect();
        let mut definition = serde_json::json!({"servers": servers.collect::<Vec<_>>(), "names": names});
        let weights: Option<Vec<f64>> = self.slots.iter().map(|slot| slot.weight).collect();
        if let Some(weights) = weights {
            definition["weights"] = weights.into();
        }
        let zones: Option<Vec<&str>> = self.slots.iter().map(|slot| slot.zone.as_deref()).collect();
        if let Some(zones) = zones {
            definition["failure_domains"] = zones.into();
        }
        if self.slots.iter().any(|slot| slot.handover.is_some()) {
            let handovers = self.slots.iter().map(|slot| slot.handover.as_ref());
            let texts = handovers.map(|handover| {
                handover.map(|one| serde_json::json!({"other": one.other, "stage": one.stage}))
            });
            definition["handovers"] = texts.collect::<Vec<_>>().into();
        }
        if let Some(Resize { from, to, stage, .. }) = self.resize {
            definition["resize"] = serde_json::json!({"from": from, "to": to, "stage": stage});
        }
        definition.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(text: &str) -> Result<Pool, PoolError> {
        Pool::parse(text.as_bytes())
    }

    #[test]
    fn a_pool_is_read_as_it_was_written() {
        let mut expected = Pool::of_empty_slots(3, Rules { hold_down_s: 7, at_once: 2, minimum: 1 });
        expected.slots[1].server = Some("10.0.0.1:11211".to_owned());
        expected.slots[1].zone = Some("east".to_owned());
        assert_eq!(pool(&expected.text()), Ok(expected.clone()));
        assert_eq!(expected.slot_of("10.0.0.1:11211"), Some(1));
        assert_eq!(pool(r#"{"slots": [{}]}"#).unwrap().rules, Rules::default());
    }

    #[test]
    fn a_pool_that_cannot_be_used_is_refused() {
        assert_eq!(pool(r#"{"slots": []}"#), Err(PoolError::Empty));
        assert_eq!(pool(r#"{"slots": [{}], "rules": {"hold_down_s": 0}}"#), Err(PoolError::HoldDown));
        assert_eq!(
            pool(r#"{"slots": [{"server": "a:1"}, {}, {"server": "a:1"}]}"#),
            Err(PoolError::Twice("a:1".to_owned()))
        );
        assert_eq!(
            pool(r#"{"slots": [{"server": "nonsense:port"}]}"#),
            Err(PoolError::Address("nonsense:port".to_owned()))
        );
        assert_eq!(pool(r#"{"slots": [{}, {"weight": 1.0}]}"#), Err(PoolError::Weights(1)));
        assert_eq!(pool(r#"{"slots": [{"weight": 1.5}]}"#), Err(PoolError::Weight(0)));
        for text in ["", "[]", r#"{"slots": [{"sever": "a:1"}]}"#, r#"{"slots": [{}], "more": 1}"#] {
            assert!(matches!(pool(text), Err(PoolError::Unreadable(_))), "{text}");
        }
    }

    #[test]
    fn a_server_is_the_same_whatever_is_said_about_the_way_to_it() {
        let pool = pool(r#"{"slots": [{}, {"server": "a:1:ascii:ssl"}, {"server": "[::1]:1"}]}"#).unwrap();
        for (server, expected) in
            [("a:1", Some(1)), ("a:1:ascii", Some(1)), ("a:11", None), ("[::1]:1", Some(2)), ("b:1", None)]
        {
            assert_eq!(pool.slot_of(server), expected, "{server}");
        }
        assert_eq!(
            super::tests::pool(r#"{"slots": [{"server": "a:1"}, {"server": "a:1:ascii"}]}"#),
            Err(PoolError::Twice("a:1:ascii".to_owned()))
        );
    }

    #[test]
    fn a_definition_names_slots_and_not_servers() {
        let text =
            r#"{"slots": [{"server": "a:1", "weight": 1, "zone": "x"}, {"weight": 0.5, "zone": "y"}]}"#;
        let definition: serde_json::Value =
            serde_json::from_str(&pool(text).unwrap().definition("cache")).unwrap();
        let expected = serde_json::json!({
            "servers": ["a:1", {"type": "ErrorRoute", "result": "tko"}],
            "names": ["cache-0", "cache-1"],
            "weights": [1.0, 0.5],
            "failure_domains": ["x", "y"],
        });
        assert_eq!(definition, expected);
        let plain = pool(r#"{"slots": [{"server": "a:1", "zone": "x"}, {"server": "b:1"}]}"#).unwrap();
        assert_eq!(plain.definition("p"), r#"{"names":["p-0","p-1"],"servers":["a:1","b:1"]}"#);
    }
}
