//! Where an admin listener is.

use guira_serving::{Listen, ListenTraits};
use guira_transport::Address;
use std::net::Ipv4Addr;

/// Reads where an admin listener is: a listener without a protocol or a tag, on this host where no address is named.
///
/// # Errors
/// What is wrong with the text, without naming the option.
pub fn place(text: &str) -> Result<Listen, String> {
    let (traits, place) = ListenTraits::parse(text).map_err(|error| error.to_string())?;
    if traits.speaks.is_some() || traits.tag.is_some() {
        return Err(format!("must have no proto[…]: or tag[…]:, not {text}"));
    }
    let port = place.strip_prefix(':').unwrap_or(place).parse::<u16>();
    let address = match port {
        Ok(port) => Address::Tcp((Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => place
            .parse()
            .map_err(|_| format!("must be IP:PORT, [v6]:PORT, PORT or unix:PATH, not {place}"))?,
    };
    Ok(Listen { traits, address, optional: false })
}
