//! Channels between threads: std's, or under `--cfg guira_simulated` those of guira_world. No other crate of base,
//! engines, node and fleet names either.

#[cfg(guira_simulated)]
use guira_world::channel as channels;
#[cfg(not(guira_simulated))]
use std::sync::mpsc as channels;

pub use channels::{
    Receiver, RecvTimeoutError, SendError, Sender, SyncSender, TryRecvError, TrySendError, channel,
    sync_channel,
};
