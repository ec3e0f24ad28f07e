//! The addresses of a server, and to which of them a connection goes. A name may have several, and
//! others later.

use guira_sync::lock::Mutex;
use guira_transport::{Address, Stream};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// The addresses of a server by the last lookup. Empty if its name is unknown.
#[derive(Debug)]
pub struct Addresses {
    /// LOCK: server_addresses. Leaf.
    list: Mutex<Arc<[Address]>>,
}

impl Addresses {
    pub fn new(list: impl Into<Arc<[Address]>>) -> Self {
        Addresses { list: Mutex::new(list.into()) }
    }

    pub fn list(&self) -> Arc<[Address]> {
        self.list.lock().clone()
    }

    /// True if the list differs from the previous one.
    pub fn replace(&self, list: impl Into<Arc<[Address]>>) -> bool {
        let mut known = self.list.lock();
        let list = list.into();
        let is_new = *known != list;
        *known = list;
        is_new
    }
}

/// Whether an attempt to connect failed because this host lacks descriptors, ports or memory, or
/// because a server at a UNIX socket has not accepted earlier connections yet. Such an error does
/// not mean that the server is down.
pub fn is_busy(error: &io::Error) -> bool {
    let lacking = [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM];
    let has = |error: &Errno| lacking.contains(error);
    error.kind() == io::ErrorKind::WouldBlock || Errno::from_io_error(error).as_ref().is_some_and(has)
}

/// Whether the server still has the address of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressChange {
    None,
    Moved,
}

/// Selects the address of the next connection: the first that accepts one.
#[derive(Clone, Debug)]
pub struct Dialer {
    shared: Arc<Addresses>,
    list: Arc<[Address]>,
    current: usize,
    /// Addresses in a row that could not be connected to.
    failed: usize,
}

impl Dialer {
    pub fn new(shared: &Arc<Addresses>) -> Self {
        Dialer { shared: shared.clone(), list: shared.list(), current: 0, failed: 0 }
    }

    pub fn address(&self) -> Option<&Address> {
        self.list.get(self.current)
    }

