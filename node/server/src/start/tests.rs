//! How a region is closed.

use super::{Ending, Running, start_after};
use crate::errors::StopError;
use crate::options::Options;
use crate::secrets::Secrets;
use guira_contract::Opening;
use guira_roster::RegionPlace;
use guira_transport::Address;
use std::io;
use std::net::SocketAddr;

/// A server with a region, on a port that the system chooses.
fn serve(region: &RegionPlace) -> Running {
    let mut options = Options { workers: 2, memory: crate::Size(32 << 20), ..Options::default() };
    options.listen[0].address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    options.region = Some(region.clone());
    let secrets = Secrets { users: None, tls: None, token: None };
    start_after(crate::open_default, &options, secrets, Vec::new(), None).unwrap()
}

#[test]
fn a_region_is_closed_in_order_though_a_worker_has_failed_but_not_if_one_has_panicked() {
    let path = std::env::temp_dir().join(format!("guira-node-region-{}", std::process::id()));
    let region = RegionPlace::at(&path);
    let mut running = serve(&region);
    assert_eq!(running.region().unwrap().1, &Opening::New);
    running.crew.spawn("failing".to_owned(), || Err(io::Error::other("listener failed; disabled"))).unwrap();
    assert!(matches!(running.stop(Ending::Kept), Err(StopError::Worker(_))));
    let mut running = serve(&region);
    assert_eq!(running.region().unwrap().1, &Opening::Restored { items: 0 });
    running.crew.spawn("panicking".to_owned(), || panic!("on purpose")).unwrap();
    assert!(matches!(running.stop(Ending::Kept), Err(StopError::Panicked)));
    let running = serve(&region);
    assert!(matches!(running.region().unwrap().1, Opening::Emptied(_)));
    running.stop(Ending::Kept).unwrap();
    guira_disk::remove_file(&path).unwrap();
}
