//! Servers that are started to be compared.

use std::path::Path;
use std::process::Command;

use guira_load::server::{Kind, Spec};

use crate::experiment::Context;

/// Where servers run, and where a client that is measured does.
pub(crate) const SERVER_CORE: usize = 0;
pub(crate) const CLIENT_CORE: usize = 1;

pub(crate) fn spec(kind: Kind, memory: u64) -> Spec {
    Spec::new(kind, memory, &[SERVER_CORE])
}

pub(crate) fn guira(context: &Context, args: Vec<String>) -> Kind {
    Kind::Guira { binary: context.guira.clone(), args }
}

/// memcached with these arguments, called `label`.
pub(crate) fn memcached(context: &Context, label: &str, args: &[&str]) -> Kind {
    Kind::Memcached {
        label: label.to_owned(),
        binary: context.memcached.clone(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
    }
}

/// What memcached calls itself, with its version.
pub(crate) fn version(context: &Context) -> String {
    version_of(&context.memcached)
}

pub(crate) fn version_of(memcached: &Path) -> String {
    let output = Command::new(memcached).arg("-V").output();
    output.map_or_else(
        |_| "memcached".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
