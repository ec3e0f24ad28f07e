//! `slabs`: moves pages between slab classes.

use super::answer::{Answer, BAD_FORMAT, ERROR, OK, signed, unsigned};
use guira_contract::{Control, Reassign, Switch, Tuning};
use guira_sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

#[derive(Debug)]
pub(in crate::admin) struct Slabs {
    control: Arc<dyn Control>,
    /// The level that clients have set. Relaxed: it is only shown.
    automove: AtomicU32,
}

impl Slabs {
    pub(super) fn new(control: Arc<dyn Control>) -> Self {
        Slabs { control, automove: AtomicU32::new(1) }
    }

    pub(in crate::admin) fn automove(&self) -> u32 {
        self.automove.load(Ordering::Relaxed)
    }

    pub(super) fn run(&self, words: &[&str]) -> Answer {
        match words {
            ["reassign", from, to] => match (signed(from), signed(to)) {
                (Some(from), Some(to)) => self.reassign(from, to),
                _ => BAD_FORMAT.into(),
            },
            ["automove", "ratio" | "freeratio", ratio] if ratio.parse::<f64>().is_ok() => OK.into(),
            ["automove", "ratio" | "freeratio", ..] => ERROR.into(),
            ["automove", "window", window] => match unsigned(window) {
                Some(3..=1800) => OK.into(),
                Some(_) => "CLIENT_ERROR automove window too low or too high".into(),
                None => BAD_FORMAT.into(),
            },
            ["automove", "window"] => BAD_FORMAT.into(),
            ["automove", level, ..] => match unsigned(level) {
                Some(level @ 0..=2) => {
                    self.automove.store(level, Ordering::Relaxed);
                    self.control.tune(Tuning::Automove(if level > 0 { Switch::On } else { Switch::Off }));
                    OK.into()
                }
                Some(_) => ERROR.into(),
                None => BAD_FORMAT.into(),
            },
            _ => ERROR.into(),
        }
    }

    /// Moves a page from one class to another; class 0 is the pool, and from -1 is from any.
    fn reassign(&self, from: i32, to: i32) -> Answer {
        if from == to {
            return "SAME src and dst class are identical".into();
        }
        const NO_SPARE: &str = "NOSPARE source class has no spare pages";
        let class = |number: i32| u32::try_from(number).ok();
        let Some(to) = class(to) else {
            return "BADCLASS invalid src or dst class id".into();
        };
        // Every class takes pages out of the pool by itself, as long as there are any.
        if from == 0 {
            return NO_SPARE.into();
        }
        match self.control.reassign(class(from), to) {
            Reassign::Begun => OK.into(),
            Reassign::Busy => "BUSY currently processing reassign request".into(),
            Reassign::NoClass => "BADCLASS invalid src or dst class id".into(),
            Reassign::NothingToSpare => NO_SPARE.into(),
        }
    }
}
