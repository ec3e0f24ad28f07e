//! Clients that route by themselves, and go by what etcd, DNS and files say now.

use crate::etcd_pools::EtcdPools;
use crate::kept;
use crate::names::{Names, NamesOptions, News, SRV_HOLD_DOWN};
use crate::records::{Learned, Records};
use crate::source::{Followed, Reader, Source, Unreadable};
use guira_client::pools::{AsyncClient, Builder, Client, ReloadHandle, SetupError, Texts, check};
use guira_control::EtcdOptions;
use guira_disk::FileWatch;
use guira_transport::{Interest, Mailbox, Poll, Token};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Why a client cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The configuration cannot be read, and none was kept.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The configuration is invalid and none was saved, or the system refuses a resource.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The system has no threads or descriptors left.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// The interval of checks whether the client is still in use and whether files have changed.
const LOOK: Duration = Duration::from_secs(1);
/// The time in which a change of files becomes complete.
const DELAY: Duration = Duration::from_millis(100);

const COMMAND: Token = Token(0);
const CHANGE: Token = Token(1);

/// The sources that a client follows, before it starts.
///
/// ```no_run
/// use guira_discovery::{Following, Source};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let source = Source::Text(r#"{"route": "PoolRoute|etcd:cache"}"#.to_owned());
/// let following = Following::of(source)
///     .etcd(guira_control::EtcdOptions::new(vec!["http://etcd:2379".to_owned()]))
///     .keep("/var/cache/shop/guira.config");
/// let client = following.client(|builder| builder.connections(32))?;
/// client.delete(b"user:7")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Following {
    source: Source,
    etcd: Option<EtcdOptions>,
    kept: Option<PathBuf>,
    srv_hold_down: Duration,
}

impl Following {
    /// Follows what a configuration names, and the file that it is in.
    #[must_use]
    pub fn of(source: Source) -> Self {
        Following { source, etcd: None, kept: None, srv_hold_down: SRV_HOLD_DOWN }
    }

    /// Sets the etcd that has the pools `etcd:NAME`.
    #[must_use]
    pub fn etcd(self, options: EtcdOptions) -> Self {
        Following { etcd: Some(options), ..self }
    }

    /// The last good configuration, with all that it names, is kept in this file, for a start at which it cannot be read. Clients of the same
    /// configuration may have one file.
    #[must_use]
    pub fn keep(self, path: impl Into<PathBuf>) -> Self {
        Following { kept: Some(path.into()), ..self }
    }

    /// How long a server is kept that has left its SRV record, five minutes if this is not called. Routers before the same servers have to keep it equally long
    /// (`--srv-hold-down-ms`): as long as only one of the two has it, they find different servers for a key, and a delete by the one leaves what the other has stored.
    #[must_use]
    pub fn srv_hold_down(self, duration: Duration) -> Self {
        Following { srv_hold_down: duration, ..self }
    }

    /// A blocking client with the options of `build`. It follows until its last clone is dropped.
    ///
    /// # Errors
    /// There is no usable configuration, or the system refuses a resource.
    pub fn client(self, build: impl Fn(Builder) -> Builder) -> Result<Client, FollowError> {
        self.start(|texts| Client::new(&build(Builder::texts(texts))), Client::reload_handle)
    }

    /// Like [`Following::client`], for an async client.
    ///
    /// # Errors
    /// Those of [`Following::client`].
    pub fn async_client(self, build: impl Fn(Builder) -> Builder) -> Result<AsyncClient, FollowError> {
        self.start(|texts| AsyncClient::new(&build(Builder::texts(texts))), AsyncClient::reload_handle)
    }

    fn start<C>(
        self,
        make: impl Fn(Texts) -> Result<C, SetupError>,
        handle: impl Fn(&C) -> ReloadHandle,
    ) -> Result<C, FollowError> {
        let commands = Arc::new(Mailbox::new()?);
        let (names_commands, pools_commands) = (commands.clone(), commands.clone());
        let notify = move |news| names_commands.send(Command::Learn(news));
        let names = Arc::new(Names::new(NamesOptions::default(), Arc::default(), notify));
        let records = Arc::new(Records::new(names.clone(), self.srv_hold_down));
        let pools = EtcdPools::new(self.etcd.as_ref(), move || pools_commands.send(Command::LoadPools));
        let mut reader = Reader::new(self.source, Followed { records, pools: Arc::new(pools) });
        let (client, in_use) = first(&mut reader, self.kept.as_deref(), make)?;
        let mut follow = Follow { reader, names, commands, handle: handle(&client), kept: self.kept, in_use };
        follow.note();
        let thread = guira_sync::thread::Builder::new().name("guira-follow".to_owned());
        thread.spawn(move || follow.run_until_over())?;
        Ok(client)
    }
}

