//! `guira floor`: the no-cache server beside which caches are measured.

use std::net::SocketAddr;
use std::path::PathBuf;

use guira_load::floor::{Floor, Shape};
use guira_load::tls::server_config;

use guira_cli::failure::Failure;

/// Arguments of `guira floor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address to listen at; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Address for datagrams; none when left out.
    #[arg(long, value_name = "ADDR")]
    udp: Option<SocketAddr>,
    /// Speak TLS, and show the certificate in this PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key, in a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Length of the keys that it pretends to have found.
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    key_size: usize,
    /// Length of the values that it answers with.
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
