//! The network interface from which datagrams bypass the kernel's network stack, written as
//! `NAME[:key=value,…]`.

use guira_contract::{OptionError, Spec};
use guira_transport::{XdpAttach, XdpChecksums, XdpServerOptions};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An interface, and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    name: String,
    attach: XdpAttach,
}

/// The values of `mode`, the default first.
const MODES: [(&str, XdpAttach); 3] =
    [("auto", XdpAttach::NativeFirst), ("native", XdpAttach::NativeOnly), ("generic", XdpAttach::Generic)];

impl FromStr for Interface {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let spec = Spec::parse(text)?;
        spec.allow(&["mode"])?;
        let mode = spec.value("mode").unwrap_or(MODES[0].0);
        let found = MODES.iter().find(|(name, _)| *name == mode);
        let (_, attach) = *found.ok_or_else(|| spec.not("mode", mode, "auto, native or generic"))?;
        Ok(Interface { attach, name: spec.name })
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = MODES.iter().find(|(_, attach)| *attach == self.attach).map_or("", |(name, _)| name);
        write!(formatter, "{}:mode={mode}", self.name)
    }
}

impl Interface {
    /// The options of the path, for workers of which the first has this port at these addresses.
    pub(crate) fn options(
        &self,
        addresses: Vec<IpAddr>,
        first_port: u16,
        workers: usize,
    ) -> XdpServerOptions {
        XdpServerOptions {
            interface: self.name.clone(),
            addresses,
            first_port,
            cores: workers,
            attach: self.attach,
            checksums: XdpChecksums::Trust,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_read_as_it_is_written() {
        let usual: Interface = "eth0".parse().unwrap();
        assert_eq!(usual.to_string(), "eth0:mode=auto");
        let text = "ens5:mode=generic";
        assert_eq!(text.parse::<Interface>().unwrap().to_string(), text);
        for wrong in ["eth0:mode=fast", "eth0:copy=zero", "eth0:speed=10", "eth0:mode"] {
            assert!(wrong.parse::<Interface>().is_err(), "{wrong}");
        }
    }
}
