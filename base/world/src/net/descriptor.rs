//! Numbers of sockets in place of descriptors.

/// Implements the traits of descriptors for a type by its first field.
macro_rules! forward {
    ($name:ident) => {
        impl std::os::fd::AsRawFd for $name {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                std::os::fd::AsRawFd::as_raw_fd(&self.0)
            }
        }

        impl std::os::fd::AsFd for $name {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                std::os::fd::AsFd::as_fd(&self.0)
            }
        }

        impl From<std::os::fd::OwnedFd> for $name {
            /// # Panics
            /// Always: a world has no descriptors of the system.
            fn from(_: std::os::fd::OwnedFd) -> Self {
                $crate::net::descriptor::refuse()
            }
        }

        impl From<$name> for std::os::fd::OwnedFd {
            /// # Panics
            /// Always: a world has no descriptors of the system.
            fn from(_: $name) -> Self {
                $crate::net::descriptor::refuse()
            }
        }
    };
}

pub(super) use forward;

pub(super) fn refuse() -> ! {
    panic!("a world has no descriptors of the system");
}
