//! The data in etcd, below a prefix:
//!
//! | key | value | lease |
//! |---|---|---|
//! | `pools/POOL` | a [`Pool`] | none: it stays forever |
//! | `members/POOL/SERVER` | a [`Registration`] | that of the server's member |
//! | `leader` | the member that replaces servers | that of this member |
//! | `orders/POOL/SERVER` | an [`Order`] | that of its sender |
//! | `upgraded/POOL` | the servers that an upgrade of the pool has upgraded so far | none |

use crate::etcd::{Condition, Etcd, EtcdError, Outcome, Put, Snapshot};
use crate::order::{Order, OrderState};
use crate::pool::{Pool, PoolError, address};
use crate::registration::Registration;
use std::collections::BTreeMap;
use std::time::Duration;

const POOLS: &str = "pools/";
const MEMBERS: &str = "members/";
const LEADER: &str = "leader";
const ORDERS: &str = "orders/";
const UPGRADED: &str = "upgraded/";
/// The longest name of a pool, in bytes.
const NAME_MAX: usize = 100;

/// The reason that something cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// The stored pool is invalid.
    #[error("pool {name}: {error}")]
    Pool { name: String, error: PoolError },
    /// No such pool.
    #[error("etcd has no pool {0}")]
    Unknown(String),
    /// The name is taken.
    #[error("pool {0} already exists")]
    Exists(String),
    #[error("pool {0} was changed by another client: check it with `guira fleet status` and try again")]
    Changed(String),
    #[error("server {0} is already being upgraded; an abandoned upgrade order expires within a minute")]
    Ordered(String),
    /// No such slot.
    #[error("pool {0} has no slot {1}")]
    Slot(String, usize),
    /// A pool of this name could not be read again.
    #[error("'{0}' is not a pool name: use 1 to 100 letters, digits, '-', '_' and '.'")]
    Name(String),
}

/// All data at one revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    pools: BTreeMap<String, (Result<Pool, PoolError>, i64)>,
    registered: Vec<Registration>,
    orders: Vec<Order>,
    upgraded: BTreeMap<String, Vec<String>>,
    leader: Option<Leader>,
    revision: i64,
}

#[derive(Clone, Debug, PartialEq)]
struct Leader {
    name: String,
    revision: i64,
    lease: i64,
}

impl View {
    fn of(prefix: &str, snapshot: Snapshot) -> Self {
        let mut view = View { revision: snapshot.revision, ..View::default() };
        for entry in snapshot.entries {
            let Some(key) = entry.key.strip_prefix(prefix) else { continue };
            if let Some(name) = key.strip_prefix(POOLS).filter(|name| is_name(name)) {
                view.pools.insert(name.to_owned(), (Pool::parse(&entry.value), entry.revision));
            } else if let Some((pool, server)) = key.strip_prefix(MEMBERS).and_then(|key| key.split_once('/'))
            {
                view.registered.extend(Registration::read(pool, server, &entry));
            } else if let Some((pool, server)) = key.strip_prefix(ORDERS).and_then(|key| key.split_once('/'))
            {
                view.orders.extend(Order::read(pool, server, &entry));
            } else if let Some(pool) = key.strip_prefix(UPGRADED) {
                view.upgraded
                    .insert(pool.to_owned(), serde_json::from_slice(&entry.value).unwrap_or_default());
            } else if key == LEADER {
                let name = String::from_utf8_lossy(&entry.value).into_owned();
                view.leader = Some(Leader { name, revision: entry.revision, lease: entry.lease });
            }
        }
        view
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pools.keys().map(String::as_str)
    }

    /// A pool.
    ///
    /// # Errors
    /// There is no pool of this name, or it is invalid.
    pub fn pool(&self, name: &str) -> Result<&Pool, StoreError> {
        match self.pools.get(name) {
            None => Err(StoreError::Unknown(name.to_owned())),
            Some((Ok(pool), _)) => Ok(pool),
            Some((Err(error), _)) => Err(StoreError::Pool { name: name.to_owned(), error: error.clone() }),
        }
    }

    /// The registered servers of a pool.
    pub fn registered(&self, pool: &str) -> impl Iterator<Item = &Registration> {
        self.registered.iter().filter(move |one| one.pool == pool)
    }

    /// The registered servers of a pool that are empty and have no slot in any pool.
    pub fn spares(&self, pool: &str) -> impl Iterator<Item = &Registration> {
        let serves = |server: &str| {
            self.names().any(|name| self.pool(name).is_ok_and(|pool| pool.slot_of(server).is_some()))
        };
        self.registered(pool).filter(move |one| one.is_empty && !serves(&one.server))
    }

