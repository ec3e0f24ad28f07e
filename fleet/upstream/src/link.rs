//! The connection to a server, from its beginning on.

use guira_transport::{Progress, Stream, TlsConnector, TlsName};
use std::io;

/// How a server is spoken to over TLS.
#[derive(Clone, Debug)]
pub struct Secure {
    pub connector: TlsConnector,
    pub name: TlsName,
}

#[derive(Debug)]
pub enum Link {
    Closed,
    Connecting(Stream),
    /// Connected, and in the middle of a TLS handshake.
    Securing(Stream),
    Up(Stream),
}

impl Link {
    /// Whether it is neither closed nor up.
    pub fn is_beginning(&self) -> bool {
        matches!(self, Link::Connecting(_) | Link::Securing(_))
    }

    pub fn stream(&self) -> Option<&Stream> {
        match self {
            Link::Closed => None,
            Link::Connecting(stream) | Link::Securing(stream) | Link::Up(stream) => Some(stream),
        }
    }

    /// Something has happened to the socket of a link that is beginning: takes the next steps, as far as they can be taken now.
    ///
    /// # Errors
    /// Why it cannot be connected to. The link is closed then.
    pub fn go_on(&mut self, secure: Option<&Secure>) -> io::Result<()> {
        let mut stream = match std::mem::replace(self, Link::Closed) {
            Link::Connecting(stream) => {
                stream.take_error()?;
                match secure {
                    Some(secure) => secure.connector.connect(stream, &secure.name)?,
                    None => {
                        *self = Link::Up(stream);
                        return Ok(());
                    }
                }
            }
            Link::Securing(stream) => stream,
            other => {
                *self = other;
                return Ok(());
            }
        };
        match stream.read(&mut [0])? {
            Progress::Blocked => {}
            Progress::Moved(_) => return Err(io::Error::other("the server sent data before a request")),
            Progress::Ended => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        *self = if stream.tls_facts().is_some() { Link::Up(stream) } else { Link::Securing(stream) };
        Ok(())
    }
}
