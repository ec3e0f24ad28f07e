//! docs/reference/router-options.md, made of the rows.

use crate::fleet::router::table::{Effect, ROWS};
use std::fmt::Write as _;

const HEAD: &str = "\
# Options of `guira router`

<!-- Made by `cargo xtask docs`: change bin/guira/src/fleet/router/table.rs instead. -->

The names are mcrouter's; [replacing mcrouter](../guide/replacing-mcrouter.md) describes their use.
The column *here* is the effect of an option in this router. An option without effect is
accepted, with one note on standard error. With a refused option the router does not start, because
it cannot do what the option promises. Options of mcrouter that are not listed are unknown and
refused.
";

/// The whole document.
pub(super) fn markdown() -> String {
    let mut text = HEAD.to_owned();
    let mut section = "";
    for row in ROWS {
        if row.section != section {
            section = row.section;
            let _ = write!(
                text,
                "\n## {section}\n\n| option | what it does | default | here |\n|---|---|---|---|\n"
            );
        }
        let short = row.short.map(|short| format!("`-{short}`"));
        let long = std::iter::once(row.long).chain(row.alias).map(|name| format!("`--{name}`"));
        let names = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
        let effect = match row.effect {
            Effect::Used => "used".to_owned(),
            Effect::Nothing(why) => format!("no effect: {why}"),
            Effect::Refused(why) => format!("refused: {why}"),
        };
        let _ =
            writeln!(text, "| {names} | {} | {} | {effect} |", row.about.replace('|', "\\|"), row.default);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_is_current() {
        let document = include_str!("../../../../docs/reference/router-options.md");
        assert!(
            document == super::markdown(),
            "docs/reference/router-options.md is not current: run cargo xtask docs"
        );
    }
}
