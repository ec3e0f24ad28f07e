//! A replay by hand, of files that a router or mcrouter has left.

use super::pass::{Replay, ReplayManner, ReplayTakes, Signal};
use super::places::{Configured, Places};
use super::report::{FileReport, ReplayReport};
use crate::config::{LoadError, Loader};
use crate::options::RouterOptions;
use guira_sync::clock::wall_clock;
use guira_sync::thread;
use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The scope and the manner of a replay.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    pub folder: PathBuf,
    /// By which configuration; without one each delete goes to the server of its line.
    pub routing: Option<RouterOptions>,
    pub rate: NonZeroU32,
    /// The timeout of a server that no configuration contains.
    pub timeout: Duration,
    pub manner: ReplayManner,
    pub takes: ReplayTakes,
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("{}", folder.display())]
    Folder { folder: PathBuf, source: io::Error },
}

/// Replays a folder once. `report` is notified of each file.
///
/// # Errors
/// When the folder cannot be read, or the configuration is wrong. What else goes wrong is part of the report.
pub fn replay(
    options: &ReplayOptions,
    report: &mut dyn FnMut(&FileReport),
) -> Result<ReplayReport, ReplayError> {
    let places = match &options.routing {
        Some(routing) => {
            let plan = Arc::new(Loader::new(routing).load()?);
            let configured = Configured::new(plan, &routing.settings).map_err(LoadError::from)?;
            Places::Configured(Box::new(configured))
        }
        None => Places::AsLogged { timeout: options.timeout },
    };
    let folder = options.folder.clone();
    let mut replay =
        Replay::new(folder, places, options.rate.get(), Arc::default(), options.manner, options.takes);
    let mut wait = |time: Duration| {
        if !time.is_zero() {
            thread::sleep(time);
        }
        Signal::Continue
    };
    let done = replay.pass(wall_clock(), &mut wait, report);
    done.map_err(|source| ReplayError::Folder { folder: options.folder.clone(), source })
}