    /// Whether the server of a slot, or a spare, is registered.
    pub fn is_registered(&self, pool: &str, server: &str) -> bool {
        self.registered(pool).any(|one| crate::pool::is_same(&one.server, server))
    }

    /// The pending order to a server's member.
    pub fn order(&self, pool: &str, server: &str) -> Option<&Order> {
        self.orders.iter().find(|order| order.pool == pool && order.server == server)
    }

    /// Whether a member of the pool has a pending order.
    pub fn has_orders(&self, pool: &str) -> bool {
        self.orders.iter().any(|order| order.pool == pool)
    }

    /// The servers that an unfinished upgrade of the pool has upgraded.
    pub fn upgraded(&self, pool: &str) -> &[String] {
        self.upgraded.get(pool).map(Vec::as_slice).unwrap_or_default()
    }

    /// Another pool than `pool` in which this server has a slot.
    pub(crate) fn other_pool_of(&self, server: &str, pool: &str) -> Option<&str> {
        let serves = |name: &str| self.pool(name).is_ok_and(|pool| pool.slot_of(server).is_some());
        self.names().find(|name| *name != pool && serves(name))
    }

    /// The member that replaces lost servers.
    pub fn leader(&self) -> Option<&str> {
        self.leader.as_ref().map(|leader| leader.name.as_str())
    }

    /// The revision of etcd at which the data was read.
    pub fn revision(&self) -> i64 {
        self.revision
    }
}

/// Whether a pool may have this name. Other names are ignored: the part behind a slash would look
/// like a server.
pub(crate) fn is_name(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(is_good)
}

/// The access to the data in etcd.
#[derive(Debug)]
pub struct Store {
    etcd: Etcd,
}

impl Store {
    /// The data of this cluster.
    pub fn new(etcd: Etcd) -> Self {
        Store { etcd }
    }

    /// Reads all data.
    ///
    /// # Errors
    /// etcd does not reply, or refuses.
    pub fn view(&mut self) -> Result<View, EtcdError> {
        let prefix = self.etcd.prefix().to_owned();
        Ok(View::of(&prefix, self.etcd.range(&prefix)?))
    }

    pub(crate) fn pools(&mut self) -> Result<View, EtcdError> {
        let prefix = self.etcd.prefix().to_owned();
        Ok(View::of(&prefix, self.etcd.range(&format!("{prefix}{POOLS}"))?))
    }

    /// Waits up to `patience` until the data differs from `view`.
    pub(crate) fn wait(&mut self, view: &View, patience: Duration) -> Result<(), EtcdError> {
        let prefix = self.etcd.prefix().to_owned();
        self.etcd.wait(&prefix, view.revision, patience)
    }

    /// Waits up to `patience` until the pools differ from `view`.
    pub(crate) fn wait_for_pools(&mut self, view: &View, patience: Duration) -> Result<(), EtcdError> {
        let prefix = format!("{}{POOLS}", self.etcd.prefix());
        self.etcd.wait(&prefix, view.revision, patience)
    }

    /// Creates a pool.
    ///
    /// # Errors
    /// It exists already, its name or the pool is invalid, or etcd does not reply.
    pub fn create(&mut self, name: &str, pool: &Pool) -> Result<(), StoreError> {
        if !is_name(name) {
            return Err(StoreError::Name(name.to_owned()));
        }
        pool.check().map_err(|error| StoreError::Pool { name: name.to_owned(), error })?;
        let key = self.key(POOLS, name);
        let put = Put { key: &key, value: &pool.text(), lease: None };
        match self.etcd.change(&[Condition::IsAbsent(&key)], &[put])? {
            Outcome::Done => Ok(()),
            Outcome::Refused => Err(StoreError::Exists(name.to_owned())),
        }
    }

    /// Gives a slot to a spare, if the data is unchanged, the spare is still registered, and
    /// `leader`, if given, still leads. Ends a handover of the slot.
    ///
    /// # Errors
    /// The data has changed, the resulting pool is invalid, or etcd does not reply.
    pub fn give(
        &mut self,
        view: &View,
        name: &str,
        slot: usize,
        spare: &Registration,
        leader: Option<Leadership>,
    ) -> Result<(), StoreError> {
        let mut pool = view.pool(name)?.clone();
        let place = pool.slots.get_mut(slot).ok_or_else(|| StoreError::Slot(name.to_owned(), slot))?;
        // The leader gives away only slots without a registered server: a server that has just come
        // back keeps its slot.
        let lost = leader.and(place.server.clone());
        place.server = Some(spare.server.clone());
        place.handover = None;
        if spare.zone.is_some() {
            place.zone.clone_from(&spare.zone);
        }
        self.change_without(lost.as_deref(), view, name, &pool, &[spare], leader)
    }

