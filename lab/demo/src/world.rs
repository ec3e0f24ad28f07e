//! The state of the region: its parts, its users, and their history.

use std::path::PathBuf;
use std::sync::Mutex;

use guira_client::lookaside::LookAside;
use guira_control::EtcdOptions;
use guira_regions::judge::lock;
use guira_regions::{Progress, has_files};
use guira_sync::stop::Stop;

use crate::counts::{Count, Counts, Sums, UserState};
use crate::events::Events;
use crate::followed::Followed;
use crate::home::Home;
use crate::outcome::Chaos;
use crate::part::{Part, Role};
use crate::programs::open;
use crate::rows::Rows;
use crate::snapshot::Snapshot;
use crate::truth::Truth;

pub(crate) struct World {
    pub(crate) home: Home,
    pub(crate) seed: u64,
    /// The notices for missing programs.
    pub(crate) left_out: Vec<&'static str>,
    pub(crate) parts: Vec<Part>,
    pub(crate) rows: Rows,
    /// The progress of the invalidator, if there is one.
    pub(crate) progress: Option<Progress>,
    pub(crate) followed: Followed,
    pub(crate) truth: Truth,
    pub(crate) counts: Counts,
    pub(crate) user_states: Vec<UserState>,
    pub(crate) events: Events,
    /// The last known state of the parts.
    /// LOCK: demo_snapshot. Leaf.
    pub(crate) snapshot: Mutex<Snapshot>,
    /// LOCK: demo_chaos. Leaf.
    pub(crate) chaos: Mutex<Option<Chaos>>,
    pub(crate) stop: Stop,
    /// The address of etcd for this process.
    pub(crate) etcd: Option<EtcdOptions>,
    pub(crate) spools: Vec<PathBuf>,
    /// The client that deletes the changed rows of this process's table.
    pub(crate) deleter: LookAside,
}

impl World {
    pub(crate) fn of_role(&self, role: Role) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| part.role() == role)
    }

    pub(crate) fn end(&self) {
        self.stop.set();
        self.parts.iter().for_each(Part::kill);
    }

    /// Whether a router has logged deletes that it has not delivered.
    pub(crate) fn owes_deletes(&self) -> bool {
        self.spools.iter().any(|spool| has_files(spool))
    }

    /// The number of items that the gutter was given so far, if it replies.
    pub(crate) fn given_to_gutter(&self) -> Option<u64> {
        let gutter = self.of_role(Role::Gutter).next()?;
        let mut given = None;
        open(gutter.socket()?)?
            .stats("", |name, value| {
                if name == b"total_items" {
                    given = std::str::from_utf8(value).ok().and_then(|number| number.parse().ok());
                }
            })
            .ok()?;
        given
    }

    /// The figures of all users so far.
    pub(crate) fn sums(&self) -> Sums {
        Sums::of(&self.counts, &self.user_states)
    }

    /// A summary of the trouble: a fault, an ended part, or wrong replies.
    pub(crate) fn trouble(&self) -> Option<String> {
        let broken = self.parts.iter().find_map(|part| match self.events.state_of(&part.name) {
            Some(state) => Some(format!("{} is {state}", part.name)),
            None => (!part.is_running()).then(|| format!("{} is down", part.name)),
        });
        let wrong = self.counts.get(Count::Wrong);
        if wrong > 0 { Some(format!("{wrong} wrong replies")) } else { broken }
    }

    /// The last known state of the parts.
    pub(crate) fn snapshot(&self) -> Snapshot {
        lock(&self.snapshot).clone()
    }

    /// The state of random faults.
    pub(crate) fn chaos(&self) -> Option<Chaos> {
        lock(&self.chaos).clone()
    }
}
