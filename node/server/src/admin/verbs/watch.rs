//! `watch`: sends a log of events to the client.

use super::answer::{Answer, ERROR};
use crate::background::BackgroundTask;
use crate::watch::LogKinds;
use guira_contract::Switch;

pub(super) fn run(enabled: Switch, words: &[&str]) -> Answer {
    if enabled == Switch::Off {
        return "CLIENT_ERROR watch commands not allowed".into();
    }
    Answer::Alone("watch", LogKinds::parse(words).map(BackgroundTask::Watch).ok_or(ERROR))
}
