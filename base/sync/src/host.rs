//! Facts about the machine and the process that the system knows. All crates of base, engines, node and fleet
//! take them from here, so that a simulated seed means the same on every machine.

#[cfg(guira_simulated)]
pub use guira_world::host::{name, parent, process, thread};

#[cfg(not(guira_simulated))]
pub use system::{limit, name, parent, process, thread};

/// What the system may limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of address space.
    AddressSpace,
    /// Bytes of a file.
    FileSize,
    /// Descriptors, of which each open file and connection has one.
    OpenFiles,
}

/// The limit of this process; `None` if there is none.
#[cfg(guira_simulated)]
pub fn limit(limit: Limit) -> Option<u64> {
    (limit == Limit::OpenFiles).then_some(guira_world::host::OPEN_FILES)
}

#[cfg(not(guira_simulated))]
mod system {
    use super::Limit;
    use rustix::process::{Resource, getrlimit};

    /// The name of the machine.
    pub fn name() -> String {
        rustix::system::uname().nodename().to_string_lossy().into_owned()
    }

    /// The number of this process.
    pub fn process() -> u32 {
        std::process::id()
    }

    /// The number of the process that started this one.
    pub fn parent() -> u32 {
        std::os::unix::process::parent_id()
    }

    /// The system's number of the running thread.
    pub fn thread() -> i32 {
        rustix::thread::gettid().as_raw_nonzero().get()
    }

    /// The limit of this process; `None` if there is none.
    pub fn limit(limit: Limit) -> Option<u64> {
        let resource = match limit {
            Limit::AddressSpace => Resource::As,
            Limit::FileSize => Resource::Fsize,
            Limit::OpenFiles => Resource::Nofile,
        };
        getrlimit(resource).current
    }
}
