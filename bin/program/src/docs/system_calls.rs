//! docs/reference/system-calls.md, made of the table of calls.

use guira_sandbox::CallGroup;
use std::fmt::Write as _;

const HEAD: &str = "\
# System calls

<!-- Made by `cargo xtask docs`: change base/sandbox/src/calls.rs instead. -->

With `system-calls = listed` (`guira memcached -o drop_privileges`) a server, router or invalidator
makes only the first of these calls once it serves; [security](../guide/security.md#system-calls)
describes the effect. In parentheses are the arguments with which a call is allowed or refused.
";

const LISTED: &str = "
## Allowed

| purpose | calls |
|---|---|
";

const FORBIDDEN: &str = "
## Refused with EPERM

A call of the first table with other arguments is refused with EPERM too. All calls in neither table
are refused with ENOSYS, as by an older kernel.

| purpose | calls |
|---|---|
";

pub(super) fn markdown() -> String {
    let mut text = HEAD.to_owned();
    for (head, groups) in [(LISTED, guira_sandbox::listed()), (FORBIDDEN, guira_sandbox::forbidden())] {
        text += head;
        for CallGroup { reason, calls } in groups {
            let _ = writeln!(text, "| {reason} | {} |", calls.join(", "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_is_current() {
        let document = include_str!("../../../../docs/reference/system-calls.md");
        assert!(
            document == super::markdown(),
            "docs/reference/system-calls.md is not current: run cargo xtask docs"
        );
    }
}
