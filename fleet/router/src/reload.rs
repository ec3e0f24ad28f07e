//! The thread that loads configurations, and hands those that are right to the workers.

use crate::config::{LoadError, Loader, Plan, SharedPlan, Texts};
use crate::kept::Kept;
use crate::options::{Reloading, Watches};
use crate::shared::Shared;
use crate::stats_files::StatsFiles;
use guira_discovery::{Learned, News};
use guira_disk::FileWatch;
use guira_routing::Tree;
use guira_routing::config::ConfigError;
use guira_sync::clock::Stopwatch;
use guira_transport::{Interest, Mailbox, Poll, Token};
use std::io;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(crate) enum Command {
    LoadNow,
    End,
    /// Pools of etcd are others than before.
    LoadPools,
    /// Something else was looked up than before.
    Learn(News),
    /// A worker is done with a tree: it takes time to free a large one.
    Free(Box<Tree>),
}

#[derive(Debug)]
pub(crate) enum Change {
    /// Another configuration, and the worker's own tree of it.
    Plan(SharedPlan, Box<Tree>),
    Moved(Arc<[u32]>),
}

#[derive(Debug)]
pub(crate) struct Reloader {
    pub(crate) loader: Loader,
    pub(crate) commands: Arc<Mailbox<Command>>,
    pub(crate) workers: Vec<Arc<Mailbox<Change>>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) reloading: Reloading,
    /// Where the last good configuration is kept.
    pub(crate) kept: Option<Kept>,
    pub(crate) stats_files: Option<StatsFiles>,
}

const COMMAND: Token = Token(0);
const CHANGE: Token = Token(1);
/// How often the certificate files are checked for changes.
const CERTIFICATES: Duration = Duration::from_secs(1);

/// The first configuration: of the source, or, if that is unreadable or invalid, the saved one, with the reason.
pub(crate) fn first(
    loader: &mut Loader,
    kept: Option<&Kept>,
) -> Result<(Plan, Option<LoadError>), LoadError> {
    let was_kept = kept.and_then(|kept| Some((kept.path(), kept.read(loader.reader.source())?)));
    if let Some((_, Ok(texts))) = &was_kept {
        loader.reader.followed.remember(texts);
    }
    let error = match loader.load() {
        Ok(plan) => {
            keep(kept, loader, &plan.texts);
            loader.follow(&plan);
            return Ok((plan, None));
        }
        Err(error) => error,
    };
    let Some((path, texts)) = was_kept else {
        return Err(error);
    };
    match texts.and_then(|texts| loader.load_again(&texts).map_err(|why| why.to_string())) {
        Ok(plan) => {
            loader.follow(&plan);
            // Operator: Correct the configuration's source; the program reloads it when it changes.
            tracing::warn!(file = %path.display(), "{error}: using the saved configuration");
            Ok((plan, Some(error)))
        }
        Err(why) => {
            // Operator: Correct the configuration's source: the router has none to start with.
            tracing::warn!(file = %path.display(), "cannot use the saved configuration: {why}");
            Err(error)
        }
    }
}

fn keep(kept: Option<&Kept>, loader: &Loader, texts: &Texts) {
    if let Some(kept) = kept {
        kept.save(loader.reader.source(), texts);
    }
}

impl Reloader {
    /// Runs until the owner ends it.
    pub(crate) fn run_until_end(self) -> io::Result<()> {
        let result = self.run();
        if let Err(error) = &result {
            // Operator: Restart the router, or send SIGHUP after each change.
            tracing::error!(%error, "cannot watch the configuration file any more; keeping the current \
                configuration");
        }
        result
    }

    fn run(mut self) -> io::Result<()> {
        let mut poll = Poll::new()?;
        poll.add(&*self.commands, COMMAND, Interest::Read)?;
        let (mut watch, mut changed) = self.watch(&poll)?;
        let mut events = Vec::new();
        let mut looked = Stopwatch::start();
        loop {
            let due = changed.as_ref().map(|since| self.reloading.delay.saturating_sub(since.elapsed()));
            let look = watch.is_some().then_some(self.reloading.poll);
            let certificates = self.loader.has_certificates().then_some(CERTIFICATES);
            let records = self.loader.reader.followed.records.patience();
            let files = self.stats_files.as_ref().map(StatsFiles::patience);
            let times = due.into_iter().chain(look).chain(certificates).chain(records).chain(files);
            poll.wait(times.min(), &mut events)?;
            if let Some(files) = &mut self.stats_files {
                files.write_when_due(&self.shared);
            }
            let has_command = events.drain(..).any(|event| event.token == COMMAND);
            let commands = if has_command { self.commands.take() } else { Vec::new() };
            let mut now = Reload::Nothing;
            for command in commands {
                now = match command {
                    Command::End => return Ok(()),
                    Command::LoadNow => Reload::Everything,
                    Command::LoadPools => now.max(Reload::Configuration),
                    Command::Free(tree) => {
                        drop(tree);
                        now
                    }
                    Command::Learn(news) => now.max(self.learn(&news)),
                };
            }
            if !self.loader.reader.followed.records.drop_due().is_empty() {
                now = now.max(Reload::Configuration);
            }
            if looked.elapsed() >= CERTIFICATES || now == Reload::Everything {
                looked = Stopwatch::start();
                self.loader.reload_changed_certificates();
            }
            if watch.as_mut().is_some_and(FileWatch::has_changed) {
                changed.get_or_insert_with(Stopwatch::start);
            }
            let is_due = changed.as_ref().is_some_and(|since| since.elapsed() >= self.reloading.delay);
            if is_due || now >= Reload::Configuration {
                self.reload();
                (watch, changed) = self.watch(&poll)?;
            }
        }
    }

