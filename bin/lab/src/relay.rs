//! `guira relay`: a proxy without parsing, the baseline for routers.

use std::net::SocketAddr;

use guira_load::relay::Relay;

use guira_cli::failure::Failure;

const EXAMPLES: &str = "Example:
  guira relay --listen 127.0.0.1:5000 --to 127.0.0.1:11211,127.0.0.1:11212";

/// Arguments of `guira relay`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address to listen on; port 0 chooses a free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Servers, separated by commas. Each client connection is forwarded to one of them, in turn.
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