    /// Changes a pool if it is unchanged, the spares that it uses are still registered, and
    /// `leader`, if given, still leads.
    ///
    /// # Errors
    /// The data has changed, the pool is invalid, or etcd does not reply.
    pub fn change(
        &mut self,
        view: &View,
        name: &str,
        pool: &Pool,
        taken: &[&Registration],
        leader: Option<Leadership>,
    ) -> Result<(), StoreError> {
        self.change_without(None, view, name, pool, taken, leader)
    }

    /// Like [`Store::change`], but only while server `lost` is not registered.
    fn change_without(
        &mut self,
        lost: Option<&str>,
        view: &View,
        name: &str,
        pool: &Pool,
        taken: &[&Registration],
        leader: Option<Leadership>,
    ) -> Result<(), StoreError> {
        pool.check().map_err(|error| StoreError::Pool { name: name.to_owned(), error })?;
        let (_, revision) = view.pools.get(name).ok_or_else(|| StoreError::Unknown(name.to_owned()))?;
        let lost_key = lost.map(|server| self.member_key(name, server));
        let (pool_key, leader_key) = (self.key(POOLS, name), self.key(LEADER, ""));
        let text = pool.text();
        let mut conditions = vec![Condition::IsUnchanged(&pool_key, *revision)];
        let mut puts = vec![Put { key: &pool_key, value: &text, lease: None }];
        // From now on these servers have items: one that loses its slot again becomes a spare only
        // after a flush.
        let serving = |spare: &&Registration| Registration { is_empty: false, ..(*spare).clone() }.text();
        let members =
            taken.iter().map(|spare| (*spare, self.member_key(name, &spare.server), serving(spare)));
        let members: Vec<_> = members.collect();
        for (spare, key, value) in &members {
            conditions.push(Condition::IsUnchanged(key, spare.revision));
            puts.push(Put { key, value, lease: Some(spare.lease) });
        }
        conditions.extend(leader.map(|leader| Condition::IsUnchanged(&leader_key, leader.revision)));
        conditions.extend(lost_key.as_deref().map(Condition::IsAbsent));
        match self.etcd.change(&conditions, &puts)? {
            Outcome::Done => Ok(()),
            Outcome::Refused => Err(StoreError::Changed(name.to_owned())),
        }
    }

    /// Orders the member of a server to upgrade it. The order ends with `lease`.
    ///
    /// # Errors
    /// The server has an order already, or etcd does not reply.
    pub fn request_upgrade(&mut self, pool: &str, server: &str, lease: Lease) -> Result<(), StoreError> {
        let order = Order::requested(pool, server);
        let key = self.order_key(&order);
        let put = Put { key: &key, value: &order.text(), lease: Some(lease.0) };
        match self.etcd.change(&[Condition::IsAbsent(&key)], &[put])? {
            Outcome::Done => Ok(()),
            Outcome::Refused => Err(StoreError::Ordered(server.to_owned())),
        }
    }

    /// Changes the state of an unchanged order.
    pub(crate) fn report(
        &mut self,
        order: &Order,
        state: OrderState,
        said: &str,
    ) -> Result<Outcome, EtcdError> {
        let key = self.order_key(order);
        let next = Order { state, said: said.to_owned(), ..order.clone() };
        let put = Put { key: &key, value: &next.text(), lease: Some(order.lease) };
        self.etcd.change(&[Condition::IsUnchanged(&key, order.revision)], &[put])
    }

    /// Stores the servers of a pool that were upgraded.
    ///
    /// # Errors
    /// etcd does not reply.
    pub fn keep_upgraded(&mut self, pool: &str, servers: &[String]) -> Result<(), StoreError> {
        let key = self.key(UPGRADED, pool);
        let text = serde_json::json!(servers).to_string();
        self.etcd.change(&[], &[Put { key: &key, value: &text, lease: None }])?;
        Ok(())
    }

    /// A lease that ends `time` after its last renewal.
    ///
    /// # Errors
    /// etcd does not reply.
    pub fn lease(&mut self, time: Duration) -> Result<Lease, EtcdError> {
        self.etcd.grant(time).map(Lease)
    }

    /// Renews a lease.
    ///
    /// # Errors
    /// etcd does not reply.
    pub fn keep_alive(&mut self, lease: Lease) -> Result<(), EtcdError> {
        self.etcd.keep_alive(lease.0).map(drop)
    }

