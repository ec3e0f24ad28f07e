//! Notifying a service manager: the datagrams of sd_notify(3), without its library.
//!
//! Errors are logged and have no other effect.

use guira_sync::channel::{Receiver, RecvTimeoutError};
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The variable with the address of the service manager.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// How long a manager that is busy is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the line of state is sent.
pub(crate) const STATUS_EVERY: Duration = Duration::from_secs(30);

/// Notifies the service manager, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    manager: Option<(UnixDatagram, SocketAddr)>,
}

impl Notifier {
    /// The one whose address is in the environment. An address of no use is as none.
    pub(crate) fn from_environment() -> Self {
        let Some(name) = std::env::var_os(VARIABLE) else {
            return Notifier::default();
        };
        Notifier::to(&name).unwrap_or_else(|error| {
            tracing::debug!(%error, ?name, "cannot notify the service manager");
            Notifier::default()
        })
    }

    /// One that sends to the socket of this name: a path, or @ and the name of an abstract one.
    ///
    /// # Errors
    /// If it is neither, or the system has no socket to give.
    fn to(name: &OsStr) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', abstract_name @ ..] => SocketAddr::from_abstract_name(abstract_name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::Error::from(io::ErrorKind::InvalidInput)),
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Notifier { manager: Some((socket, address)) })
    }

    /// Whether there is a service manager.
    pub(crate) fn is_wanted(&self) -> bool {
        self.manager.is_some()
    }

    /// The server serves, for the first time or again.
    pub(crate) fn ready(&self, status: &str) {
        self.send(format_args!("READY=1\n{}", Status(status)));
    }

    /// The server reads its files again; [`Notifier::ready`] comes next.
    pub(crate) fn reloading(&self) {
        // By this the manager knows that it is the answer to its own signal.
        let now = clock_gettime(ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(format_args!("RELOADING=1\nMONOTONIC_USEC={micros}\n{}", Status("reloading files")));
    }

    /// The server ends, and the process with this number goes on in its place.
    pub(crate) fn handed_over(&self, pid: i32) {
        self.send(format_args!("MAINPID={pid}\n"));
    }

    /// The server is about to end.
    pub(crate) fn stopping(&self) {
        self.send(format_args!("STOPPING=1\n{}", Status("ending connections")));
    }

    /// Sends what `status` returns, once in a while, until the other end of `end` is dropped.
    pub(crate) fn keep_notifying(&self, every: Duration, end: Receiver<()>, status: impl Fn() -> String) {
        while self.is_wanted() && end.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
            self.send(format_args!("{}", Status(&status())));
        }
    }

    fn send(&self, message: fmt::Arguments<'_>) {
        let Some((socket, address)) = &self.manager else {
            return;
        };
        let mut text = String::new();
        // A String takes whatever is written to it.
        let _ = text.write_fmt(message);
        if let Err(error) = socket.send_to_addr(text.as_bytes(), address) {
            tracing::debug!(%error, "cannot send to the service manager: {text}");
        }
    }
}

/// The line of state that `systemctl status` shows.
struct Status<'a>(&'a str);

impl fmt::Display for Status<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A line that ended within the text would be a message of its own.
        let line = self.0.replace(|letter: char| letter.is_control(), " ");
        writeln!(formatter, "STATUS={line}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_sync::channel::channel;

    /// A manager at an abstract address of its own.
    fn manager(name: &str) -> (UnixDatagram, Notifier) {
        let name = format!("guira-notify-{name}-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        (socket, Notifier::to(OsStr::new(&format!("@{name}"))).unwrap())
    }

    fn received(manager: &UnixDatagram) -> String {
        let mut buffer = [0; 512];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn each_state_is_a_message_of_its_own() {
        let (manager, notifier) = manager("states");
        notifier.ready("listening on unix:/a\nREADY=0");
        assert_eq!(received(&manager), "READY=1\nSTATUS=listening on unix:/a READY=0\n");
        notifier.reloading();
        let reloading = received(&manager);
        let since = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        let micros: i64 = since.split('\n').next().unwrap().parse().unwrap();
        let now = clock_gettime(ClockId::Monotonic).tv_sec;
        assert!((now - 10..=now).contains(&(micros / 1_000_000)), "{micros} at {now}");
        notifier.stopping();
        assert!(received(&manager).starts_with("STOPPING=1\nSTATUS="));
    }

    #[test]
    fn the_status_is_sent_again_and_again_until_the_end() {
        let (manager, notifier) = manager("status");
        let (alive, end) = channel();
        std::thread::scope(|scope| {
            let notifier = &notifier;
            let items = || "3 items".to_owned();
            scope.spawn(move || notifier.keep_notifying(Duration::from_millis(1), end, items));
            for _ in 0..2 {
                assert_eq!(received(&manager), "STATUS=3 items\n");
            }
            drop(alive);
        });
    }

    #[test]
    fn without_a_manager_nothing_is_sent_and_nothing_fails() {
        assert!(Notifier::to(OsStr::new("vsock:2:1")).is_err());
        let gone = Notifier::to(OsStr::new("/nowhere/at/all")).unwrap();
        gone.ready("");
        let without = Notifier::default();
        without.ready("");
        let (_alive, end) = channel();
        without.keep_notifying(Duration::from_secs(3600), end, || unreachable!("nobody asks"));
    }
}
