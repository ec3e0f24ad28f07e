//! Errors with the system's numbers, by which the product distinguishes many of them.

use std::io::{self, ErrorKind};

const NUMBERS: [(ErrorKind, i32); 14] = [
    (ErrorKind::NotFound, 2),
    (ErrorKind::WouldBlock, 11),
    (ErrorKind::AlreadyExists, 17),
    (ErrorKind::NotADirectory, 20),
    (ErrorKind::IsADirectory, 21),
    (ErrorKind::StorageFull, 28),
    (ErrorKind::ReadOnlyFilesystem, 30),
    (ErrorKind::BrokenPipe, 32),
    (ErrorKind::DirectoryNotEmpty, 39),
    (ErrorKind::AddrInUse, 98),
    (ErrorKind::ConnectionReset, 104),
    (ErrorKind::NotConnected, 107),
    (ErrorKind::TimedOut, 110),
    (ErrorKind::ConnectionRefused, 111),
];
const IO: i32 = 5;
const BAD_DESCRIPTOR: i32 = 9;

/// The system's error of this kind.
pub(crate) fn error(kind: ErrorKind) -> io::Error {
    let known = NUMBERS.iter().find(|(of, _)| *of == kind);
    known.map_or_else(|| kind.into(), |(_, number)| io::Error::from_raw_os_error(*number))
}

/// A disk failed.
pub(crate) fn disk_error() -> io::Error {
    io::Error::from_raw_os_error(IO)
}

/// The descriptor is closed, or does not allow the operation.
pub(crate) fn bad_descriptor() -> io::Error {
    io::Error::from_raw_os_error(BAD_DESCRIPTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_belong_to_their_kinds() {
        for (kind, _) in NUMBERS {
            assert_eq!(error(kind).kind(), kind);
        }
    }
}
