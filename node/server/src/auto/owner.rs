//! Whether the server chooses the policy, or an operator has.

use crate::options::Options;
use guira_sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Server,
    Operator,
}

#[derive(Debug)]
pub(crate) struct PolicyOwner {
    /// The owner that the options set.
    configured: Owner,
    /// Relaxed: the server may choose once more.
    is_server: AtomicBool,
}

impl PolicyOwner {
    pub(crate) fn of(options: &Options) -> Self {
        let is_auto = options.choice().is_ok_and(|choice| choice.is_auto());
        let configured = if is_auto { Owner::Server } else { Owner::Operator };
        PolicyOwner { configured, is_server: AtomicBool::new(is_auto) }
    }

    pub(super) fn configured(&self) -> Owner {
        self.configured
    }

    pub(super) fn now(&self) -> Owner {
        if self.is_server.load(Ordering::Relaxed) { Owner::Server } else { Owner::Operator }
    }

    /// Returns the previous owner.
    pub(super) fn replace(&self, owner: Owner) -> Owner {
        let was_server = self.is_server.swap(owner == Owner::Server, Ordering::Relaxed);
        if was_server { Owner::Server } else { Owner::Operator }
    }
}
