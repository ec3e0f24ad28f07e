//! docs/reference/options.md, made of the rows.

use crate::node::memcached;
use crate::node::options::line;
use guira_server::OPTIONS;
use std::fmt::Write as _;

const HEAD: &str = "\
# Options of `guira serve`

<!-- Made by `cargo xtask docs`: change node/server/src/options/rows.rs instead. -->

An option has the same name on the command line (`--max-item-size 2MiB`) and in the file of
`--config` (`max-item-size = \"2MiB\"`). The command line takes precedence. A switch needs no value on
the command line. Sizes end with K, M, G, T or KiB, MiB, …. `--print-config` prints the options in
effect. An engine refuses options that it does not support. The column *memcached* lists the flags
of `guira memcached` that set the option ([replacing memcached](../guide/replacing-memcached.md));
the column *settings* lists its lines in `stats settings`.
";

pub(super) fn markdown() -> String {
    let mut text = HEAD.to_owned();
    let mut section = "";
    for row in OPTIONS {
        if row.section != section {
            section = row.section;
            let _ = write!(
                text,
                "\n## {section}\n\n| in a file | what it does | default | memcached | settings |\n|---|---|---|---|---|\n"
            );
        }
        let example = line(row, &[row.example()]);
        let names =
            |names: Vec<String>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let settings = names(row.settings().map(str::to_owned).collect());
        let flags = names(memcached::flags_of(row.name));
        let cells = [format!("`{example}`"), row.help(), row.default_text(), flags, settings];
        let _ = writeln!(
            text,
            "| {} |",
            cells.map(|cell| cell.replace('|', "\\|").replace('\n', "<br>")).join(" | ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_is_current() {
        let document = include_str!("../../../../docs/reference/options.md");
        assert!(
            document == super::markdown(),
            "docs/reference/options.md is not current: run cargo xtask docs"
        );
    }
}
