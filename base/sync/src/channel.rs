//! Channels between threads: std's, or under `--cfg guira_simulated` those of guira_world. No other crate of base,
//! engines, node and fleet names either.

#[cfg(guira_simulated)]
pub use guira_world::channel::{
    Receiver, RecvTimeoutError, SendError, Sender, SyncSender, TryRecvError, TrySendError, channel,
    sync_channel,
};
#[cfg(not(guira_simulated))]
pub use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SendError, Sender, SyncSender, TryRecvError, TrySendError, channel,
    sync_channel,
};
