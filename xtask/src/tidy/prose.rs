//! Documents: prose has lines that fit a screen, and the names of code in it exist.

use std::collections::HashSet;

use super::source::{Source, is_word};
use super::{Finding, Text};

/// The longest line of prose, in columns, without the code in it.
const COLUMNS: usize = 200;

/// Folders of documents that say how something was: the names in them may be gone.
const HISTORY: &[&str] = &["docs/results/bench/", "docs/develop/decisions/", "CHANGELOG.md"];

/// Names of other projects and words of protocols.
const FOREIGN: &[&str] = &["GmR1"];

pub(crate) fn check(texts: &[Text], sources: &[Source]) -> Vec<Finding> {
    let mut names = words(sources);
    let python = texts.iter().filter(|text| [".py", ".pyi"].iter().any(|end| text.path.ends_with(end)));
    names.extend(python.flat_map(|text| text.content.split(|byte: char| !is_name(byte))));
    let documents = texts.iter().filter(|text| text.path.ends_with(".md"));
    documents.flat_map(|document| check_document(document, &names)).collect()
}

fn words(sources: &[Source]) -> HashSet<&str> {
    sources.iter().flat_map(|source| source.code.split(|byte: char| !is_name(byte))).collect()
}

fn is_name(character: char) -> bool {
    u8::try_from(character).is_ok_and(is_word)
}

fn check_document(document: &Text, names: &HashSet<&str>) -> Vec<Finding> {
    let is_history = HISTORY.iter().any(|folder| document.path.starts_with(folder));
    let (mut findings, mut in_block) = (Vec::new(), false);
    for (index, line) in document.content.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            if columns(line) > COLUMNS {
                let what = format!("a line of prose has more than {COLUMNS} columns");
                findings.push(Finding::new(&document.path, index + 1, what, "wrap it at about 120"));
            }
            let quoted = line.split('`').skip(1).step_by(2).filter(|_| !is_history);
            for name in quoted.flat_map(parts).filter(|name| !names.contains(name)) {
                let what = format!("no code is called {name}");
                findings.push(Finding::new(&document.path, index + 1, what, "name what exists"));
            }
        }
    }
    findings
}

/// How wide a line is without what stands between backticks; a row of a table is none.
fn columns(line: &str) -> usize {
    if line.trim_start().starts_with('|') {
        return 0;
    }
    line.split('`').step_by(2).map(|prose| prose.chars().count()).sum()
}

/// The names in a quoted text that looks like code: `Type::method`, `module::function`, `Type`.
fn parts(quoted: &str) -> impl Iterator<Item = &str> {
    let path = quoted.split(['(', '<', '{', '!']).next().unwrap_or_default();
    let is_path =
        path.contains("::") && path.split("::").all(|part| !part.is_empty() && part.chars().all(is_name));
    let is_type = path == quoted
        && path.starts_with(|first: char| first.is_ascii_uppercase())
        && path.contains(|letter: char| letter.is_ascii_lowercase())
        && path.chars().all(|letter| letter.is_ascii_alphanumeric());
    let found = if is_path || is_type { path } else { "" };
    found.split("::").filter(|part| !part.is_empty() && !FOREIGN.contains(part))
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Source, Text, check};

    fn findings(path: &str, line: &str) -> Vec<String> {
        let source = Source::new("a/src/lib.rs", "/// Gone.\npub struct Kept;\nimpl Kept { fn hold() {} }");
        let document = Text { path: path.into(), content: line.into() };
        check(&[document], &[source]).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn names_of_code_exist() {
        for line in [
            "`Kept`, `Kept::hold`, `Kept::hold(4)`, `Kept<u8>::x`",
            "`gone`, `VALUE <key>`, `Two Words`, Gone, `GONE`, `a-B`, `GmR1`",
            "```\n`Gone`\n```",
        ] {
            assert_eq!(findings("docs/a.md", line), Vec::<String>::new(), "{line}");
        }
        assert_eq!(findings("docs/a.md", "`Gone`"), ["no code is called Gone"]);
        assert_eq!(findings("docs/a.md", "`Kept::gone` of `none::hold`").len(), 2);
        assert_eq!(findings("docs/develop/decisions/0001-a.md", "`Gone`"), Vec::<String>::new());
    }

    #[test]
    fn prose_is_wrapped_and_tables_and_code_are_not() {
        let long = "a ".repeat(COLUMNS / 2 + 1);
        assert_eq!(findings("docs/a.md", &long).len(), 1);
        assert_eq!(findings("docs/a.md", &format!("| {long} |")).len(), 0);
        assert_eq!(findings("docs/a.md", &format!("```\n{long}\n```")).len(), 0);
        assert_eq!(findings("docs/a.md", &format!("run `{long}`")).len(), 0);
    }
}