    /// Begins to connect to the current address, or to the next one that does not fail at once.
    /// `service` is the value of the service field in packets.
    ///
    /// # Errors
    /// The error of the first address that failed; an error that [`is_busy`] only if all addresses
    /// failed so.
    pub fn dial(&mut self, service: u8) -> io::Result<Stream> {
        if self.failed >= self.list.len() {
            self.failed = 0;
        }
        let mut first = None;
        loop {
            let Some(address) = self.address() else {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
            };
            let error = match Stream::connect_marked(address, service) {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            // The next address may work, although this host lacks something or cannot use the
            // current one.
            let known = first.filter(|known| !is_busy(known));
            let error = known.unwrap_or(error);
            if !self.fail() {
                return Err(error);
            }
            first = Some(error);
        }
    }

    /// The current address cannot be connected to: selects the next one. True if that was not tried
    /// yet.
    pub fn fail(&mut self) -> bool {
        self.failed += 1;
        self.current = (self.current + 1) % self.list.len().max(1);
        self.failed < self.list.len()
    }

    /// Whether some addresses have failed and others were not tried.
    pub fn has_untried(&self) -> bool {
        (1..self.list.len()).contains(&self.failed)
    }

    /// The current address has accepted a connection.
    pub fn succeed(&mut self) {
        self.failed = 0;
    }

    /// Takes over the result of the last lookup.
    pub fn refresh(&mut self) -> AddressChange {
        let list = self.shared.list();
        let same = self.address().and_then(|current| list.iter().position(|address| address == current));
        (self.list, self.current, self.failed) = (list, same.unwrap_or(0), 0);
        if same.is_some() { AddressChange::None } else { AddressChange::Moved }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_transport::net::TcpListener;
    use std::net::Ipv4Addr;

    fn tcp(port: u16) -> Address {
        Address::Tcp((Ipv4Addr::LOCALHOST, port).into())
    }

    fn address_of(dialer: &Dialer) -> String {
        dialer.address().map_or("none".to_owned(), ToString::to_string)
    }

    #[test]
    fn addresses_are_tried_one_after_the_other() {
        let shared = Arc::new(Addresses::new([tcp(1), tcp(2), tcp(3)]));
        let mut dialer = Dialer::new(&shared);
        assert!(!dialer.has_untried());
        assert_eq!((dialer.fail(), dialer.has_untried(), dialer.address()), (true, true, Some(&tcp(2))));
        assert_eq!((dialer.fail(), dialer.fail()), (true, false));
        assert_eq!((dialer.has_untried(), dialer.address()), (false, Some(&tcp(1))));
        dialer.succeed();
        assert!(dialer.fail());
        // With one address there is no other to try.
        let mut dialer = Dialer::new(&Arc::new(Addresses::new([tcp(1)])));
        assert_eq!((dialer.fail(), dialer.has_untried(), dialer.address()), (false, false, Some(&tcp(1))));
    }

    #[test]
    fn an_address_that_a_name_still_has_is_kept() {
        let shared = Arc::new(Addresses::new([tcp(1), tcp(2)]));
        let mut dialer = Dialer::new(&shared);
        dialer.fail();
        assert!(shared.replace([tcp(5), tcp(4), tcp(2)]) && !shared.replace([tcp(5), tcp(4), tcp(2)]));
        assert_eq!((dialer.refresh(), dialer.address()), (AddressChange::None, Some(&tcp(2))));
        shared.replace([tcp(5), tcp(4)]);
        assert_eq!((dialer.refresh(), dialer.address()), (AddressChange::Moved, Some(&tcp(5))));
    }

    #[test]
    fn an_error_of_this_host_does_not_mean_that_the_server_is_down() {
        let error = |errno: Errno| io::Error::from(errno);
        let lacking =
            [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM, Errno::AGAIN];
        assert!(lacking.into_iter().all(|errno| is_busy(&error(errno))));
        let down = [
            Errno::CONNREFUSED,
            Errno::HOSTUNREACH,
            Errno::NETUNREACH,
            Errno::TIMEDOUT,
            Errno::NOENT,
            Errno::ACCESS,
        ];
        assert!(!down.into_iter().any(|errno| is_busy(&error(errno))));
    }

    #[test]
    fn an_address_that_fails_at_once_is_skipped() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let nowhere = Address::Unix("/nowhere/at/all".into());
        let there = Address::Tcp(listener.local_addr().unwrap());
        let mut dialer = Dialer::new(&Arc::new(Addresses::new([nowhere.clone(), there])));
        dialer.dial(0).unwrap();
        assert_ne!(address_of(&dialer), nowhere.to_string());
        let mut dialer = Dialer::new(&Arc::new(Addresses::new([nowhere.clone(), nowhere])));
        for _ in 0..2 {
            dialer.dial(0).unwrap_err();
            assert!(!dialer.has_untried(), "all have failed");
        }
        // A server with a full backlog is busy: the next address is tried. The error is
        // `WouldBlock` only if all are busy.
        let full = std::env::temp_dir().join(format!("guira-dialer-{}", std::process::id()));
        let _ = guira_disk::remove_file(&full);
        let listener_of_backlog = guira_transport::net::UnixListener::bind(&full).unwrap();
        rustix::net::listen(&listener_of_backlog, 0).unwrap();
        let busy = Address::Unix(full.clone());
        let _waiting: Vec<Stream> = (0..2).map_while(|_| Stream::connect(&busy).ok()).collect();
        let there = Address::Tcp(listener.local_addr().unwrap());
        let kind = |list: &[Address]| {
            let mut dialer = Dialer::new(&Arc::new(Addresses::new(list.to_vec())));
            let kind = dialer.dial(0).err().map(|error| error.kind());
            assert!(!dialer.has_untried() || kind.is_none());
            kind
        };
        let nowhere = Address::Unix("/nowhere/at/all".into());
        assert_eq!(kind(&[busy.clone(), there]), None);
        assert_eq!(kind(&[busy.clone(), busy.clone()]), Some(io::ErrorKind::WouldBlock));
        assert_eq!(kind(&[busy.clone(), nowhere.clone()]), Some(io::ErrorKind::NotFound));
        assert_eq!(kind(&[nowhere, busy]), Some(io::ErrorKind::NotFound));
        guira_disk::remove_file(full).unwrap();
        let mut dialer = Dialer::new(&Arc::new(Addresses::new([])));
        assert_eq!(dialer.dial(0).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!((dialer.fail(), address_of(&dialer)), (false, "none".to_owned()));
    }
}
