use thiserror::Error;

/// Why servers cannot be hashed over as the configuration says.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum HashError {
    #[error("unknown hash {name}; use one of {}", known.join(", "))]
    UnknownHash { name: String, known: Vec<&'static str> },
    #[error("unknown key hash {name}; use one of {}", known.join(", "))]
    UnknownKeyHash { name: String, known: Vec<&'static str> },
    #[error("{hash} has a key hash of its own; one can be chosen for {}", choosable.join(", "))]
    KeyHashNotChoosable { hash: &'static str, choosable: Vec<&'static str> },
    #[error("no servers")]
    NoServers,
    #[error("{servers} servers are too many for this hash: at most {most}")]
    TooManyServers { servers: usize, most: usize },
    #[error("weight {weight} of server {server}: must be {allowed}")]
    Weight { server: String, weight: f64, allowed: &'static str },
    #[error(
        "server {server} has weight {weight}, but KetamaLibmemcached has no weights: use \
             KetamaLibmemcachedWeighted"
    )]
    WeightIgnored { server: String, weight: f64 },
    #[error("two servers are named {name}: by this hash, one of them would get no keys")]
    NameTwice { name: String },
    #[error("server {server} has no slot but others have: set a slot for all or none")]
    SlotMissing { server: String },
    #[error("two servers have slot {slot}")]
    SlotTwice { slot: u32 },
    #[error("slot {slot} of server {server}: {servers} servers have the slots 0 to {}", servers - 1)]
    SlotOutOfRange { server: String, slot: u32, servers: usize },
    #[error("the salt has {length} bytes: at most {most}")]
    SaltTooLong { length: usize, most: usize },
    #[error("hash tag {text:?}: use two ASCII characters around the hashed part of a key, such as {{}}")]
    HashTag { text: String },
}
