//! The thread that loads configurations, and hands those that are right to the workers.

use crate::config::{LoadError, Loader, Plan, SharedPlan, Texts};
use crate::kept;
use crate::shared::Shared;
use crate::watch::Watch;
use guira_sync::clock::Stopwatch;
use guira_transport::{Interest, Mailbox, Poll, Token};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// When a change of files is acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reloading {
    /// How often files are looked at beside what the system says of itself.
    pub poll: Duration,
    /// How long is waited after a change, so that it is complete.
    pub delay: Duration,
    pub watches: Watches,
}

/// Whether files are watched, or read again only when a signal asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watches {
    Files,
    Nothing,
}

/// What the thread is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    LoadNow,
    End,
}

/// The state of the thread.
#[derive(Debug)]
pub(crate) struct Reloader {
    pub(crate) loader: Loader,
    pub(crate) wishes: Arc<Mailbox<Wish>>,
    /// Each worker's.
    pub(crate) workers: Vec<Arc<Mailbox<SharedPlan>>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) reloading: Reloading,
    /// Where the last good configuration is kept.
    pub(crate) kept: Option<PathBuf>,
}

const WISH: Token = Token(0);
const CHANGE: Token = Token(1);
/// How often certificates are looked at.
const CERTIFICATES: Duration = Duration::from_secs(1);

/// The first configuration: of the source, or, if that cannot be read or is wrong, for which reason is told, the one that was kept.
pub(crate) fn first(
    loader: &mut Loader,
    kept: Option<&PathBuf>,
) -> Result<(Plan, Option<LoadError>), LoadError> {
    let error = match loader.load() {
        Ok(plan) => {
            keep(kept, &plan.texts);
            return Ok((plan, None));
        }
        Err(error) => error,
    };
    let Some(path) = kept.filter(|path| path.exists()) else {
        return Err(error);
    };
    let texts = kept::read(path).map_err(|why| why.to_string());
    match texts.and_then(|texts| loader.load_kept(texts).map_err(|why| why.to_string())) {
        Ok(plan) => {
            tracing::warn!(file = %path.display(), "{error}: the configuration that was kept is used");
            Ok((plan, Some(error)))
        }
        Err(why) => {
            tracing::warn!(file = %path.display(), "the configuration that was kept cannot be used: {why}");
            Err(error)
        }
    }
}

fn keep(path: Option<&PathBuf>, texts: &Texts) {
    if let Some((path, Err(error))) = path.map(|path| (path, kept::save(path, texts))) {
        tracing::warn!(file = %path.display(), %error, "the configuration cannot be kept");
    }
}

impl Reloader {
    /// Runs until it is told to end.
    pub(crate) fn run_until_told(self) -> io::Result<()> {
        let result = self.run();
        if let Err(error) = &result {
            tracing::error!(%error, "the configuration is not read again from now on");
        }
        result
    }

    fn run(mut self) -> io::Result<()> {
        let mut poll = Poll::new()?;
        poll.add(&*self.wishes, WISH, Interest::Read)?;
        let (mut watch, mut changed) = self.watch(&poll)?;
        let mut events = Vec::new();
        let mut looked = Stopwatch::start();
        loop {
            let due = changed.as_ref().map(|since| self.reloading.delay.saturating_sub(since.elapsed()));
            let look = watch.is_some().then_some(self.reloading.poll);
            let certificates = self.loader.has_certificates().then_some(CERTIFICATES);
            poll.wait(due.into_iter().chain(look).chain(certificates).min(), &mut events)?;
            let is_told = events.drain(..).any(|event| event.token == WISH);
            let wishes = if is_told { self.wishes.take() } else { Vec::new() };
            if wishes.contains(&Wish::End) {
                return Ok(());
            }
            if looked.elapsed() >= CERTIFICATES || wishes.contains(&Wish::LoadNow) {
                looked = Stopwatch::start();
                self.loader.reload_changed_certificates();
            }
            if watch.as_mut().is_some_and(Watch::has_changed) {
                changed.get_or_insert_with(Stopwatch::start);
            }
            let is_due = changed.as_ref().is_some_and(|since| since.elapsed() >= self.reloading.delay);
            if is_due || wishes.contains(&Wish::LoadNow) {
                self.reload();
                (watch, changed) = self.watch(&poll)?;
            }
        }
    }

    /// Watches what was read last. What has changed since then, before it was watched, counts as a change.
    fn watch(&self, poll: &Poll) -> io::Result<(Option<Watch>, Option<Stopwatch>)> {
        let paths = self.loader.paths();
        if self.reloading.watches == Watches::Nothing || paths.is_empty() {
            return Ok((None, None));
        }
        let watch = Watch::of(&paths);
        if let Some(descriptor) = watch.descriptor() {
            poll.add(descriptor, CHANGE, Interest::Read)?;
        }
        let changed = self.loader.is_outdated().then(Stopwatch::start);
        Ok((Some(watch), changed))
    }

    fn reload(&mut self) {
        let plan = match self.loader.load() {
            Ok(plan) => plan,
            Err(error) => {
                tracing::error!("the configuration stays as it was: {error}");
                return self.shared.refused(&error);
            }
        };
        if plan.texts == self.shared.plan().texts {
            tracing::info!("the configuration was read again and is the same");
            return self.shared.kept_as_it_is();
        }
        for warning in &plan.warnings {
            tracing::warn!("{warning}");
        }
        keep(self.kept.as_ref(), &plan.texts);
        let plan = Arc::new(plan);
        tracing::info!(md5 = plan.digest, "the configuration was read again");
        self.shared.replace(plan.clone());
        for worker in &self.workers {
            worker.send(plan.clone());
        }
    }
}
