//! Phrases that docs/develop/style.md bans. Each area has a limit, which may only fall.

use super::source::{Source, is_word};
use super::{Finding, Text};

/// What a native engineer of this field does not write.
const PHRASES: &[&str] = &[
    "whoever",
    "nobody",
    "somebody",
    "anew",
    "so many",
    "is told",
    "are told",
    "was told",
    "hears",
    "is asked",
    "are asked",
    "was asked",
    "goes on",
    "go on",
    "of no use",
    "is away",
    "are away",
    "meanwhile",
    "lies in",
    "what is",
    "what was",
    "who is",
    "who has",
    "put out",
];

/// Words that no name contains in the folders [`NAMED`].
const NAME_WORDS: &[&str] = &[
    "anew",
    "ask",
    "asked",
    "asks",
    "away",
    "beside",
    "desk",
    "forgo",
    "hear",
    "heard",
    "hears",
    "midway",
    "nobody",
    "purse",
    "somebody",
    "tell",
    "tells",
    "told",
    "whereabouts",
    "whoever",
    "wish",
    "wishes",
];

/// Folders whose names and comments are counted.
const NAMED: &[&str] = &["fleet/", "lab/demo/", "lab/load/", "lab/soak/", "node/"];

/// An area of the repository, and how many of the phrases its text may have.
struct Area {
    name: &'static str,
    limit: usize,
    has: fn(&str) -> bool,
}

/// Documents that say how something was keep their words.
const HISTORY: &[&str] = &[
    "docs/results/bench/",
    "docs/develop/decisions/",
    "docs/results/papers.md",
    "docs/develop/style.md",
    "CHANGELOG.md",
];

/// Folders whose string literals a user may read.
const PROGRAMS: &[&str] = &["base/", "bin/", "engines/", "fleet/", "node/"];

const DOCUMENTS: Area = Area { name: "documents", limit: 1, has: is_document };
const COMMENTS: Area = Area { name: "comments of the fleet and the node", limit: 0, has: is_named };
const NAMES: Area = Area { name: "names of the fleet and the node", limit: 0, has: is_named };
const STRINGS: Area = Area { name: "texts of programs", limit: 0, has: is_program };

fn is_document(path: &str) -> bool {
    path.ends_with(".md") && !HISTORY.iter().any(|history| path.starts_with(history))
}

fn is_program(path: &str) -> bool {
    let is_test = path.split('/').any(|part| matches!(part, "tests" | "suite" | "tests.rs"));
    path.ends_with(".rs") && !is_test && PROGRAMS.iter().any(|folder| path.starts_with(folder))
}

fn is_named(path: &str) -> bool {
    path.ends_with(".rs") && NAMED.iter().any(|folder| path.starts_with(folder))
}

/// Checks that no area has more of the phrases than its limit, and that its limit is not too high.
pub(crate) fn check(texts: &[Text], sources: &[Source]) -> Vec<Finding> {
    let of = |area: &Area, text_of: fn(&str) -> String| -> usize {
        let texts = texts.iter().filter(|text| (area.has)(&text.path));
        texts.map(|text| count(&text_of(&text.content))).sum()
    };
    let named = sources.iter().filter(|source| (NAMES.has)(&source.path));
    let found = [
        (DOCUMENTS, of(&DOCUMENTS, prose)),
        (STRINGS, of(&STRINGS, strings)),
        (COMMENTS, of(&COMMENTS, comments)),
        (NAMES, named.map(banned_names).sum()),
    ];
    found.iter().filter_map(|(area, found)| area.judge(*found)).collect()
}

impl Area {
    fn judge(&self, found: usize) -> Option<Finding> {
        let Area { name, limit, .. } = self;
        let remedy = match found {
            _ if found > *limit => {
                "name the object and use the field's verbs: docs/develop/style.md".to_owned()
            }
            _ if found < *limit => {
                format!("lower the limit of {name} in xtask/src/tidy/phrases.rs to {found}")
            }
            _ => return None,
        };
        let what = format!("{name} have {found} banned phrases, and the limit is {limit}");
        Some(Finding::new("docs/develop/style.md", 1, what, &remedy))
    }
}

