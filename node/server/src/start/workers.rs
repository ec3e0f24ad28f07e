//! The workers of a server.

use crate::admin::Admin;
use crate::direct::{DatagramListener, DirectPath, Place};
use crate::errors::StartError;
use crate::forward::{Forwarding, Inboxes};
use crate::options::Options;
use crate::parts::Parts;
use crate::udp::UdpListener;
use crate::worker::{Ends, NodeService};
use guira_contract::{CommitAhead, Engine};
use guira_serving::{Acceptor, Crew, Placement, Port, Worker};
use guira_transport::net::UdpSocket;
use std::sync::Arc;

/// Makes the workers, which serve what comes by these ports once they begin.
pub(super) fn workers<E: Engine>(
    options: &Options,
    engine: &E,
    (parts, admin): (&Parts, &Arc<Admin>),
    (ports, udp, ways): (Vec<Port>, Vec<Vec<UdpSocket>>, Vec<Vec<DirectPath>>),
) -> Result<Crew, StartError> {
    let partitioning = engine.partitioning();
    let mut acceptor = Some(Acceptor::new(ports, parts.host.mailboxes.clone()));
    let inboxes = Arc::new(Inboxes::new(options.workers));
    let placement = if options.pin_workers { Placement::Pinned } else { Placement::Anywhere };
    let mut crew = Crew::new(parts.host.clone());
    for (index, (sockets, ways)) in udp.into_iter().zip(ways).enumerate() {
        let place = Place { worker: index, workers: options.workers, partitioning };
        let ends = Ends {
            udp: (!sockets.is_empty()).then(|| UdpListener::new(sockets, options.protocol)),
            direct: DatagramListener::new(ways, place, parts.statistics.workers()[index].bursts.clone()),
            forwarding: Forwarding::new(index, inboxes.clone(), parts.host.mailboxes.clone(), partitioning),
        };
        let acceptor = acceptor.take();
        let (session, parts, admin) = (engine.session(), parts.clone(), admin.clone());
        let make = move || {
            let host = parts.host.clone();
            let service = NodeService::new(index, session, (&parts, admin), ends);
            Worker::new(index, service, host, acceptor)
        };
        crew.start(index, placement, make)?;
    }
    // Checked here, so that no thread is started for an engine that does not support it.
    if engine.commit_ahead() != CommitAhead::Unsupported {
        let (engine, host) = (engine.clone(), parts.host.clone());
        crew.spawn("committer".to_owned(), move || {
            commit_ahead(&engine, &host);
            Ok(())
        })?;
    }
    // The controller does not wait for the workers to begin: without requests it changes no policy.
    let admin = admin.clone();
    crew.spawn("controller".to_owned(), move || {
        admin.learn();
        Ok(())
    })?;
    crew.wait_until_ready()?;
    Ok(crew)
}

/// Lets the engine commit memory before it is needed, until the server stops.
fn commit_ahead(engine: &impl Engine, host: &guira_serving::Host) {
    while !host.is_stopping() {
        match engine.commit_ahead() {
            CommitAhead::Committed => {}
            CommitAhead::Idle => guira_sync::thread::park(),
            CommitAhead::Unsupported => return,
        }
    }
}
