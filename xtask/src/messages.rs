//! The warnings and errors that the programs log: docs/reference/log-messages.md, made of the code.
//!
//! What an operator should do stands in a comment above each message: `// Operator: …`.

use std::fmt::Write as _;
use std::path::Path;

use crate::tidy::{Finding, Text};

pub(crate) const DOCUMENT: &str = "docs/reference/log-messages.md";

/// What the comment above a message begins with.
const MARK: &str = "// Operator: ";

const HEAD: &str = "\
# Log messages

<!-- Made by `cargo xtask docs`: change the comments that begin with `Operator:` in the code instead. -->

Every warning and error that the programs log, by program. `{…}` stands for a variable part. Fields
such as `address=` and `error=` follow the message. The router can log the node's messages about
listeners, TLS and files too.
";

/// The programs, by the folder of their code.
const PROGRAMS: &[(&str, &str)] = &[
    ("Cache server, and all programs that listen", "base/"),
    ("Cache server", "node/"),
    ("Cache server", "engines/"),
    ("Cache server", "bin/program/src/node/"),
    ("Router", "fleet/router/"),
    ("Router", "bin/program/src/fleet/router/"),
    ("Names, etcd and followed configurations", "fleet/control/"),
    ("Names, etcd and followed configurations", "fleet/discovery/"),
    ("Invalidator and checker", "fleet/invalidator/"),
    ("Invalidator and checker", "fleet/sql/"),
    ("Invalidator and checker", "fleet/checker/"),
];

#[derive(Debug, PartialEq, Eq)]
struct Message {
    file: String,
    line: usize,
    level: &'static str,
    text: String,
    advice: Option<String>,
}

/// Checks that each message has its advice, and that the document is current.
pub(crate) fn check(texts: &[Text]) -> Vec<Finding> {
    let messages = all(texts);
    let missing = messages.iter().filter(|message| message.advice.is_none());
    let mut findings: Vec<Finding> = missing
        .map(|message| {
            let what = format!("the message {:?} does not say what to do", message.text);
            Finding::new(&message.file, message.line, what, format!("write `{MARK}…` above it"))
        })
        .collect();
    let current = texts.iter().find(|text| text.path == DOCUMENT).map(|text| text.content.as_str());
    if current != Some(document(&messages).as_str()) {
        findings.push(Finding::new(DOCUMENT, 1, "the document is not current", "run cargo xtask docs"));
    }
    findings
}

/// Writes the document.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write(root: &Path, texts: &[Text]) -> Result<(), String> {
    let path = root.join(DOCUMENT);
    std::fs::write(&path, document(&all(texts))).map_err(|error| format!("{}: {error}", path.display()))
}

fn document(messages: &[Message]) -> String {
    let mut text = HEAD.to_owned();
    let mut last = "";
    for (program, folder) in PROGRAMS {
        let of_program = messages.iter().filter(|message| message.file.starts_with(folder));
        for message in of_program {
            if *program != last {
                let _ = write!(text, "\n## {program}\n\n| level | message | what to do |\n|---|---|---|\n");
                last = program;
            }
            let cell = |text: &str| text.replace('|', "\\|");
            let advice = message.advice.as_deref().unwrap_or("");
            let _ = writeln!(text, "| {} | {} | {} |", message.level, cell(&message.text), cell(advice));
        }
    }
    text
}

fn all(texts: &[Text]) -> Vec<Message> {
    let is_code = |path: &str| {
        let is_test = path.split('/').any(|part| matches!(part, "tests" | "suite" | "benches" | "tests.rs"));
        path.ends_with(".rs") && !is_test && PROGRAMS.iter().any(|(_, folder)| path.starts_with(folder))
    };
    texts.iter().filter(|text| is_code(&text.path)).flat_map(of_file).collect()
}

fn of_file(text: &Text) -> Vec<Message> {
    let content = text.content.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    for (mark, level) in [("warn!(", "WARN"), ("error!(", "ERROR")] {
        for (at, _) in content.match_indices(mark) {
            let before = content[..at].chars().next_back();
            if !matches!(before, Some(':' | ' ' | '{' | '(')) {
                continue;
            }
            let Some(words) = literal(&content[at + mark.len()..]) else { continue };
            // A message that is only a value has no words of its own.
            if !shown(&words).chars().any(char::is_alphabetic) {
                continue;
            }
            let line = content[..at].lines().count();
            let advice = advice(content, line);
            found.push(Message { file: text.path.clone(), line, level, text: shown(&words), advice });
        }
    }
    found.sort_by_key(|message| message.line);
    found
}

/// The message among the arguments of a macro: the first string that is no value of a field.
fn literal(arguments: &str) -> Option<String> {
    let mut rest = arguments;
    loop {
        let begin = rest.find('"')?;
        // The macro ends before it.
        if rest[..begin].contains(';') {
            return None;
        }
        let is_value = rest[..begin].trim_end().ends_with('=');
        let (text, after) = string(&rest[begin + 1..])?;
        if !is_value {
            return Some(text);
        }
        rest = after;
    }
}

/// A string literal after its first quotation mark, with its continued lines joined, and what is behind it.
fn string(text: &str) -> Option<(String, &str)> {
    let (mut found, mut letters) = (String::new(), text.char_indices().peekable());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((found, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                '\n' => while letters.next_if(|(_, letter)| letter.is_whitespace()).is_some() {},
                other => found.push(other),
            },
            other => found.push(other),
        }
    }
    None
}

/// A message with `{…}` for each value.
fn shown(message: &str) -> String {
    let mut text = String::new();
    let mut rest = message;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        text.push_str("{…}");
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    text + rest
}

/// The advice in the comment above a line, which begins at 1. A comment may have several lines.
fn advice(content: &str, line: usize) -> Option<String> {
    let lines: Vec<&str> = content.lines().collect();
    // A statement may begin one or two lines above its macro.
    let above = &lines[..line.saturating_sub(1)];
    let skipped = above.iter().rev().take(2).take_while(|line| !line.trim_start().starts_with("//")).count();
    let above = above[..above.len() - skipped].iter().rev();
    let is_comment = |line: &&&str| line.trim_start().starts_with("//");
    let mut comment: Vec<&str> = above.take_while(is_comment).map(|line| line.trim_start()).collect();
    comment.reverse();
    let begin = comment.iter().position(|line| line.starts_with(MARK))?;
    let words =
        comment[begin..].iter().map(|line| line.trim_start_matches(MARK).trim_start_matches("//").trim());
    Some(words.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(content: &str) -> Text {
        Text { path: "node/server/src/x.rs".into(), content: content.into() }
    }

    #[test]
    fn messages_are_found_with_their_advice() {
        let code = "fn f() {\n    // Operator: Look at the disk,\n    // then at the memory.\n    \
                    tracing::warn!(path = \"x\", %error, \"cannot read {path}: \\\n        {error}\");\n    \
                    tracing::error!(\"{error}\");\n    tracing::info!(\"no\");\n}\n";
        let found = of_file(&text(code));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].text.as_str(), found[0].level), ("cannot read {…}: {…}", "WARN"));
        assert_eq!(found[0].advice.as_deref(), Some("Look at the disk, then at the memory."));
    }

    #[test]
    fn a_message_without_advice_is_a_finding() {
        let texts = [text("fn f() {\n    tracing::warn!(\"lost\");\n}\n")];
        let findings = check(&texts);
        assert!(findings.iter().any(|finding| finding.what.contains("\"lost\"")), "{findings:?}");
    }
}
