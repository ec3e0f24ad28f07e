//! How an engine leaves its Region to the next one: in a file that is closed, or to another process that goes on at once.

use crate::shell::Shell;
use guira_contract::{CloseError, NotHandedOver, Preview};
use guira_memory::lasting::{EngineStates, HandedBy, HandedRegion};
use guira_sync::clock::Seconds;
use std::sync::Arc;

/// The core of an engine that can leave its Region to another one.
pub trait Leaves: Sized {
    fn shell(&self) -> &Shell;

    /// Ends it: its Region is to be closed.
    fn into_shell(self) -> Shell;

    /// Finishes in the Region what sessions have left half done. All of them are gone. What is done for a process is enough for a file too.
    fn settle(&self, _by: HandedBy) {}

    /// What the next engine has to know beside the Region's contents.
    fn state(&self, now: Seconds, by: HandedBy) -> Vec<u8>;

    /// The same while sessions are at work, by which the next engine decides whether it can go on.
    fn preview_state(&self) -> Vec<u8> {
        self.state(self.shell().time_seen(), HandedBy::Process)
    }
}

/// Closes an engine in order, if its Region lasts.
///
/// # Errors
/// If something still uses it, the notes are too long, or the file cannot be written.
pub fn close<C: Leaves>(core: Arc<C>, now: Seconds, notes: &[u8]) -> Result<(), CloseError> {
    let core = Arc::into_inner(core).ok_or(CloseError::InUse)?;
    if !core.shell().lasts(notes)? {
        return Ok(());
    }
    core.settle(HandedBy::File);
    let state = core.state(now, HandedBy::File);
    core.into_shell().close(&state, notes)
}

/// Hands the Region of an engine over to another process.
///
/// # Errors
/// If something still uses the engine, it does not last, or the notes are too long.
///
/// # Panics
/// Never: what lasts has a file.
pub fn hand_over<C: Leaves>(
    core: Arc<C>,
    now: Seconds,
    notes: &[u8],
) -> Result<HandedRegion, NotHandedOver<Arc<C>>> {
    match core.shell().lasts(notes) {
        Ok(true) => {}
        Ok(false) => return Err(NotHandedOver { engine: core, why: CloseError::NoRegion }),
        Err(why) => return Err(NotHandedOver { engine: core, why }),
    }
    let core =
        Arc::try_unwrap(core).map_err(|core| NotHandedOver { engine: core, why: CloseError::InUse })?;
    core.settle(HandedBy::Process);
    let (handed, closed) = (core.state(now, HandedBy::Process), core.state(now, HandedBy::File));
    Ok(core.into_shell().hand_over(EngineStates { handed, closed }, notes).expect("it lasts"))
}

/// What [`hand_over`] would give another process now, if the Region lasts.
pub fn preview<C: Leaves>(core: &C) -> Option<Preview> {
    let shell = core.shell();
    let lasts = shell.lasts(&[]).is_ok_and(|lasts| lasts);
    lasts.then(|| Preview { state: core.preview_state(), bytes: shell.region().reserved() })
}
