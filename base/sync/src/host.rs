//! Facts about the machine and the process that the system knows. No other crate of base, engines, node and fleet
//! asks the system for them, so that a simulated seed means the same on every machine.

#[cfg(guira_simulated)]
pub use guira_world::host::{Limit, limit, name, parent, process, thread};

#[cfg(not(guira_simulated))]
pub use system::{Limit, limit, name, parent, process, thread};

#[cfg(not(guira_simulated))]
mod system {
    use rustix::process::{Resource, getrlimit};

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
