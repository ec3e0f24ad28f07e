//! `debugtime` and `debugitem`: memcached's commands for its own tests.

use super::answer::{Answer, ERROR, OK};
use guira_sync::clock::CoarseClock;

/// Moves the clock of expiration.
pub(super) fn time(clock: &CoarseClock, words: &[&str]) -> Answer {
    match words {
        ["p"] => clock.pause(),
        ["r"] => clock.resume(),
        [seconds] => match seconds.parse::<i32>() {
            Ok(seconds) => clock.shift(seconds),
            Err(_) => return ERROR.into(),
        },
        _ => return ERROR.into(),
    }
    OK.into()
}

/// memcached's tests hold an item or its lock with this. Here readers hold nothing that another thread could wait for.
pub(super) fn item(words: &[&str]) -> Answer {
    match words {
        ["lock" | "unlock" | "ref" | "unref", _] => OK.into(),
        _ => ERROR.into(),
    }
}
