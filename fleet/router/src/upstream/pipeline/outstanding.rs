//! A request without a reply.

use crate::ticket::Ticket;
use guira_routing::{Dialect, Group, LogName, Op, Origin};

#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct Outstanding {
    pub(in crate::upstream) origin: Origin<Ticket>,
    /// The place in the stream of requests: of the key if it is a get, otherwise of the first byte.
    pub(super) position: u64,
    /// How many bytes before `position` the request begins.
    pub(super) back: u32,
    pub(super) key_length: u8,
    pub(in crate::upstream) kind: Kind,
    /// When its timeout began.
    pub(in crate::upstream) since_ms: u32,
    /// The name under which it is logged if it is a delete and fails.
    pub(super) log: Option<LogName>,
}

/// What the reply to a request looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::upstream) enum Kind {
    /// A key of a get that has further keys.
    Key,
    /// The only or last key of a get.
    LastKey(Op),
    Line(Op),
    Meta(Op),
    Delete(Dialect),
    Probe,
    Lease(LeaseStep),
}

/// A request that the [`Lessor`](crate::upstream::lessor::Lessor) sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::upstream) enum LeaseStep {
    /// A lease-get as a meta command.
    Get,
    /// A lease-set as a meta command.
    Set,
    /// Checks that the server supports leases, before the first lease-set.
    Check,
    /// Takes the place of a lease-set that the server does not support.
    Placeholder,
    /// Finds out whether an empty value marks a key that is to be filled.
    Recheck,
    /// A recheck of a key whose exptime a gat has changed.
    RecheckTouched,
    /// Restores the exptime of a key that is to be filled.
    RestoreTime,
}

impl Outstanding {
    #[inline]
    pub(super) fn begin(&self) -> u64 {
        self.position - u64::from(self.back)
    }

    /// Whether the timeout began with an earlier request of the same client.
    pub(super) fn continues_another(&self) -> bool {
        use LeaseStep::{Recheck, RecheckTouched, RestoreTime};
        matches!(self.kind, Kind::Lease(Recheck | RecheckTouched | RestoreTime))
    }
}

impl Kind {
    /// Whether the request is the router's own: it checks that the server is up, or supports
    /// leases.
    pub(super) fn is_own(self) -> bool {
        matches!(self, Kind::Probe | Kind::Lease(LeaseStep::Check))
    }

    /// Whether the request carries a value that a server without leases would execute as commands.
    pub(super) fn is_lease_set(self) -> bool {
        matches!(self, Kind::Line(Op::LeaseSet) | Kind::Lease(LeaseStep::Set))
    }

    /// The group whose latency the request counts for.
    pub(super) fn group(self) -> Option<Group> {
        match self {
            Kind::Key | Kind::LastKey(_) => Some(Group::Get),
            Kind::Line(op) | Kind::Meta(op) => Some(op.group()),
            Kind::Delete(_) => Some(Group::Delete),
            Kind::Lease(LeaseStep::Set | LeaseStep::Check | LeaseStep::Placeholder) => Some(Group::Update),
            Kind::Lease(_) => Some(Group::Get),
            Kind::Probe => None,
        }
    }
}
