//! The kinds of route handles: one file and one row each.

use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::Answer;
use crate::request::Request;
use crate::step::{Cx, DestinationId, Hop, NodeId, Rewrite, State, Step, Then};
use std::fmt::Debug;

pub(crate) trait Handle: Debug + Sized {
    /// Reads it from a configuration: an object with `type`, or what stands behind the bar of a short form, as `PoolRoute|A`.
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError>;

    /// The next hop of a request, if the handle only selects a child: most requests meet no other
    /// handles, and reach a server faster this way. [`Handle::enter`] returns the same.
    #[inline]
    fn hop(&self, _request: &Request<'_>) -> Option<Hop> {
        None
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step;

    /// Requests all children that may ever be used for a request, in their order, and counts
    /// nothing.
    fn explore(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        self.enter(cx, request)
    }

    /// The reason for the choice of a child, if it is worth showing.
    fn reason(&self, _request: &Request<'_>) -> Option<String> {
        None
    }

    /// Handles the reply of a child. [`Cx::request`] was called with the number `_child`.
    fn resume(
        &self,
        _cx: &mut Cx<'_>,
        _state: &mut State,
        _child: u32,
        _request: &Request<'_>,
        _answer: &Answer<'_>,
    ) -> Then {
        Then::Pass
    }
}

/// Declares all kinds: the file, the type in it, and the names that configurations have for it.
macro_rules! handles {
    ($($file:ident: $handle:ident = $($name:literal)|+;)+) => {
        $(mod $file;)+
        $(pub(crate) use $file::$handle;)+

        #[derive(Debug)]
        pub(crate) enum AnyHandle {
            $($handle($handle),)+
        }

        pub(crate) const NAMES: &[&str] = &[$($($name),+),+];

        impl AnyHandle {
            /// Reads a handle of the kind with this name. `None` if there is no such kind.
            pub(crate) fn parse(
                name: &str,
                build: &mut Builder<'_>,
                json: &Json,
            ) -> Option<Result<Self, ConfigError>> {
                match name {
                    $($($name)|+ => Some($handle::parse(build, json).map(Self::$handle)),)+
                    _ => None,
                }
            }

            pub(crate) fn name(&self) -> &'static str {
                match self {
                    $(Self::$handle(_) => [$($name),+][0],)+
                }
            }

            #[inline]
            pub(crate) fn hop(&self, request: &Request<'_>) -> Option<Hop> {
                match self {
                    $(Self::$handle(handle) => handle.hop(request),)+
                }
            }

            pub(crate) fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
                match self {
                    $(Self::$handle(handle) => handle.enter(cx, request),)+
                }
            }

            pub(crate) fn explore(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
                match self {
                    $(Self::$handle(handle) => handle.explore(cx, request),)+
                }
            }

            pub(crate) fn reason(&self, request: &Request<'_>) -> Option<String> {
                match self {
                    $(Self::$handle(handle) => handle.reason(request),)+
                }
            }

            pub(crate) fn resume(
                &self,
                cx: &mut Cx<'_>,
                state: &mut State,
                child: u32,
                request: &Request<'_>,
                answer: &Answer<'_>,
            ) -> Then {
                match self {
                    $(Self::$handle(handle) => handle.resume(cx, state, child, request, answer),)+
                }
            }
        }
    };
}

handles! {
    destination: Destination = "Destination";
    counted: Counted = "CountedDestination";
    pool_route: PoolRoute = "PoolRoute";
    hash_route: HashRoute = "HashRoute";
    all_sync: AllSync = "AllSyncRoute";
    all_async: AllAsync = "AllAsyncRoute";
    all_initial: AllInitial = "AllInitialRoute";
    all_fastest: AllFastest = "AllFastestRoute";
    all_majority: AllMajority = "AllMajorityRoute";
    failover: Failover = "FailoverRoute";
    failover_with_exptime: FailoverWithExptime = "FailoverWithExptimeRoute";
    miss_failover: MissFailover = "MissFailoverRoute";
    operation_selector: OperationSelector = "OperationSelectorRoute" | "PrefixPolicyRoute";
    prefix_selector: PrefixSelector = "PrefixSelectorRoute";
    modify_exptime: ModifyExptime = "ModifyExptimeRoute";
    modify_key: ModifyKey = "ModifyKeyRoute";
    random: Random = "RandomRoute";
    null: Null = "NullRoute";
    dev_null: DevNull = "DevNullRoute";
    error: Error = "ErrorRoute";
    warm_up: WarmUp = "WarmUpRoute";
    salted_failover: SaltedFailover = "SaltedFailoverRoute";
    migrate: Migrate = "MigrateRoute";
    latest: Latest = "LatestRoute";
    l1_l2_cache: L1L2Cache = "L1L2CacheRoute";
    key_split: KeySplit = "KeySplitRoute";
    shard_split: ShardSplit = "ShardSplitRoute";
    shadow: Shadow = "ShadowRoute";
    host_id: HostId = "HostIdRoute";
    client_hash: ClientHash = "OriginalClientHashRoute";
    routing_group: RoutingGroup = "RoutingGroupRoute";
    logging: LoggingRoute = "LoggingRoute";
    blackhole: Blackhole = "BlackholeRoute";
    hash_stop: HashStop = "HashStopAllowListRoute";
    key_parse: KeyParse = "KeyParseRoute";
    keep_prefix: KeepPrefix = "KeepRoutingPrefix";
    rate_limit: RateLimit = "RateLimitRoute";
    outstanding_limit: OutstandingLimit = "OutstandingLimitRoute";
    slow_warm_up: SlowWarmUp = "SlowWarmUpRoute";
    staging: Staging = "StagingRoute";
    eject_hosts: EjectHosts = "EjectHosts";
    latency_injection: LatencyInjection = "LatencyInjectionRoute";
    big_value: BigValue = "BigValueRoute";
    l1_l2_size_split: L1L2SizeSplit = "L1L2SizeSplitRoute";
    handover: Handover = "Handover";
    resize: Resize = "Resize";
    routing_prefixes: RoutingPrefixes = "RoutingPrefixes";
}

/// Requests all children, each with its index.
fn request_all(cx: &mut Cx<'_>, children: &[NodeId]) {
    children.iter().zip(0..).for_each(|(child, number)| cx.request(*child, Rewrite::NONE, number));
}

/// Handles the reply of one of `children` children: waits for all, and returns the worst reply, the
/// first of equal ones. `a` is one more than the worst severity so far; 0 is none.
fn worst(cx: &mut Cx<'_>, state: &mut State, children: usize, answer: &Answer<'_>) -> Then {
    let severity = u32::from(answer.outcome.severity()) + 1;
    let is_last = state.answers as usize == children;
    if severity > state.a {
        state.a = severity;
        if is_last {
            return Then::Pass;
        }
        cx.hold();
    }
    if is_last { Then::Held } else { Then::Wait }
}

impl AnyHandle {
    /// A handle that answers as a cache without items does.
    pub(crate) fn null() -> Self {
        AnyHandle::Null(Null)
    }

    /// The server that it is, if it is one.
    pub(crate) fn destination(&self) -> Option<DestinationId> {
        match self {
            AnyHandle::Destination(destination) => Some(destination.number()),
            AnyHandle::Counted(counted) => Some(counted.number()),
            _ => None,
        }
    }

    /// A handle that fails, in place of a hash route without children.
    pub(crate) fn no_children() -> Self {
        AnyHandle::Error(Error::no_children())
    }
}

/// The children of a handle, in their order.
pub(crate) type Children = Box<[NodeId]>;
