//! What a server answers to `stats`.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks for `stats`, or for `stats GROUP` if `group` is not empty. Returns names and values in the order of the answer.
///
/// # Errors
/// When the server cannot be asked, or does not answer in time.
pub fn stats(addr: SocketAddr, group: &str) -> io::Result<Vec<(String, String)>> {
    let mut socket = TcpStream::connect(addr)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(format!("stats {group}").trim_end().as_bytes())?;
    socket.write_all(b"\r\n")?;
    let mut found = Vec::new();
    for line in BufReader::new(socket).lines() {
        let line = line?;
        match line.trim_end().strip_prefix("STAT ").and_then(|rest| rest.split_once(' ')) {
            Some((name, value)) => found.push((name.to_owned(), value.to_owned())),
            None => break,
        }
    }
    Ok(found)
}

/// One number of an answer, if it is there.
pub fn number(stats: &[(String, String)], name: &str) -> Option<u64> {
    stats.iter().find(|(known, _)| known == name)?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::{number, stats};

    #[test]
    fn statistics_are_read_to_their_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(socket.try_clone().unwrap()).read_line(&mut line).unwrap();
            socket.write_all(b"STAT a 1\r\nSTAT b x y\r\nEND\r\nSTAT c 1\r\n").unwrap();
            line
        });
        let found = stats(addr, "items").unwrap();
        assert_eq!(server.join().unwrap(), "stats items\r\n");
        assert_eq!((number(&found, "a"), number(&found, "b"), number(&found, "c")), (Some(1), None, None));
        assert_eq!(found[1], ("b".to_owned(), "x y".to_owned()));
    }
}
