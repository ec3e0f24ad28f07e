//! A relay between a server and its clients that delays, drops or passes bytes on. It works without
//! root.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use guira_harness::port::Port;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The longest wait for new connections before changes of the flow are noticed.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// The size of the copy buffer.
const CHUNK: usize = 64 << 10;
/// The wait before another attempt to accept or to listen.
const PAUSE: Duration = Duration::from_millis(20);

/// How a relay treats bytes and connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Open,
    /// Each piece of bytes is delayed by this time.
    Slow(Duration),
    /// Bytes are dropped and connections neither accepted nor refused, as when packets are lost.
    Cut,
    /// Connections are refused, as by a host without a server.
    Closed,
}

#[derive(Clone, Debug)]
pub(crate) enum Behind {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

#[derive(Debug)]
struct Way {
    behind: Behind,
    /// LOCK: relay. Leaf.
    flow: Mutex<Flow>,
    changed: Condvar,
}

impl Way {
    fn flow(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits as long as a piece of bytes is delayed.
    fn pass(&self) {
        let flow = self.changed.wait_while(self.flow(), |flow| *flow == Flow::Cut);
        let delay = match *flow.unwrap_or_else(PoisonError::into_inner) {
            Flow::Slow(delay) => delay,
            _ => return,
        };
        thread::sleep(delay);
    }
}

/// A port that leads to a server, as long as the process runs.
#[derive(Debug)]
pub(crate) struct Relay {
    address: SocketAddr,
    way: Arc<Way>,
}

impl Relay {
    /// Opens a relay, which refuses connections at first.
    ///
    /// # Errors
    /// When there is no port or no thread left.
    pub(crate) fn open(behind: Behind) -> io::Result<Self> {
        let port = Port::hold()?;
        let address = port.address();
        let way = Arc::new(Way { behind, flow: Mutex::new(Flow::Closed), changed: Condvar::new() });
        let taken = way.clone();
        thread::Builder::new().name("relay".to_owned()).spawn(move || accept(&taken, &port))?;
        Ok(Relay { address, way })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what happens to bytes from now on.
    pub(crate) fn set(&self, flow: Flow) {
        *self.way.flow() = flow;
        self.way.changed.notify_all();
    }
}

/// Accepts connections without end. No socket listens while the flow is closed.
fn accept(way: &Arc<Way>, port: &Port) {
    let mut listener = None;
    loop {
        let flow = *way.flow();
        if flow == Flow::Closed {
            listener = None;
            let opened = way.changed.wait_while(way.flow(), |flow| *flow == Flow::Closed);
            drop(opened);
            continue;
        }
        let Some(open) = &listener else {
            listener = port.listen().ok();
            if listener.is_none() {
                thread::sleep(PAUSE);
            }
            continue;
        };
        let mut looked = [PollFd::new(open, PollFlags::IN)];
        let has_come = poll(&mut looked, Some(&LOOK)).is_ok_and(|found| found > 0);
        // New connections wait in the kernel's backlog while the flow is cut.
        if !has_come || *way.flow() == Flow::Cut {
            if has_come {
                thread::sleep(PAUSE);
            }
            continue;
        }
        if let Ok((client, _)) = open.accept() {
            let way = way.clone();
            // Without a thread the connection is closed.
            let _ = thread::Builder::new().name("relay".to_owned()).spawn(move || lead(&way, client));
        }
    }
}

enum Side {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Side {
    fn copy(&self) -> io::Result<Self> {
        match self {
            Side::Tcp(stream) => stream.try_clone().map(Side::Tcp),
            Side::Unix(stream) => stream.try_clone().map(Side::Unix),
        }
    }

    fn shut(&self, how: Shutdown) {
        // The socket may already be closed.
        let _ = match self {
            Side::Tcp(stream) => stream.shutdown(how),
            Side::Unix(stream) => stream.shutdown(how),
        };
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Side::Tcp(stream) => stream.read(bytes),
            Side::Unix(stream) => stream.read(bytes),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Side::Tcp(stream) => stream.write_all(bytes),
            Side::Unix(stream) => stream.write_all(bytes),
        }
    }
}

fn connect(behind: &Behind) -> io::Result<Side> {
    match behind {
        Behind::Unix(path) => UnixStream::connect(path).map(Side::Unix),
        Behind::Tcp(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Ok(Side::Tcp(stream))
        }
    }
}

/// Copies both directions of a connection until one side closes it.
fn lead(way: &Arc<Way>, client: TcpStream) {
    // Returning closes the client's connection when the server cannot be reached.
    let Ok(server) = client.set_nodelay(true).and_then(|()| connect(&way.behind)) else { return };
    let client = Side::Tcp(client);
    let (Ok(from_client), Ok(to_client)) = (client.copy(), client.copy()) else { return };
    let Ok(to_server) = server.copy() else { return };
    let other = way.clone();
    let there = thread::Builder::new().name("relay".to_owned()).spawn(move || {
        pump(&other, from_client, to_server);
    });
    if there.is_ok() {
        pump(way, server, to_client);
    }
}

fn pump(way: &Way, mut from: Side, mut to: Side) {
    let mut bytes = vec![0; CHUNK];
    loop {
        let read = from.read(&mut bytes);
        // Bytes before the end of the stream are delayed as well.
        way.pass();
        match read {
            Ok(length) if length > 0 && to.write(&bytes[..length]).is_ok() => {}
            _ => break,
        }
    }
    to.shut(Shutdown::Both);
    from.shut(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::{Behind, Flow, Relay};
    use guira_harness::deadline::Deadline;

    /// A server that sends back every byte.
    fn echo() -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let mut bytes = [0; 64];
                    while let Ok(length) = stream.read(&mut bytes) {
                        if length == 0 || stream.write_all(&bytes[..length]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    fn connect(relay: &Relay) -> TcpStream {
        let connected = || TcpStream::connect(relay.address()).ok();
        Deadline::after(Duration::from_secs(20)).poll(connected).expect("it is open")
    }

    #[test]
    fn bytes_go_through_or_wait_until_the_way_is_whole_again() {
        let relay = Relay::open(Behind::Tcp(echo())).unwrap();
        relay.set(Flow::Open);
        let mut stream = connect(&relay);
        let mut bytes = [0; 2];
        stream.write_all(b"ab").unwrap();
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"ab");
        relay.set(Flow::Cut);
        stream.write_all(b"cd").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert!(stream.read(&mut bytes).is_err(), "nothing comes");
        relay.set(Flow::Open);
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"cd", "what was sent meanwhile comes late");
    }

    #[test]
    fn nobody_listens_while_nobody_is_behind() {
        let relay = Relay::open(Behind::Tcp(echo())).unwrap();
        let refused = || TcpStream::connect(relay.address()).is_err().then_some(());
        assert!(Deadline::after(Duration::from_secs(20)).poll(refused).is_some());
        assert!(TcpListener::bind(relay.address()).is_err(), "nobody else may be found there");
        relay.set(Flow::Open);
        connect(&relay).write_all(b"x").unwrap();
    }
}
