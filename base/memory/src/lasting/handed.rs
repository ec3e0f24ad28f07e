//! A Region on its way between two processes.

use super::sealing::{is_marked, seal};
use crate::region::Region;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// A Region on its way from one process to the next, or back.
#[derive(Debug)]
pub struct HandedRegion {
    /// The file, locked as long as anybody has it open.
    file: Arc<File>,
    /// What it takes to go on; without, the Region has to be emptied.
    state: Option<HandedState>,
    /// The engine's state for a file that is closed after all, which says less than that for a process. Only who hands over knows it.
    closed: Option<Vec<u8>>,
    /// Keeps the pages of the one who hands over mapped until there is time to unmap them.
    mapped: Option<Arc<Region>>,
}

/// What an orderly close would have written beside the Region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedState {
    pub state: Vec<u8>,
    pub notes: Vec<u8>,
    /// Length of the Region, in bytes.
    pub bytes: usize,
}

/// What an engine has to say of its Region.
#[derive(Debug)]
pub struct EngineStates {
    /// To a process that goes on at once.
    pub handed: Vec<u8>,
    /// To one that opens the closed file.
    pub closed: Vec<u8>,
}

impl HandedRegion {
    /// A Region that this process hands over, with the state for the successor and for a file that is closed after all.
    pub(super) fn given(file: Arc<File>, region: Arc<Region>, states: EngineStates, notes: Vec<u8>) -> Self {
        let state = HandedState { state: states.handed, notes, bytes: region.reserved() };
        HandedRegion { file, state: Some(state), closed: Some(states.closed), mapped: Some(region) }
    }

    /// One that was received, with what it takes to go on.
    pub fn received(file: impl Into<File>, state: HandedState) -> Self {
        HandedRegion { file: Arc::new(file.into()), state: Some(state), closed: None, mapped: None }
    }

    pub(super) fn shared_file(&self) -> &Arc<File> {
        &self.file
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// What it takes to go on.
    pub fn state(&self) -> Option<&HandedState> {
        self.state.as_ref()
    }

    /// Closes the file in order after all, for whoever opens it next. Nobody goes on with it, and nobody has stored to it since it was
    /// handed over. Does nothing if one that had gone on has closed it.
    ///
    /// # Errors
    /// If it has to be emptied, or an error of the system. The file then has no mark.
    pub fn close(&self) -> io::Result<()> {
        let (Some(HandedState { notes, bytes, .. }), Some(state)) = (&self.state, &self.closed) else {
            return Err(io::Error::other("another process has used it"));
        };
        if is_marked(&self.file)? {
            return Ok(());
        }
        if let Some(region) = &self.mapped {
            region.sync()?;
        }
        seal(&self.file, *bytes, state, notes)
    }

    /// The same file, whose contents have been used by another process in the meantime and are of no use any more.
    #[must_use]
    pub fn spoilt(&self) -> Self {
        HandedRegion { file: self.file.clone(), state: None, closed: None, mapped: None }
    }
}
