//! `lru_crawler`: tunes the crawler, and lists all items.

use super::answer::{Answer, BAD_CLASS, BAD_FORMAT, ERROR, OK, unsigned};
use crate::background::{BackgroundTask, ClassFilter, Listing};
use guira_contract::{Control, Switch, Tuning};
use guira_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

/// The longest sleep of the crawler that clients may set, in microseconds.
const SLEEP_MAX: u32 = 1_000_000;

/// The values that clients have set are Relaxed: they are only shown.
#[derive(Debug)]
pub(in crate::admin) struct Crawler {
    control: Arc<dyn Control>,
    /// Whether clients may list items.
    dumping: Switch,
    enabled: AtomicBool,
    sleep: AtomicU32,
    tocrawl: AtomicU32,
}

impl Crawler {
    pub(super) fn new(control: Arc<dyn Control>, dumping: Switch) -> Self {
        Crawler {
            control,
            dumping,
            enabled: AtomicBool::new(true),
            sleep: AtomicU32::new(100),
            tocrawl: AtomicU32::new(0),
        }
    }

    pub(in crate::admin) fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    /// In microseconds.
    pub(in crate::admin) fn sleep(&self) -> u32 {
        self.sleep.load(Ordering::Relaxed)
    }

    pub(in crate::admin) fn tocrawl(&self) -> u32 {
        self.tocrawl.load(Ordering::Relaxed)
    }

    pub(super) fn run(&self, words: &[&str]) -> Answer {
        let crawls = self.is_enabled();
        let disabled = || Answer::from("CLIENT_ERROR lru crawler disabled");
        let list = |name, classes, listing: fn(ClassFilter) -> Listing| {
            let classes = ClassFilter::parse(classes).ok_or(BAD_CLASS);
            Answer::Alone(name, classes.map(|classes| BackgroundTask::List(listing(classes))))
        };
        match words {
            ["enable"] => self.switch(Switch::On),
            ["disable"] => self.switch(Switch::Off),
            ["crawl" | "metadump" | "mgdump", _] if !crawls => disabled(),
            ["metadump", _] if self.dumping == Switch::Off => "ERROR metadump not allowed".into(),
            ["mgdump", _] if self.dumping == Switch::Off => "ERROR key dump not allowed".into(),
            ["crawl", classes] => match ClassFilter::parse(classes) {
                Some(_) => {
                    self.control.tune(Tuning::CrawlNow);
                    OK.into()
                }
                None => BAD_CLASS.into(),
            },
            ["metadump", classes] => list("metadump", classes, Listing::Meta),
            ["mgdump", classes] => list("mgdump", classes, Listing::MetaGet),
            ["tocrawl", number] => match unsigned(number) {
                Some(number) => {
                    self.tocrawl.store(number, Ordering::Relaxed);
                    OK.into()
                }
                None => BAD_FORMAT.into(),
            },
            ["sleep", micros] => match unsigned(micros) {
                Some(micros @ 0..=SLEEP_MAX) => {
                    self.sleep.store(micros, Ordering::Relaxed);
                    OK.into()
                }
                Some(_) => "CLIENT_ERROR sleep must be one second or less".into(),
                None => BAD_FORMAT.into(),
            },
            _ => ERROR.into(),
        }
    }

    fn switch(&self, switch: Switch) -> Answer {
        self.enabled.store(switch == Switch::On, Ordering::Relaxed);
        self.control.tune(Tuning::Crawler(switch));
        OK.into()
    }
}
