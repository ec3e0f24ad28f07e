//! The kinds of route handles: one file and one row each.

use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::Answer;
use crate::request::Request;
use crate::step::{Cx, NodeId, Rewrite, State, Step, Then};
use std::fmt::Debug;

/// A kind of handle.
pub(crate) trait Handle: Debug + Sized {
    /// Reads it from a configuration: an object with `type`, or what stands behind the bar of a short form, as `PoolRoute|A`.
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError>;

    /// What becomes of a request.
    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step;

    /// What becomes of the answer of a child, which [`Cx::ask`] was told this number for.
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

        /// A handle of any kind.
        #[derive(Debug)]
        pub(crate) enum AnyHandle {
            $($handle($handle),)+
        }

        /// The names of all kinds.
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
            pub(crate) fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
                match self {
                    $(Self::$handle(handle) => handle.enter(cx, request),)+
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
    null: Null = "NullRoute" | "DevNullRoute";
    error: Error = "ErrorRoute";
    warm_up: WarmUp = "WarmUpRoute";
}

/// Asks all children, each by its place in the list.
fn ask_all(cx: &mut Cx<'_>, children: &[NodeId]) {
    children.iter().zip(0..).for_each(|(child, number)| cx.ask(*child, Rewrite::NONE, number));
}

impl AnyHandle {
    /// A handle that answers as a cache without items does.
    pub(crate) fn null() -> Self {
        AnyHandle::Null(Null)
    }
}

/// The children of a handle, in their order.
pub(crate) type Children = Box<[NodeId]>;
