//! TCP keepalive of connections to servers: an idle connection to a host that has failed is closed.

use guira_transport::{Address, Stream};
use rustix::net::sockopt;
use std::io;
use std::time::Duration;

/// How the kernel probes an idle connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// After this many probes without a reply the connection is closed.
    pub count: u32,
    /// Idle time before the first probe.
    pub idle: Duration,
    pub interval: Duration,
}

impl Keepalive {
    pub(crate) fn enable(self, stream: &Stream, address: Option<&Address>) -> io::Result<()> {
        if let Some(Address::Unix(_)) = address {
            return Ok(());
        }
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepcnt(stream, self.count)?;
        sockopt::set_tcp_keepidle(stream, self.idle)?;
        Ok(sockopt::set_tcp_keepintvl(stream, self.interval)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_transport::net::TcpListener;

    #[test]
    fn all_numbers_are_set_on_the_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let stream = Stream::connect(&address).unwrap();
        assert!(!sockopt::socket_keepalive(&stream).unwrap());
        let second = Duration::from_secs(1);
        Keepalive { count: 4, idle: 7 * second, interval: 5 * second }
            .enable(&stream, Some(&address))
            .unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), 4);
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), 7 * second);
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), 5 * second);
    }
}
