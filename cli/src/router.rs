//! `guira router`: a router in mcrouter's place.

use crate::failure::Failure;
use guira_router::RouterOptions;
use guira_transport::Address;
use std::path::PathBuf;

/// Forward requests to the servers that a configuration of mcrouter names.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    config: PathBuf,
    #[arg(long)]
    listen: Vec<String>,
    #[arg(long, default_value_t = 1)]
    workers: usize,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let text = std::fs::read_to_string(&args.config).map_err(Failure::system("cannot read"))?;
    let listen: Vec<Address> = args.listen.iter().map(|text| text.parse().unwrap()).collect();
    let settings = guira_routing::Settings {
        default_route: "/././".into(),
        unknown_prefix: guira_routing::Unknown::Refused,
        timeouts: guira_routing::Timeouts { server: std::time::Duration::from_secs(1), within_cluster: None, cross_cluster: None, cross_region: None },
    };
    let options = RouterOptions { listen, workers: args.workers, settings, health: guira_router::HealthOptions::default() };
    let running = guira_router::start(&options, &guira_router::json(&text)).unwrap();
    println!("router: listening on {}", running.addresses()[0]);
    loop {
        std::thread::park();
    }
}
