//! docs/reference/router-options.md, made of the rows.

use crate::fleet::router::table::{Effect, Kind, Manner, ROWS, Row};
use std::fmt::Write as _;

const HEAD: &str = "\
# Options of `guira router`

<!-- Made by `cargo xtask docs`: change bin/program/src/fleet/router/table.rs instead. -->

The names are mcrouter's; [replacing mcrouter](../guide/replacing-mcrouter.md) describes their use.
The column *here* is the effect of an option in this router. An option without effect is
accepted, with one note on standard error. With a refused option the router does not start, because
it cannot do what the option promises.

All options of mcrouter are listed. `guira mcrouter`, or a link called `mcrouter`, has some defaults
of mcrouter, which the column *default* shows, and notes an unknown option as `Unrecognized option`,
as mcrouter does; `guira router` refuses it.

A switch is on with the option alone, `=1` or `=true`, and off with `=0` or `=false`. An argument
without a dash is a *flavor*: a JSON file with options by mcrouter's names of fields, as
`{\"options\": {\"server_timeout_ms\": 500}}`. The members `libmcrouter_options` and
`standalone_options`, and a second file `FLAVOR-standalone.json`, are read too. The command line
takes precedence. The file's name is the router's name.
";

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
        let long = row.names().map(|name| format!("`--{name}`"));
        let names = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
        let effect = match row.effect {
            Effect::Used => "used".to_owned(),
            Effect::Nothing(why) => format!("no effect: {why}"),
            Effect::Refused(why) => format!("refused: {why}"),
        };
        let _ =
            writeln!(text, "| {names} | {} | {} | {effect} |", row.about.replace('|', "\\|"), default(row));
    }
    text
}

fn default(row: &Row) -> String {
    let shown = |text: &str| match (row.kind, text) {
        (Kind::Switch, "0") => "off".to_owned(),
        (Kind::Switch, _) => "on".to_owned(),
        (_, text) => text.to_owned(),
    };
    match row.default_of(Manner::Mcrouter) {
        same if same == row.default => shown(same),
        "" => shown(row.default),
        own => {
            format!("{}; mcrouter: {}", shown(row.default), shown(own)).trim_start_matches("; ").to_owned()
        }
    }
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
