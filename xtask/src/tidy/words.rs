//! Words that are not written here, and imports that hide what is used.

use super::source::Source;
use super::{Finding, Text};

/// Folders of one machine. Written in halves, so that this file does not name them itself.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

const NOTES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

const GENERATED: &[&str] = &["Cargo.lock", "LICENSE"];

/// Checks every text file for machine paths and notes.
pub(crate) fn check_texts(texts: &[Text]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for text in texts.iter().filter(|text| !GENERATED.contains(&text.path.as_str())) {
        for (index, line) in text.content.lines().enumerate() {
            for path in MACHINE_PATHS.iter().filter(|path| names_machine(line, path)) {
                let what = format!("{path} is a path of one machine");
                findings.push(Finding::new(
                    &text.path,
                    index + 1,
                    what,
                    "take it from a variable or an argument",
                ));
            }
            for note in NOTES.iter().filter(|note| has_word(line, note)) {
                let what = format!("{note} is work left over");
                findings.push(Finding::new(&text.path, index + 1, what, "do it, or write an issue"));
            }
        }
    }
    findings
}

/// Checks Rust files for ignored tests and glob imports.
pub(crate) fn check_sources(sources: &[Source]) -> Vec<Finding> {
    sources.iter().flat_map(|source| ignored(source).chain(globs(source)).collect::<Vec<_>>()).collect()
}

fn ignored(source: &Source) -> impl Iterator<Item = Finding> {
    source.code.match_indices("#[ignore]").map(|(at, _)| {
        let remedy = "write #[ignore = \"…\"] with the reason";
        Finding::new(&source.path, source.line_at(at), "a test is ignored without a reason", remedy)
    })
}

fn globs(source: &Source) -> impl Iterator<Item = Finding> {
    let tests = source.tests();
    let imports = source.words("use").filter(|at| {
        let statement = source.code[*at..].split(';').next().unwrap_or_default();
        // A `use<'a>` of a return type is followed by code, which has parentheses or braces of its own.
        statement.starts_with("use ") && !statement.contains('(') && statement.contains("::*")
    });
    let imports = imports.filter(move |at| !tests.iter().any(|(start, end)| (start..=end).contains(&at)));
    imports.map(|at| {
        let what = "a glob import hides what is used";
        Finding::new(&source.path, source.line_at(at), what, "name what is used")
    })
}

/// A path of a machine begins where it stands: the same letters after another folder are something else.
fn names_machine(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || "._-/}*".contains(before))
    })
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        ![before, after].into_iter().flatten().any(|next| next.is_alphanumeric() || next == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_findings(content: &str) -> usize {
        check_texts(&[Text { path: "a.md".into(), content: content.into() }]).len()
    }

    fn source_findings(path: &str, content: &str) -> usize {
        check_sources(&[Source::new(path, content)]).len()
    }

    #[test]
    fn machine_paths_and_notes_are_found() {
        assert_eq!(text_findings(&format!("see {}x and {}y", MACHINE_PATHS[0], MACHINE_PATHS[2])), 2);
        assert_eq!(text_findings(&format!("target{}x", MACHINE_PATHS[0])), 0);
        assert_eq!(text_findings(&format!("// {}: later", NOTES[0])), 1);
        assert_eq!(text_findings(&format!("{}S and A{}", NOTES[0], NOTES[1])), 0);
    }

    #[test]
    fn ignored_tests_have_reasons() {
        assert_eq!(source_findings("a.rs", "#[ignore]\nfn f() {}"), 1);
        assert_eq!(source_findings("a.rs", "#[ignore = \"slow\"]\nfn f() {}"), 0);
    }

    #[test]
    fn globs_are_for_tests() {
        assert_eq!(source_findings("src/a.rs", "use super::*;"), 1);
        assert_eq!(source_findings("src/a.rs", "pub use a::{\n    b,\n    c::*,\n};"), 1);
        assert_eq!(source_findings("src/a.rs", "use a::b; let c = d * e;"), 0);
        assert_eq!(source_findings("src/a.rs", "#[cfg(test)]\nmod tests {\n    use super::*;\n}"), 0);
        assert_eq!(source_findings("src/a.rs", "#[cfg(test)]\nmod tests {}\nuse super::*;"), 1);
        assert_eq!(source_findings("src/a/tests.rs", "use super::*;"), 0);
        assert_eq!(source_findings("x/tests/a.rs", "use super::*;"), 0);
    }
}