/// How many of the phrases are in a text.
fn count(text: &str) -> usize {
    let text = text.to_lowercase();
    let is_edge = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_alphanumeric());
    let of = |phrase: &&str| {
        let ends = text.match_indices(*phrase).filter(|(at, _)| {
            is_edge(text[..*at].chars().next_back()) && is_edge(text[at + phrase.len()..].chars().next())
        });
        ends.count()
    };
    PHRASES.iter().map(of).sum()
}

/// A document without blocks of code, quotations between backticks, and headings.
fn prose(content: &str) -> String {
    let (mut text, mut in_block) = (String::new(), false);
    for line in content.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block && !line.starts_with('#') {
            text.extend(line.split('`').step_by(2));
            text.push('\n');
        }
    }
    text
}

/// The comments of a Rust file. What stands behind `//` in a literal counts as one.
fn comments(content: &str) -> String {
    let behind = content.lines().filter_map(|line| line.split_once("//"));
    behind.map(|(_, comment)| comment.trim_start_matches(['/', '!'])).collect::<Vec<_>>().join("\n")
}

/// How many names of a Rust file, outside its tests, contain one of [`NAME_WORDS`].
fn banned_names(source: &Source) -> usize {
    let tests = source.tests();
    let names = source.code.split(|letter: char| !letter.is_ascii() || !is_word(letter as u8));
    let names = names.filter(|name| {
        let at = name.as_ptr() as usize - source.code.as_ptr() as usize;
        !tests.iter().any(|(start, end)| (start..=end).contains(&&at))
    });
    names.filter(|name| words_of(name).iter().any(|word| NAME_WORDS.contains(&word.as_str()))).count()
}

/// The words of a name in snake case, camel case or capitals.
fn words_of(name: &str) -> Vec<String> {
    let is_constant = name.bytes().all(|byte| !byte.is_ascii_lowercase());
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || (letter.is_ascii_uppercase() && !is_constant) {
            words.push(String::new());
        }
        if letter != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
    }
    words
}

/// The string literals of a Rust file before its tests, and the doc comments that clap and `thiserror` show are not
/// among them.
fn strings(content: &str) -> String {
    let content = content.split("#[cfg(test)]").next().unwrap_or_default();
    let (mut text, mut rest) = (String::new(), content);
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (mark, after) = (rest.as_bytes()[at], &rest[at + 1..]);
        rest = match mark {
            b'/' if after.starts_with('/') => after.split_once('\n').map_or("", |(_, next)| next),
            // A quotation mark as a character.
            b'\'' if after.starts_with("\"'") => &after[2..],
            b'"' => {
                let end = end_of_string(after);
                text.push_str(&after[..end]);
                text.push('\n');
                after.get(end + 1..).unwrap_or_default()
            }
            _ => after,
        };
    }
    text
}

fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_counted_where_a_reader_sees_them() {
        assert_eq!(count("Whoever asks goes on; nobodys lies intact"), 2);
        assert_eq!(count(&prose("# Who is here\nwho is `who is`\n```\nwho is\n```\n")), 1);
        let code = "// nobody\nlet a = \"nobody\"; let b = '\"'; let c = \"is \\\"told\\\" nobody\"; // nobody\n\
                    #[cfg(test)]\nlet d = \"nobody\";";
        assert_eq!(count(&strings(code)), 2);
    }

    #[test]
    fn names_are_counted_outside_tests_and_comments_everywhere() {
        let code = "fn ask_all(task: AskError) { WISH; a.told(); \"ask\" } // nobody\n\
                    #[cfg(test)]\nmod tests { fn ask() {} }";
        assert_eq!(banned_names(&Source::new("a.rs", code)), 4);
        assert_eq!(count(&comments("//! Nobody\nlet a = b; // nobody\nlet nobody = c;")), 2);
    }

    #[test]
    fn a_limit_only_falls() {
        let area = Area { name: "documents", limit: 2, has: is_document };
        assert!(area.judge(3).is_some_and(|finding| finding.to_string().contains("3 banned phrases")));
        assert!(area.judge(1).is_some_and(|finding| finding.to_string().contains("to 1")));
        assert!(area.judge(2).is_none());
    }
}
