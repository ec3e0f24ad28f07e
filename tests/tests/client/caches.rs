//! All caches that the client is for.

use guira_tests::{Server, Setup, skip};

/// Each kind: a node, a memcached, and a router before either.
pub(crate) fn all() -> Vec<(&'static str, Server)> {
    let route = |leases: &str| {
        format!(
            r#"{{"pools": {{"all": {{"servers": ["%0"], "leases": "{leases}"}}}}, "route": "PoolRoute|all"}}"#
        )
    };
    let setup = Setup::new();
    let mut all = vec![
        ("a node", setup.start_guira()),
        ("a router before a node", setup.start_router(&route("native"), vec![setup.start_guira()])),
    ];
    match [setup.start_peer(), setup.start_peer(), setup.start_peer()] {
        [Some(alone), Some(meta), Some(plain)] => all.extend([
            ("memcached", alone),
            ("a router that makes leases of meta commands", setup.start_router(&route("meta"), vec![meta])),
            (
                "a router whose servers know only meta commands",
                setup.start_router(&route("native"), vec![plain]),
            ),
        ]),
        _ => skip::say("memcached is not installed"),
    }
    all
}
