//! The second step of a start: opens the engine, or takes that of a predecessor over.

use super::prepare::{OpenEngine, Prepared, StartOptions, Starting, prepare};
use super::running::{Held, Running};
use crate::errors::StartError;
use crate::options::Options;
use crate::parts::Parts;
use crate::secrets::Secrets;
use crate::takeover::{Bringing, Predecessor, Sockets};
use guira_contract::Opening;
use guira_memory::lasting::HandedRegion;
use guira_memory::{release_code, release_heap, release_stack};
use guira_roster::{OpenError, RegionPlace};
use guira_transport::Inherited;
use std::sync::Arc;

/// Starts a server, whose engine `open` opens. The server takes over from its predecessor, if there is one. It also
/// serves `inherited` sockets; with some of them it does not listen on the default address.
///
/// # Errors
/// If an address is in use, or [`super::check`] fails; or if the predecessor refuses, or the server cannot use the
/// predecessor's region. The predecessor then continues.
pub fn start_after(
    open: OpenEngine,
    options: &Options,
    secrets: Secrets,
    inherited: Vec<Inherited>,
    predecessor: Option<Predecessor>,
) -> Result<Running, StartError> {
    let again = StartOptions { options: options.clone(), secrets, open };
    let Some(mut predecessor) = predecessor else {
        return prepare(again, inherited, Sockets::default())?.open(Bringing::default());
    };
    let earlier = std::mem::take(&mut predecessor.sockets);
    let prepared = prepare(again, inherited, earlier).and_then(|prepared| {
        predecessor.check_region(&prepared.options, &prepared.setup())?;
        Ok(prepared)
    });
    match prepared {
        Ok(prepared) => prepared.open(predecessor.let_go()?),
        Err(error) => {
            predecessor.refuse(&error);
            Err(error)
        }
    }
}

impl Prepared {
    /// Opens the engine and serves it.
    ///
    /// # Errors
    /// If that fails. What the predecessor had brought is its own again.
    pub(crate) fn open(mut self, mut bringing: Bringing) -> Result<Running, StartError> {
        let handed = bringing.region.take();
        let mut result = self.open_in(handed.as_ref(), &mut bringing);
        if let (Err(StartError::Engine(OpenError::NotTakenOver { .. })), Some(handed)) = (&result, &handed)
            && !bringing.is_on_trial()
        {
            // The successor has damaged the region. An empty server is better than none.
            if let Err(error) = &result {
                // Operator: The cache starts empty: expect load on the database.
                tracing::error!("lost all items: {error}");
            }
            result = self.open_in(Some(&Arc::new(handed.spoilt())), &mut bringing);
        }
        if let Err(error) = &result {
            bringing.refuse(error);
        }
        result
    }

    fn open_in(
        &mut self,
        handed: Option<&Arc<HandedRegion>>,
        bringing: &mut Bringing,
    ) -> Result<Running, StartError> {
        let mut setup = self.setup();
        if let (Some(lasting), Some(handed)) = (&mut setup.lasting, handed) {
            lasting.place = lasting.place.with(handed.clone());
            if let Some(time) = bringing.time {
                lasting.now_unix = time.now() / 1000;
            }
        }
        let choice = self.options.choice()?;
        (self.again.open)(&choice, &setup, Starting { prepared: self, bringing })?
    }

    /// Serves an engine that has served before. `found` is its region, and the state of that at the start.
    ///
    /// # Errors
    /// If that fails. The items in the region are kept.
    pub(crate) fn serve(
        mut self,
        held: Box<dyn Held>,
        found: Option<(RegionPlace, Opening)>,
        parts: &Parts,
        mut bringing: Bringing,
    ) -> Result<Running, StartError> {
        held.serve(Starting { prepared: &mut self, bringing: &mut bringing }, found, parts)
    }
}

/// Releases memory that only the start has used. Called by the main thread after everything has started.
pub fn release_start() {
    release_heap();
    let released = release_stack().and_then(|stack| Ok(stack + release_code()?));
    match released {
        Ok(bytes) => tracing::debug!(bytes, "released memory that only the start used"),
        Err(error) => tracing::debug!(%error, "cannot release memory that only the start used"),
    }
}
