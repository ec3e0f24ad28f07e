//! `guira floor`: a server without a cache, the baseline for caches.

use std::net::SocketAddr;
use std::path::PathBuf;

use guira_load::floor::{Floor, Shape};
use guira_load::tls::server_config;

use guira_cli::failure::Failure;

/// Arguments of `guira floor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address to listen on; port 0 chooses a free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Address for datagrams [default: none]
    #[arg(long, value_name = "ADDR")]
    udp: Option<SocketAddr>,
    /// Use TLS with the certificate in this PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file of the certificate's key.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Length of the keys in replies.
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    key_size: usize,
    /// Length of the values in replies.
    #[arg(long, value_name = "BYTES", default_value_t = 32)]
    value_size: usize,
}

/// Serves until it is killed.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let shape = Shape { key_len: args.key_size, value_len: args.value_size };
    let mut floor = Floor::bind(args.listen, shape).map_err(Failure::system("cannot listen"))?;
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        floor.speak_tls(server_config(certificate, key)?);
    }
    let addr = floor.local_addr().map_err(Failure::system("cannot listen"))?;
    println!("floor: listening on {addr}");
    if let Some(udp) = args.udp {
        let addr = floor.bind_udp(udp).map_err(Failure::system("cannot listen"))?;
        println!("floor: listening on udp {addr}");
    }
    floor.serve().map_err(Failure::system("the floor server failed"))
}
