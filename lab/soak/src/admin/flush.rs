//! `flush_all`, with and without delay. Records the removed items in the histories.

use std::io;
use std::time::Duration;

use guira_workload::Rng;

use super::wire;
use crate::client::Wire;
use crate::field::Field;
use crate::history::{History, SLACK_MS};
use crate::link::Carrier;

/// Flushes until the run ends.
pub(crate) fn run(field: &Field, history: &History, mut random: Rng, between: Duration) {
    let mut counters = field.counters();
    while field.goes_on() {
        field.pause(between.mul_f64(0.5 + random.unit()));
        let Some(mut wire) = wire(field, Carrier::random(&mut random)) else { continue };
        let delay = if random.below(2) == 0 { 0 } else { 1 + random.below(3) };
        let request = if delay == 0 { "flush_all\r\n".to_owned() } else { format!("flush_all {delay}\r\n") };
        let before = history.snapshot();
        if wire.send(request.as_bytes()).is_err() {
            continue;
        }
        match wire.line() {
            Ok(line) if line == "OK" => {}
            Ok(line) if line.starts_with("ERROR Too many open") => continue,
            Ok(line) => {
                field.fail(format!("{line:?} to flush_all"));
                return;
            }
            // The flush may have happened or not, so no item is known to be gone.
            Err(_) => continue,
        }
        field.remember(format!("flush_all {delay}"));
        drop(wire);
        if delay > 0 {
            field.pause(Duration::from_millis(delay * 1000 + SLACK_MS));
            if !field.goes_on() {
                return;
            }
        }
        history.forget(&before);
        counters.one(if delay == 0 { "flush_all" } else { "flush_all with delay" });
    }
}

/// Flushes at once.
pub(crate) fn once(field: &Field) -> io::Result<()> {
    let mut wire = Wire::new(field.addresses.open(Carrier::Unix)?);
    wire.send(b"flush_all\r\n")?;
    let line = wire.line()?;
    if line == "OK" { Ok(()) } else { Err(io::Error::other(line)) }
}
