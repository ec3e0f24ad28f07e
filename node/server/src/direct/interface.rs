//! Which interface datagrams are taken from past the kernel's network stack, as it is written: `NAME[:key=value,…]`.

use guira_contract::{OptionError, Spec};
use guira_transport::{XdpAttach, XdpChecksums, XdpCopying, XdpServerOptions, XdpSteering};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An interface, and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    name: String,
    attach: XdpAttach,
    copying: XdpCopying,
    steering: XdpSteering,
}

/// The values of an option, with the usual one first.
const MODES: [(&str, XdpAttach); 3] =
    [("auto", XdpAttach::NativeFirst), ("native", XdpAttach::NativeOnly), ("generic", XdpAttach::Generic)];
const COPIES: [(&str, XdpCopying); 2] = [("copy", XdpCopying::Copy), ("zero", XdpCopying::ZeroCopyFirst)];
const STEERINGS: [(&str, XdpSteering); 2] =
    [("every-queue", XdpSteering::EveryQueue), ("rules", XdpSteering::Rules)];

fn value<T: Copy>(
    spec: &Spec,
    key: &str,
    values: &[(&str, T)],
    expected: &'static str,
) -> Result<T, OptionError> {
    match spec.value(key) {
        None => Ok(values[0].1),
        Some(text) => {
            let found = values.iter().find(|(name, _)| *name == text);
            found.map(|(_, value)| *value).ok_or_else(|| spec.not(key, text, expected))
        }
    }
}

impl FromStr for Interface {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let spec = Spec::parse(text)?;
        spec.allow(&["mode", "copy", "steering"])?;
        Ok(Interface {
            attach: value(&spec, "mode", &MODES, "auto, native or generic")?,
            copying: value(&spec, "copy", &COPIES, "copy or zero")?,
            steering: value(&spec, "steering", &STEERINGS, "every-queue or rules")?,
            name: spec.name,
        })
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn name<T: PartialEq>(values: &[(&'static str, T)], value: &T) -> &'static str {
            values.iter().find(|(_, it)| it == value).map_or("", |(name, _)| name)
        }
        let mode = name(&MODES, &self.attach);
        let copy = name(&COPIES, &self.copying);
        let steering = name(&STEERINGS, &self.steering);
        write!(formatter, "{}:mode={mode},copy={copy},steering={steering}", self.name)
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
            copying: self.copying,
            steering: self.steering,
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
        assert_eq!(usual.to_string(), "eth0:mode=auto,copy=copy,steering=every-queue");
        let text = "ens5:mode=generic,copy=zero,steering=rules";
        assert_eq!(text.parse::<Interface>().unwrap().to_string(), text);
        for wrong in ["eth0:mode=fast", "eth0:copy=no", "eth0:steering=me", "eth0:speed=10", "eth0:mode"] {
            assert!(wrong.parse::<Interface>().is_err(), "{wrong}");
        }
    }
}
