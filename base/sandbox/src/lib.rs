//! The system calls that a serving process may make: a list, and a filter (seccomp(2)) that refuses all others.
//!
//! | file | content |
//! |---|---|
//! | calls.rs | the table of calls, with a reason for each group |
//! | filter.rs | filters made of the table |
//!
//! A refused call returns an error and is counted (`guira_sync::refused`); the process continues. docs/guide/security.md
//! has the reasons.

#![forbid(unsafe_code)]

mod calls;
mod filter;

use calls::{Arch, Call, FORBIDDEN, Group, LISTED, NEW_PROCESSES};
use guira_sync::lock::OnceLock;
use guira_sync::refused;
use std::fmt;
use std::io;
use std::str::FromStr;

/// The option `system-calls`: the calls that a process may make once it serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemCalls {
    #[default]
    All,
    /// Those of the list.
    Listed,
}

impl SystemCalls {
    pub fn name(self) -> &'static str {
        match self {
            SystemCalls::All => "all",
            SystemCalls::Listed => "listed",
        }
    }

    /// Restricts all threads of the process, and those that they start, to the calls of the list, if that was chosen.
    /// This cannot be undone; further calls of the function have no effect.
    ///
    /// # Errors
    /// If the kernel does not accept the filter.
    pub fn restrict(self) -> Result<(), SandboxError> {
        if self == SystemCalls::All || is_restricted() {
            return Ok(());
        }
        let arch = ARCH.ok_or(SandboxError::Architecture)?;
        let filters = filter::filters(arch, std::process::id())?;
        refused::answer(filter::forbidden(arch)).map_err(SandboxError::Handler)?;
        filters.iter().try_for_each(|filter| seccompiler::apply_filter_all_threads(filter))?;
        RESTRICTED.get_or_init(|| ());
        tracing::info!("only listed system calls are possible from now on");
        Ok(())
    }
}

impl FromStr for SystemCalls {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let both = [SystemCalls::All, SystemCalls::Listed];
        both.into_iter().find(|one| one.name() == text).ok_or_else(|| "must be all or listed".to_owned())
    }
}

impl fmt::Display for SystemCalls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("system-calls = listed: there is no list for this architecture; use all")]
    Architecture,
    #[error("system-calls = listed: cannot build the filter")]
    Build(#[from] seccompiler::BackendError),
    #[error("system-calls = listed: cannot handle SIGSYS")]
    Handler(#[source] io::Error),
    #[error(
        "system-calls = listed: the kernel refuses the filter; allow the system call seccomp in the service's unit or container, or use all"
    )]
    Kernel(#[from] seccompiler::Error),
}

/// The architecture that this program was compiled for.
const ARCH: Option<Arch> = if cfg!(target_arch = "x86_64") {
    Some(Arch::X86_64)
} else if cfg!(target_arch = "aarch64") {
    Some(Arch::Aarch64)
} else {
    None
};

/// Set when the filter is in effect.
static RESTRICTED: OnceLock<()> = OnceLock::new();

/// Whether this process is restricted to listed calls.
pub fn is_restricted() -> bool {
    RESTRICTED.get().is_some()
}

/// The number of refused calls.
pub fn refused() -> u64 {
    refused::count()
}

/// Logs each call that was refused for the first time. To be called after a SIGSYS.
pub fn report() {
    for number in refused::take_new() {
        let call = ARCH.and_then(|arch| filter::name(arch, number)).unwrap_or("unlisted");
        // Operator: Report it if the program was only serving: the list lacks a call (`ausyscall NUMBER` names it), and
        // `system-calls` all is the workaround. Calls such as execve are a sign of an attack.
        tracing::error!(call, number, "refused a system call that is not in the list");
    }
}

/// Calls with the same reason, for docs/reference/system-calls.md.
#[derive(Clone, Debug)]
pub struct CallGroup {
    pub reason: &'static str,
    pub calls: Vec<String>,
}

/// The calls of the list.
pub fn listed() -> Vec<CallGroup> {
    described(LISTED)
}

/// The calls that are never in the list.
pub fn forbidden() -> Vec<CallGroup> {
    [NEW_PROCESSES, FORBIDDEN].into_iter().flat_map(described).collect()
}

fn described(groups: &[Group]) -> Vec<CallGroup> {
    let describe = |call: &Call| match call.when.description() {
        Some(when) => format!("{} ({when})", call.name),
        None => call.name.to_owned(),
    };
    let of_group =
        |group: &Group| CallGroup { reason: group.reason, calls: group.calls.iter().map(describe).collect() };
    groups.iter().map(of_group).collect()
}

#[cfg(test)]
mod tests;
