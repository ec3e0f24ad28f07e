//! Who may use whom: the table of the design, as data.

/// What a crate may use of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayUse {
    /// Nothing but these.
    Only(&'static [&'static str]),
    /// Everything but the crates above the lab.
    AnythingBelowTheLab,
    Product,
    Anything,
}

/// Crates of the lab: only `guira-lab` and the tests use them, others at most in their own tests.
pub(crate) const LAB: &[&str] = &[
    "guira-oracle",
    "guira-harness",
    "guira-regions",
    "guira-demo",
    "guira-workload",
    "guira-load",
    "guira-sim",
    "guira-soak",
    "guira-simulation",
    "guira-papers",
];

/// What the tests of a crate may use beside the lab and what the crate itself may use: commands are tried out on all engines.
const IN_TESTS: &[(&str, &[&str])] = &[("guira-commands", &["guira-slab", "guira-fleec", "guira-mica"])];

/// Crates that nothing uses.
pub(crate) const TOP: &[&str] = &["guira", "guira-lab", "guira-python", "guira-fuzz", "guira-tests", "xtask"];

/// Parts of programs, which only programs use.
const PARTS: &[&str] = &["guira-cli", "guira-program"];

/// Runtimes that no crate here uses: the server has its own event loop.
pub(crate) const RUNTIMES: &[&str] = &["tokio", "async-std", "smol", "mio", "futures"];

/// But for these: a runtime stays on a thread of their own (docs/develop/decisions/0040-names.md).
pub(crate) const RUNTIME_USERS: &[&str] = &["guira-discovery"];

use MayUse::{Anything, AnythingBelowTheLab, Only, Product};

/// The table: a crate and what it may use.
pub(crate) const TABLE: &[(&str, MayUse)] = &[
    ("guira-world", Only(&[])),
    ("guira-sync", Only(&["guira-world"])),
    ("guira-memory", Only(&["guira-sync"])),
    ("guira-sandbox", Only(&["guira-sync"])),
    ("guira-disk", Only(&["guira-sync", "guira-world"])),
    ("guira-transport", Only(&["guira-disk", "guira-sync", "guira-world"])),
    ("guira-protocol", Only(&[])),
    (
        "guira-serving",
        Only(&["guira-transport", "guira-disk", "guira-protocol", "guira-memory", "guira-sync"]),
    ),
    (
        "guira-web",
        Only(&[
            "guira-serving",
            "guira-transport",
            "guira-disk",
            "guira-protocol",
            "guira-memory",
            "guira-sync",
        ]),
    ),
    ("guira-contract", Only(&["guira-memory", "guira-sync"])),
    ("guira-items", Only(&["guira-contract", "guira-memory", "guira-sync"])),
    ("guira-slab", Only(&["guira-items", "guira-contract", "guira-memory", "guira-sync"])),
    ("guira-fleec", Only(&["guira-items", "guira-contract", "guira-memory", "guira-sync"])),
    ("guira-mica", Only(&["guira-items", "guira-contract", "guira-memory", "guira-sync"])),
    ("guira-advice", Only(&["guira-slab", "guira-contract", "guira-sync"])),
    ("guira-commands", Only(&["guira-contract", "guira-protocol", "guira-sync"])),
    ("guira-roster", Only(&["guira-slab", "guira-fleec", "guira-mica", "guira-items", "guira-contract"])),
    (
        "guira-server",
        Only(&[
            "guira-roster",
            "guira-advice",
            "guira-commands",
            "guira-contract",
            "guira-protocol",
            "guira-sandbox",
            "guira-serving",
            "guira-web",
            "guira-transport",
            "guira-disk",
            "guira-memory",
            "guira-sync",
        ]),
    ),
    ("guira-node", Only(&["guira-server", "guira-roster"])),
    ("guira-routing", Only(&["guira-sync"])),
    (
        "guira-upstream",
        Only(&["guira-routing", "guira-protocol", "guira-transport", "guira-disk", "guira-sync"]),
    ),
    (
        "guira-client",
        Only(&[
            "guira-upstream",
            "guira-routing",
            "guira-protocol",
            "guira-transport",
            "guira-disk",
            "guira-sync",
        ]),
    ),
    ("guira-python", Only(&["guira-client", "guira-transport", "guira-disk", "guira-sync"])),
    ("guira-top", Only(&["guira-client", "guira-transport", "guira-sync"])),
    (
        "guira-control",
        Only(&["guira-client", "guira-protocol", "guira-transport", "guira-disk", "guira-sync"]),
    ),
    ("guira-copy", Only(&["guira-client", "guira-routing", "guira-protocol", "guira-sync"])),
    (
        "guira-discovery",
        Only(&[
            "guira-control",
            "guira-client",
            "guira-routing",
            "guira-transport",
            "guira-disk",
            "guira-sync",
        ]),
    ),
    (
        "guira-router",
        Only(&[
            "guira-routing",
            "guira-upstream",
            "guira-control",
            "guira-discovery",
            "guira-client",
            "guira-protocol",
            "guira-sandbox",
            "guira-serving",
            "guira-web",
            "guira-transport",
            "guira-disk",
            "guira-memory",
            "guira-sync",
        ]),
    ),
    ("guira-sql", Only(&["guira-client", "guira-transport", "guira-disk", "guira-sync"])),
    (
        "guira-invalidator",
        Only(&[
            "guira-sql",
            "guira-client",
            "guira-protocol",
            "guira-sandbox",
            "guira-web",
            "guira-transport",
            "guira-disk",
            "guira-sync",
        ]),
    ),
    (
        "guira-checker",
        Only(&[
            "guira-sql",
            "guira-client",
            "guira-protocol",
            "guira-web",
            "guira-transport",
            "guira-disk",
            "guira-sync",
        ]),
    ),
    ("guira-harness", Only(&["guira-contract", "guira-sync"])),
    ("guira-regions", AnythingBelowTheLab),
    ("guira-demo", AnythingBelowTheLab),
    ("guira-oracle", Only(&["guira-protocol"])),
    ("guira-workload", Only(&["guira-protocol"])),
    ("guira-load", AnythingBelowTheLab),
    ("guira-sim", AnythingBelowTheLab),
    ("guira-soak", AnythingBelowTheLab),
    ("guira-simulation", Anything),
    ("guira-papers", AnythingBelowTheLab),
    ("guira-cli", Only(&["guira-client", "guira-sync"])),
    ("guira-program", Product),
    ("guira", Product),
    ("guira-lab", Anything),
    ("guira-fuzz", AnythingBelowTheLab),
    ("guira-tests", Anything),
    ("xtask", Only(&[])),
];

