//! A router in front of nodes, from outside.

mod differential;
