//! Locks and connections of the scenarios' tasks.

use guira_world::net::TcpStream;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Locks state that tasks of several processes share. It is std's lock, without a yield point, so that no process is
/// killed while it has the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no task panics with the lock")
}

/// Connects, and limits the connection attempt, each read and each write to `timeout`.
pub(crate) fn connect(server: SocketAddr, timeout: Duration) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&server, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    Ok(BufReader::new(stream))
}

/// Sends requests that end with `quit`, and returns the replies.
pub(crate) fn call(at: SocketAddr, requests: &str) -> io::Result<String> {
    let mut connection = connect(at, Duration::from_secs(2))?;
    connection.get_mut().write_all(requests.as_bytes())?;
    let (mut text, mut line) = (Vec::new(), Vec::new());
    while connection.read_until(b'\n', &mut line)? > 0 {
        text.append(&mut line);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}
