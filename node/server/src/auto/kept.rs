//! The policy across a stop or a takeover, if the options say `auto`: a line among the notes that are kept with the items.
//!
//! `policy auto NAME:key=value,…` if the server has chosen it, `policy command NAME:key=value,…` if a command has. All other notes are
//! lines of a name and a number, so that a version that does not know this line ignores it.

use crate::shared::Shared;
use guira_contract::{Control, Spec};
use guira_sync::atomic::Ordering;

const NAME: &str = "policy ";
const AUTO: &str = "auto";
const COMMAND: &str = "command";

/// Whether the options leave the policy to the server.
fn is_left_to_server(shared: &Shared) -> bool {
    shared.options.choice().is_ok_and(|choice| choice.is_auto())
}

/// Writes the policy, or the one that is taking over; nothing if the options name a policy.
pub(crate) fn write(shared: &Shared, control: &impl Control) -> Vec<u8> {
    if !is_left_to_server(shared) {
        return Vec::new();
    }
    let (policy, next) = control.policy();
    let by = if shared.policy_is_left_to_server.load(Ordering::Relaxed) { AUTO } else { COMMAND };
    format!("{NAME}{by} {}\n", next.unwrap_or(policy)).into_bytes()
}

/// Restores the policy that was written, if the options still say `auto`. To be called before the workers start.
pub(crate) fn read(written: &[u8], shared: &Shared, control: &impl Control) {
    let text = String::from_utf8_lossy(written);
    let Some((by, policy)) = text.lines().find_map(kept).filter(|_| is_left_to_server(shared)) else {
        return;
    };
    // A server that resumes after a failed takeover has it already.
    let (now, next) = control.policy();
    if next.unwrap_or(now) != policy
        && let Err(error) = control.change_policy(&policy)
    {
        // Another version may have other policies.
        tracing::info!(%policy, %error, "cannot restore the previous replacement policy");
        return;
    }
    if by == COMMAND {
        shared.policy_is_left_to_server.store(false, Ordering::Relaxed);
    }
}

/// A line about the policy: `auto` or `command`, and the policy.
fn kept(line: &str) -> Option<(&str, Spec)> {
    let (by, policy) = line.strip_prefix(NAME)?.split_once(' ')?;
    let is_known = [AUTO, COMMAND].contains(&by);
    Some((by, Spec::parse(policy).ok()?)).filter(|_| is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_policy_or_something_else() {
        let policy = |line| kept(line).map(|(by, policy)| format!("{by} {policy}"));
        for line in ["policy auto s3-fifo", "policy command klru:samples=8,priority=recency"] {
            assert_eq!(policy(line).as_deref(), line.strip_prefix(NAME));
        }
        for other in
            ["policy 7", "policy auto", "policy somehow lru", "policies auto lru", "policy auto lru:x", ""]
        {
            assert_eq!(policy(other), None, "{other}");
        }
    }
}
