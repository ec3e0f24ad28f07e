//! `guira relay`: the proxy beside which routers are measured.

use std::net::SocketAddr;

use guira_load::relay::Relay;

use guira_cli::failure::Failure;

const EXAMPLES: &str = "Example:
  guira relay --listen 127.0.0.1:5000 --to 127.0.0.1:11211,127.0.0.1:11212";

/// Arguments of `guira relay`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address to listen at; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Servers, separated by commas. Each client has a connection of its own to one of them; they are taken in turn.
    #[arg(long, value_name = "ADDRS", value_delimiter = ',', required = true)]
    to: Vec<SocketAddr>,
}

/// Forwards until it is killed.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let relay = Relay::bind(args.listen, &args.to).map_err(Failure::system("cannot listen"))?;
    let addr = relay.local_addr().map_err(Failure::system("cannot listen"))?;
    println!("relay: listening on {addr}");
    relay.serve().map_err(Failure::system("the relay failed"))
}