/// The first configuration: of the source, or, if that cannot be used, the one that was kept.
fn first<C>(
    reader: &mut Reader,
    path: Option<&Path>,
    make: impl Fn(Texts) -> Result<C, SetupError>,
) -> Result<(C, Texts), FollowError> {
    let kept = path.filter(|path| guira_disk::exists(path)).and_then(|path| {
        let texts = kept::read(path);
        texts
            .inspect_err(
                // Operator: Check the permissions of the file, or delete it; without it a start needs the
                // configuration's source.
                |error| tracing::warn!(file = %path.display(), %error, "cannot read the saved configuration"),
            )
            .ok()
    });
    kept.iter().for_each(|texts| reader.followed.remember(texts));
    let made = load(reader).and_then(|texts| Ok((make(texts.clone())?, texts)));
    let (error, kept) = match (made, kept) {
        (Ok(made), _) => return Ok(made),
        (Err(error), None) => return Err(error),
        (Err(error), Some(kept)) => (error, kept),
    };
    // Its pools may have other servers by now.
    let kept = reader.followed.renew(&kept);
    match make(kept.clone()) {
        Ok(client) => {
            // Operator: Correct the configuration's source; the program reloads it when it changes.
            tracing::warn!("{error}: using the saved configuration");
            Ok((client, kept))
        }
        Err(_) => Err(error),
    }
}

fn load(reader: &mut Reader) -> Result<Texts, FollowError> {
    let ((), texts) = reader.read(|main, files| check(main, files).map_err(FollowError::from))?;
    Ok(texts)
}

enum Command {
    /// Pools of etcd are others than before.
    LoadPools,
    /// Something else was looked up than before.
    Learn(News),
}

struct Follow {
    reader: Reader,
    names: Arc<Names>,
    commands: Arc<Mailbox<Command>>,
    handle: ReloadHandle,
    kept: Option<PathBuf>,
    in_use: Texts,
}

/// Whether a clone of the client still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Users {
    Some,
    None,
}

impl Follow {
    fn run_until_over(mut self) {
        if let Err(error) = self.run() {
            // Operator: Restart the application: changes are not noticed until then.
            tracing::error!(%error, "cannot watch the client's configuration any more; keeping the \
                current one");
        }
    }

    fn run(&mut self) -> io::Result<()> {
        let mut poll = Poll::new()?;
        poll.add(&*self.commands, COMMAND, Interest::Read)?;
        let mut watch = self.watch(&poll)?;
        let mut events = Vec::new();
        // Something may have changed before it was watched.
        let mut is_due = self.reader.is_outdated();
        loop {
            if is_due {
                if self.reload() == Users::None {
                    return Ok(());
                }
                watch = self.watch(&poll)?;
                is_due = self.reader.is_outdated();
                if is_due {
                    guira_sync::thread::sleep(DELAY);
                    continue;
                }
            }
            let held = self.reader.followed.records.patience();
            poll.wait(held.into_iter().chain([LOOK]).min(), &mut events)?;
            events.clear();
            if self.handle.is_over() {
                return Ok(());
            }
            for command in self.commands.take() {
                is_due |= match command {
                    Command::LoadPools => true,
                    Command::Learn(News::Service(record, targets)) => {
                        self.reader.followed.records.learn(&record, &targets) == Learned::New
                    }
                    Command::Learn(News::Host(..)) => false,
                };
            }
            is_due |= !self.reader.followed.records.drop_due().is_empty();
            if watch.has_changed() {
                guira_sync::thread::sleep(DELAY);
                is_due = true;
            }
        }
    }

    fn watch(&self, poll: &Poll) -> io::Result<FileWatch> {
        let watch = FileWatch::of(&self.reader.paths());
        if let Some(descriptor) = watch.descriptor() {
            poll.add(descriptor, CHANGE, Interest::Read)?;
        }
        Ok(watch)
    }

    fn reload(&mut self) -> Users {
        let texts = match load(&mut self.reader) {
            Ok(texts) => texts,
            Err(error) => {
                // Operator: Correct what the message names; the configuration is reloaded when it
                // changes.
                tracing::error!("cannot apply the new configuration; keeping the current one: {error}");
                self.handle.count_refused();
                // Pools of the configuration in use have other servers all the same.
                self.reader.followed.renew(&self.in_use)
            }
        };
        if texts == self.in_use {
            return Users::Some;
        }
        match self.handle.reconfigure(&texts) {
            None => return Users::None,
            Some(Ok(())) => {
                tracing::info!("applied a new configuration");
                self.in_use = texts;
                self.note();
            }
            // Operator: Correct what the message names; the configuration is reloaded when it changes.
            Some(Err(error)) => {
                tracing::error!("cannot apply the new configuration; keeping the current one: {error}")
            }
        }
        Users::Some
    }

    /// Saves the texts in use, and follows the records that they name.
    fn note(&mut self) {
        let records = self.reader.followed.keep_records_of(&self.in_use);
        self.names.follow(HashSet::new(), records);
        if let Some(path) = &self.kept
            && let Err(error) = kept::save(path, &self.in_use)
        {
            // Operator: Check the folder's permissions and free space. A start without the source would
            // have no configuration.
            tracing::warn!(file = %path.display(), %error, "cannot save the configuration");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_has_left_its_record_is_kept_as_long_as_by_a_router() {
        let following = Following::of(Source::Text("{}".to_owned()));
        // docs/guide/replacing-mcrouter.md: five minutes.
        assert_eq!(following.srv_hold_down, Duration::from_secs(300));
        assert_eq!(following.srv_hold_down, SRV_HOLD_DOWN);
        let following = following.srv_hold_down(Duration::from_secs(7));
        assert_eq!(following.srv_hold_down, Duration::from_secs(7));
    }
}