pub(crate) fn row(name: &str) -> Option<MayUse> {
    TABLE.iter().find(|(known, _)| *known == name).map(|(_, may_use)| *may_use)
}

/// Whether `user` may have `used` among its normal dependencies.
pub(crate) fn allows(may_use: MayUse, used: &str) -> bool {
    match may_use {
        Only(list) => list.contains(&used),
        // The parts of the programs are theirs alone.
        AnythingBelowTheLab => !TOP.contains(&used) && !PARTS.contains(&used),
        Product => !TOP.contains(&used) && !LAB.contains(&used),
        Anything => used != "xtask",
    }
}

/// Whether the tests of `user` may use `used`, although it itself may not.
pub(crate) fn tests_may_use(user: &str, used: &str) -> bool {
    LAB.contains(&used) || IN_TESTS.iter().any(|(known, list)| *known == user && list.contains(&used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_a_row_has_a_row() {
        for (user, may_use) in TABLE {
            let Only(used) = may_use else { continue };
            for name in *used {
                assert!(row(name).is_some(), "{user} may use {name}, which has no row");
            }
        }
    }

    #[test]
    fn the_table_has_no_circle() {
        // A row may name only crates of earlier rows, but for the order of the first few.
        let depth = |name: &str| TABLE.iter().position(|(known, _)| *known == name);
        for (user, may_use) in TABLE {
            let Only(used) = may_use else { continue };
            for name in *used {
                assert!(depth(name) < depth(user), "{user} may use {name}, which comes later");
            }
        }
    }

    #[test]
    fn nothing_below_uses_the_lab() {
        for (user, may_use) in TABLE {
            if matches!(may_use, Only(_) | Product) {
                assert!(LAB.iter().all(|name| !allows(*may_use, name)), "{user} may use the lab");
            }
        }
    }
}
