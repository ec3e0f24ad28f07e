//! Rules of a card from ports to queues. **Not tested**: no virtual interface has such rules. They follow the kernel's documentation and
//! have never been run.

use super::ethtool::Card;
use super::netlink::Mac;
use super::program::Filter;
use super::{XdpError, XdpSteering};
use rustix::io::Errno;

/// Makes the card put the datagrams to each port into a queue of their own, if `steering` says so and there are several queues.
pub(super) fn rules(
    interface: &str,
    steering: XdpSteering,
    filter: &Filter,
) -> Result<Option<Rules>, XdpError> {
    if steering == XdpSteering::EveryQueue || filter.queues == 1 {
        return Ok(None);
    }
    let fail = |errno: Errno| XdpError::NoSteering { interface: interface.to_owned(), source: errno.into() };
    let mut rules = Rules::new(interface).map_err(fail)?;
    for (port, queue) in (0..filter.ports).map(|port| (port, port % filter.queues)) {
        rules.steer(filter.first_port + port as u16, queue).map_err(fail)?;
    }
    Ok(Some(rules))
}

const GET_RULE_COUNT: u32 = 0x2e;
const GET_RULES: u32 = 0x30;
const DELETE_RULE: u32 = 0x31;
const INSERT_RULE: u32 = 0x32;
const UDP_V4: u32 = 0x02;
const UDP_V6: u32 = 0x06;
/// The card chooses a rule's place itself, if it says that it can.
const ANY_PLACE: u32 = u32::MAX;
const CHOOSES_PLACES: u64 = 1 << 31;
/// A card with more rules than this gets none of ours.
const MOST_RULES: usize = 8192;

/// Fields of a packet's headers, or which of their bits count (`union ethtool_flow_union` with `struct ethtool_flow_ext`).
#[derive(Clone, Copy)]
#[repr(C)]
struct Fields {
    header: [u8; 52],
    extension_padding: [u8; 2],
    extension_mac: Mac,
    extension: [u8; 12],
}

const NO_FIELDS: Fields =
    Fields { header: [0; 52], extension_padding: [0; 2], extension_mac: [0; 6], extension: [0; 12] };

/// `struct ethtool_rxnfc`, without the list of places at its end.
#[repr(C)]
struct Classification {
    command: u32,
    flow_type: u32,
    data: u64,
    rule_type: u32,
    fields: Fields,
    mask: Fields,
    queue: u64,
    place: u32,
    padding: u32,
    count: u32,
    first_place: u32,
}

impl Classification {
    const fn new(command: u32) -> Self {
        Classification {
            command,
            flow_type: 0,
            data: 0,
            rule_type: 0,
            fields: NO_FIELDS,
            mask: NO_FIELDS,
            queue: 0,
            place: 0,
            padding: 0,
            count: 0,
            first_place: 0,
        }
    }
}

impl Card {
    fn classification(&self, request: &mut Classification) -> Result<(), Errno> {
        // SAFETY: a classification, with room for one place behind it and `count` not more than that.
        unsafe { self.ask(request) }
    }

    /// A place where no rule is. The last one: rules of a person, which come first, go on to count.
    fn free_place(&self) -> Result<u32, Errno> {
        let mut request = Classification::new(GET_RULE_COUNT);
        self.classification(&mut request)?;
        if request.data & CHOOSES_PLACES != 0 {
            return Ok(ANY_PLACE);
        }
        #[repr(C)]
        struct Rules {
            request: Classification,
            more_places: [u32; MOST_RULES],
        }
        if request.count as usize > MOST_RULES {
            return Err(Errno::NOSPC);
        }
        let mut rules = Rules { request: Classification::new(GET_RULES), more_places: [0; MOST_RULES] };
        rules.request.count = request.count;
        // SAFETY: a classification with room for at least as many places as it says.
        unsafe { self.ask(&mut rules) }?;
        let count = rules.request.count as usize;
        let places = std::iter::once(&rules.request.first_place).chain(&rules.more_places);
        let used: Vec<u32> = places.take(count).copied().collect();
        let size = u32::try_from(rules.request.data).unwrap_or(0);
        (0..size).rev().find(|place| !used.contains(place)).ok_or(Errno::NOSPC)
    }
}

/// Rules of a card by which ports have queues of their own. They are removed when this is dropped; of a process that is killed they stay
/// behind, until `ethtool -N` deletes them.
#[derive(Debug)]
pub(super) struct Rules {
    card: Card,
    places: Vec<u32>,
}

impl Rules {
    /// None yet.
    pub(super) fn new(interface: &str) -> Result<Self, Errno> {
        Ok(Rules { card: Card::new(interface)?, places: Vec::new() })
    }

    /// Has datagrams to a port, of IPv4 and of IPv6, go to a queue.
    pub(super) fn steer(&mut self, port: u16, queue: u32) -> Result<(), Errno> {
        // Where the destination port is in `struct ethtool_tcpip4_spec` and `struct ethtool_tcpip6_spec`.
        for (rule_type, at) in [(UDP_V4, 10), (UDP_V6, 34)] {
            let mut rule = Classification::new(INSERT_RULE);
            rule.rule_type = rule_type;
            rule.fields.header[at..at + 2].copy_from_slice(&port.to_be_bytes());
            rule.mask.header[at..at + 2].fill(0xff);
            rule.queue = u64::from(queue);
            rule.place = self.card.free_place()?;
            self.card.classification(&mut rule)?;
            self.places.push(rule.place);
        }
        Ok(())
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        for place in &self.places {
            let mut rule = Classification::new(DELETE_RULE);
            rule.place = *place;
            // Another process may have deleted it, which is as good.
            let _ = self.card.classification(&mut rule);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn structures_are_laid_out_as_the_kernel_has_them() {
        assert_eq!((size_of::<Fields>(), size_of::<Classification>()), (72, 192));
        assert_eq!(offset_of!(Classification, rule_type), 16);
        assert_eq!(offset_of!(Classification, queue), 16 + 152);
        assert_eq!(offset_of!(Classification, first_place), 188);
    }
}
