//! Which part of which request a reply belongs to.

/// One key of a client's request: the number of the request, and of the key in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket {
    pub(crate) call: u32,
    pub(crate) part: u32,
}
