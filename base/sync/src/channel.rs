//! Channels between threads: std's. No other crate of base, engines, node and fleet names std's, so that a simulator can
//! exchange them.

pub use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SendError, Sender, SyncSender, TryRecvError, TrySendError, channel,
    sync_channel,
};