    /// Resolved names have changed.
    fn learn(&self, news: &News) -> Reload {
        match news {
            News::Host(host, found) => {
                self.shared.cluster.learn(host, found);
                let moved: Arc<[u32]> = self.loader.relocate(host, found).into();
                if !moved.is_empty() {
                    tracing::info!(host = &**host, addresses = ?found, "a host's addresses changed");
                    self.workers.iter().for_each(|worker| worker.send(Change::Moved(moved.clone())));
                }
                Reload::Nothing
            }
            News::Service(record, targets) => {
                match self.loader.reader.followed.records.learn(record, targets) {
                    Learned::New => Reload::Configuration,
                    Learned::Same => Reload::Nothing,
                }
            }
        }
    }

    /// Watches the files that were read last. Changes since then, before the watch began, count.
    fn watch(&self, poll: &Poll) -> io::Result<(Option<FileWatch>, Option<Stopwatch>)> {
        let paths = self.loader.reader.paths();
        if self.reloading.watches == Watches::Nothing || paths.is_empty() {
            return Ok((None, None));
        }
        let watch = FileWatch::of(&paths);
        if let Some(descriptor) = watch.descriptor() {
            poll.add(descriptor, CHANGE, Interest::Read)?;
        }
        let changed = self.loader.reader.is_outdated().then(Stopwatch::start);
        Ok((Some(watch), changed))
    }

    fn reload(&mut self) {
        match self.loader.load() {
            Ok(plan) if plan.texts == self.shared.config.plan().texts => {
                tracing::info!("the configuration file is unchanged");
                keep(self.kept.as_ref(), &self.loader, &plan.texts);
                self.shared.config.note_unchanged();
            }
            Ok(plan) => self.put_to_use(plan),
            Err(error) => {
                // Operator: Correct what the message names; the configuration is reloaded when it
                // changes.
                tracing::error!("cannot apply the new configuration; keeping the current one: {error}");
                self.follow_pools();
                self.shared.config.note_failure(&error);
            }
        }
    }

    /// The new configuration cannot be used. Pools of the one in use have other servers all the same.
    fn follow_pools(&mut self) {
        let in_use = self.shared.config.plan();
        match self.loader.load_again(&in_use.texts) {
            Ok(plan) if plan.texts != in_use.texts => self.put_to_use(plan),
            Ok(_) => {}
            // Operator: Correct the pool in etcd; `guira fleet status` shows it.
            Err(error) => tracing::error!("cannot update the pools; keeping the current ones: {error}"),
        }
    }

    fn put_to_use(&mut self, plan: Plan) {
        for warning in &plan.warnings {
            tracing::warn!("{warning}");
        }
        let settings = &self.shared.policies.settings;
        let trees: Result<Vec<Tree>, ConfigError> =
            self.workers.iter().map(|_| plan.tree(settings)).collect();
        let trees = match trees {
            Ok(trees) => trees,
            Err(error) => {
                // Operator: Correct what the message names; the configuration is reloaded when it
                // changes.
                tracing::error!("cannot apply the new configuration; keeping the current one: {error}");
                return self.shared.config.note_failure(&error.into());
            }
        };
        keep(self.kept.as_ref(), &self.loader, &plan.texts);
        self.loader.follow(&plan);
        let plan = Arc::new(plan);
        tracing::info!(md5 = plan.digest, "reloaded the configuration");
        self.shared.replace(plan.clone());
        for (worker, tree) in self.workers.iter().zip(trees) {
            worker.send(Change::Plan(plan.clone(), Box::new(tree)));
        }
    }
}

/// The parts to be read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reload {
    Nothing,
    Configuration,
    Everything,
}
