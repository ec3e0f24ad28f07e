//! The policy and the advisor's conclusions across a stop or a takeover: lines among the notes that are kept with the items.
//!
//! `policy auto NAME:key=value,…` if the server has chosen it, `policy command NAME:key=value,…` if a command has. All other notes are
//! lines of a name and a number, so that a version that does not know this line ignores it. The lines of [`Conclusions`] follow.

use super::{Owner, PolicyOwner};
use guira_advice::{Advisor, Conclusions};
use guira_contract::{Control, Spec};

const NAME: &str = "policy ";
const AUTO: &str = "auto";
const COMMAND: &str = "command";

/// Writes the policy, or the one that is taking over; nothing if the options name a policy.
pub(crate) fn write(owner: &PolicyOwner, control: &impl Control) -> Vec<u8> {
    if owner.configured() != Owner::Server {
        return Vec::new();
    }
    let (policy, next) = control.policy();
    let by = match owner.now() {
        Owner::Server => AUTO,
        Owner::Operator => COMMAND,
    };
    format!("{NAME}{by} {}\n", next.unwrap_or(policy)).into_bytes()
}

/// Restores the policy that was written, if the options still say `auto`. To be called before the workers start.
pub(crate) fn read(written: &[u8], owner: &PolicyOwner, control: &impl Control) {
    let text = String::from_utf8_lossy(written);
    if owner.configured() != Owner::Server {
        return;
    }
    let Some((by, policy)) = text.lines().find_map(kept) else { return };
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
        owner.replace(Owner::Operator);
    }
}

/// Writes the conclusions of the advisor.
pub(crate) fn write_learnt(advisor: Option<&Advisor>) -> Vec<u8> {
    advisor.map_or_else(Vec::new, |advisor| advisor.conclusions().to_string().into_bytes())
}

/// Passes the advisor the conclusions that were written. To be called before the workers start.
pub(crate) fn read_learnt(written: &[u8], advisor: Option<&Advisor>) {
    if let Some(advisor) = advisor {
        advisor.restore(Conclusions::read(&String::from_utf8_lossy(written)));
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
