//! Where a server is. Its name may have several addresses, and others tomorrow.

use guira_sync::lock::Mutex;
use guira_transport::{Address, Stream};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// The addresses of a server, as they were looked up last. None if its name is unknown.
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

    /// Whether these are others than before.
    pub fn replace(&self, list: impl Into<Arc<[Address]>>) -> bool {
        let mut known = self.list.lock();
        let list = list.into();
        let is_new = *known != list;
        *known = list;
        is_new
    }
}

/// Whether a connection could not be begun for want of something on this host (descriptors, ports, memory), or since a server at a UNIX socket
/// has not accepted others yet: that says nothing about whether the server is there.
pub fn is_busy(error: &io::Error) -> bool {
    let lacking = [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM];
    let has = |error: &Errno| lacking.contains(error);
    error.kind() == io::ErrorKind::WouldBlock || Errno::from_io_error(error).as_ref().is_some_and(has)
}

/// Whether a server is at the address at which a worker has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    Same,
    Moved,
}

/// The address of a server that a worker's connection goes to: the first that can be connected to.
#[derive(Clone, Debug)]
pub struct Way {
    shared: Arc<Addresses>,
    list: Arc<[Address]>,
    at: usize,
    /// Addresses that could not be connected to, in a row.
    failed: usize,
}

impl Way {
    pub fn new(shared: &Arc<Addresses>) -> Self {
        Way { shared: shared.clone(), list: shared.list(), at: 0, failed: 0 }
    }

    /// The present one.
    pub fn address(&self) -> Option<&Address> {
        self.list.get(self.at)
    }

    /// Begins to connect to the present address, or to the next that does not fail at once, with this in the field of the service of packets.
    ///
    /// # Errors
    /// What the system says of the first that cannot be connected to; [`is_busy`] only if it says so of all that were left.
    pub fn connect(&mut self, service: u8) -> io::Result<Stream> {
        if self.failed >= self.list.len() {
            self.failed = 0;
        }
        let mut refusal = None;
        loop {
            let Some(address) = self.address() else {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
            };
            let error = match Stream::connect_marked(address, service) {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            // What this host lacks says nothing about the server, and an address that it cannot use says nothing about the next.
            let known = refusal.filter(|known| !is_busy(known));
            let error = known.unwrap_or(error);
            if !self.turn() {
                return Err(error);
            }
            refusal = Some(error);
        }
    }

    /// The present address cannot be connected to: turns to the next. Whether that was not tried yet.
    pub fn turn(&mut self) -> bool {
        self.failed += 1;
        self.at = (self.at + 1) % self.list.len().max(1);
        self.failed < self.list.len()
    }

    /// Whether some addresses have failed and others were not tried.
    pub fn is_halfway(&self) -> bool {
        (1..self.list.len()).contains(&self.failed)
    }

    /// The present address was connected to.
    pub fn reached(&mut self) {
        self.failed = 0;
    }

    /// Takes over what was looked up since.
    pub fn refresh(&mut self) -> Whereabouts {
        let list = self.shared.list();
        let same = self.address().and_then(|present| list.iter().position(|address| address == present));
        (self.list, self.at, self.failed) = (list, same.unwrap_or(0), 0);
        if same.is_some() { Whereabouts::Same } else { Whereabouts::Moved }
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

    fn ports(way: &Way) -> String {
        way.address().map_or("none".to_owned(), ToString::to_string)
    }

    #[test]
    fn addresses_are_tried_one_after_the_other() {
        let shared = Arc::new(Addresses::new([tcp(1), tcp(2), tcp(3)]));
        let mut way = Way::new(&shared);
        assert!(!way.is_halfway());
        assert_eq!((way.turn(), way.is_halfway(), way.address()), (true, true, Some(&tcp(2))));
        assert_eq!((way.turn(), way.turn()), (true, false));
        assert_eq!((way.is_halfway(), way.address()), (false, Some(&tcp(1))));
        way.reached();
        assert!(way.turn());
        // With one there is nothing else to try.
        let mut way = Way::new(&Arc::new(Addresses::new([tcp(1)])));
        assert_eq!((way.turn(), way.is_halfway(), way.address()), (false, false, Some(&tcp(1))));
    }

    #[test]
    fn an_address_that_a_name_still_has_is_kept() {
        let shared = Arc::new(Addresses::new([tcp(1), tcp(2)]));
        let mut way = Way::new(&shared);
        way.turn();
        assert!(shared.replace([tcp(5), tcp(4), tcp(2)]) && !shared.replace([tcp(5), tcp(4), tcp(2)]));
        assert_eq!((way.refresh(), way.address()), (Whereabouts::Same, Some(&tcp(2))));
        shared.replace([tcp(5), tcp(4)]);
        assert_eq!((way.refresh(), way.address()), (Whereabouts::Moved, Some(&tcp(5))));
    }

    #[test]
    fn what_this_host_lacks_is_not_put_down_to_the_server() {
        let error = |errno: Errno| io::Error::from(errno);
        let lacking =
            [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM, Errno::AGAIN];
        assert!(lacking.into_iter().all(|errno| is_busy(&error(errno))));
        let gone = [
            Errno::CONNREFUSED,
            Errno::HOSTUNREACH,
            Errno::NETUNREACH,
            Errno::TIMEDOUT,
            Errno::NOENT,
            Errno::ACCESS,
        ];
        assert!(!gone.into_iter().any(|errno| is_busy(&error(errno))));
    }

    #[test]
    fn what_cannot_be_connected_to_at_once_is_passed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let nowhere = Address::Unix("/nowhere/at/all".into());
        let there = Address::Tcp(listener.local_addr().unwrap());
        let mut way = Way::new(&Arc::new(Addresses::new([nowhere.clone(), there])));
        way.connect(0).unwrap();
        assert_ne!(ports(&way), nowhere.to_string());
        let mut way = Way::new(&Arc::new(Addresses::new([nowhere.clone(), nowhere])));
        for _ in 0..2 {
            way.connect(0).unwrap_err();
            assert!(!way.is_halfway(), "all have failed");
        }
        // A server that has not accepted others yet is busy: the next address is tried, and it is the answer of all only if all are.
        let full = std::env::temp_dir().join(format!("guira-way-{}", std::process::id()));
        let _ = guira_disk::remove_file(&full);
        let waits = guira_transport::net::UnixListener::bind(&full).unwrap();
        rustix::net::listen(&waits, 0).unwrap();
        let busy = Address::Unix(full.clone());
        let _waiting: Vec<Stream> = (0..2).map_while(|_| Stream::connect(&busy).ok()).collect();
        let there = Address::Tcp(listener.local_addr().unwrap());
        let kind = |list: &[Address]| {
            let mut way = Way::new(&Arc::new(Addresses::new(list.to_vec())));
            let kind = way.connect(0).err().map(|error| error.kind());
            assert!(!way.is_halfway() || kind.is_none());
            kind
        };
        let nowhere = Address::Unix("/nowhere/at/all".into());
        assert_eq!(kind(&[busy.clone(), there]), None);
        assert_eq!(kind(&[busy.clone(), busy.clone()]), Some(io::ErrorKind::WouldBlock));
        assert_eq!(kind(&[busy.clone(), nowhere.clone()]), Some(io::ErrorKind::NotFound));
        assert_eq!(kind(&[nowhere, busy]), Some(io::ErrorKind::NotFound));
        guira_disk::remove_file(full).unwrap();
        let mut way = Way::new(&Arc::new(Addresses::new([])));
        assert_eq!(way.connect(0).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!((way.turn(), ports(&way)), (false, "none".to_owned()));
    }
}