    /// Ends a lease, and removes its keys.
    ///
    /// # Errors
    /// etcd does not reply.
    pub fn revoke(&mut self, lease: Lease) -> Result<(), EtcdError> {
        self.etcd.revoke(lease.0)
    }

    /// Registers a server that no other member has registered, or updates the registration of this
    /// lease.
    pub(crate) fn register(
        &mut self,
        view: &View,
        registration: &Registration,
        lease: i64,
    ) -> Result<Outcome, EtcdError> {
        let key = self.member_key(&registration.pool, &registration.server);
        let known = view.registered(&registration.pool).find(|one| one.server == registration.server);
        let condition = match known {
            Some(known) => Condition::IsUnchanged(&key, known.revision),
            None => Condition::IsAbsent(&key),
        };
        let value = registration.text();
        self.etcd.change(&[condition], &[Put { key: &key, value: &value, lease: Some(lease) }])
    }

    /// Makes `name` the leader if there is none.
    pub(crate) fn lead(&mut self, name: &str, lease: i64) -> Result<Outcome, EtcdError> {
        let key = self.key(LEADER, "");
        let put = Put { key: &key, value: name, lease: Some(lease) };
        self.etcd.change(&[Condition::IsAbsent(&key)], &[put])
    }

    pub(crate) fn etcd(&mut self) -> &mut Etcd {
        &mut self.etcd
    }

    fn key(&self, folder: &str, name: &str) -> String {
        format!("{}{folder}{name}", self.etcd.prefix())
    }

    fn order_key(&self, order: &Order) -> String {
        format!("{}{ORDERS}{}/{}", self.etcd.prefix(), order.pool, order.server)
    }

    /// The key of a registration has the server's address only, without the connection settings
    /// that a pool has behind it.
    fn member_key(&self, pool: &str, server: &str) -> String {
        format!("{}{MEMBERS}{pool}/{}", self.etcd.prefix(), address(server))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Lease(i64);

/// The leadership of a member at a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leadership {
    revision: i64,
}

impl View {
    /// The leadership of the member with this lease, if it leads.
    pub(crate) fn led_by(&self, lease: i64) -> Option<Leadership> {
        let leader = self.leader.as_ref().filter(|leader| leader.lease == lease)?;
        Some(Leadership { revision: leader.revision })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcd::{Entry, EtcdOptions};
    use std::sync::Arc;

    fn view(entries: &[(&str, &str)]) -> View {
        let entry = |(key, value): &(&str, &str)| Entry {
            key: format!("/guira/{key}"),
            value: value.as_bytes().to_vec(),
            revision: 3,
            lease: 0,
        };
        View::of("/guira/", Snapshot { revision: 7, entries: entries.iter().map(entry).collect() })
    }

    #[test]
    fn a_server_has_a_slot_of_another_pool_or_of_none() {
        let view = view(&[
            ("pools/a", r#"{"slots": [{"server": "x:1:ascii"}, {}]}"#),
            ("pools/b", r#"{"slots": [{"server": "y:1"}]}"#),
            ("pools/broken", "nonsense"),
        ]);
        for (server, pool, expected) in [
            ("x:1", "a", None),
            ("x:1", "b", Some("a")),
            ("y:1", "a", Some("b")),
            ("z:1", "a", None),
            ("y:1", "broken", Some("b")),
        ] {
            assert_eq!(view.other_pool_of(server, pool), expected, "{server} of {pool}");
        }
    }

    #[test]
    fn a_member_is_looked_for_where_it_is_whatever_the_pool_says_of_the_way_to_it() {
        let etcd = Etcd::new(EtcdOptions::new(vec!["http://127.0.0.1:1".to_owned()]), Arc::default());
        let store = Store::new(etcd.unwrap());
        for (server, expected) in [
            ("x:1", "x:1"),
            ("x:1:ascii", "x:1"),
            ("10.0.0.1:11211:ascii:ssl", "10.0.0.1:11211"),
            ("[::1]:11211:ascii:ssl", "[::1]:11211"),
            ("unix:/run/x", "unix:/run/x"),
        ] {
            let key = store.member_key("a", server);
            assert_eq!(key, format!("{}{MEMBERS}a/{expected}", store.etcd.prefix()), "{server}");
        }
    }

    #[test]
    fn names_that_no_pool_can_have_are_not_looked_at() {
        let view = view(&[("pools/a/b", r#"{"slots": [{}]}"#), ("members/a/unix:/run/x", "{}")]);
        assert_eq!(view.names().count(), 0);
        let servers: Vec<&str> = view.registered("a").map(|one| one.server.as_str()).collect();
        assert_eq!(servers, ["unix:/run/x"]);
    }
}
