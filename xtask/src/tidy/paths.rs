//! Every path that a document names exists.

use super::{Finding, Text};

pub(crate) fn check(texts: &[Text], files: &[String]) -> Vec<Finding> {
    let documents = texts.iter().filter(|text| text.path.ends_with(".md"));
    documents.flat_map(|document| check_document(document, files)).collect()
}

fn check_document(document: &Text, files: &[String]) -> Vec<Finding> {
    let folder = document.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    let mut in_block = false;
    for (index, line) in document.content.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        if in_block {
            continue;
        }
        let quoted = quoted(line).filter(|text| is_path(text, files)).map(str::to_owned);
        let linked = links(line).filter_map(|target| linked(folder, target));
        for path in quoted.chain(linked).flat_map(|path| alternatives(&path)) {
            if !exists(&path, files) {
                let what = format!("{path} does not exist");
                findings.push(Finding::new(&document.path, index + 1, what, "name what exists, or write it"));
            }
        }
    }
    findings
}

fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Whether a quoted text is a path of the repository: it has a slash and begins with a folder at the top.
fn is_path(text: &str, files: &[String]) -> bool {
    let Some((top, _)) = text.split_once('/') else { return false };
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-{},*".contains(&byte));
    plain
        && !top.is_empty()
        && files.iter().any(|file| file.split_once('/').is_some_and(|(folder, _)| folder == top))
}

fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// The path of a link from the root; `None` for what lies elsewhere.
fn linked(folder: &str, target: &str) -> Option<String> {
    let path = target.split('#').next().unwrap_or_default();
    if path.is_empty() || path.contains(':') || path.contains(' ') {
        return None;
    }
    let mut parts = if path.starts_with('/') { Vec::new() } else { folder.split('/').collect::<Vec<_>>() };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.retain(|part| !part.is_empty());
    Some(parts.join("/"))
}

/// `base/{sync,memory}` stands for two paths.
fn alternatives(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let Some((inside, after)) = rest.split_once('}') else { return vec![path.to_owned()] };
    inside.split(',').flat_map(|choice| alternatives(&format!("{before}{choice}{after}"))).collect()
}

/// Whether a file or folder of this name is there; `*` stands for anything within a name.
fn exists(path: &str, files: &[String]) -> bool {
    let wanted = path.trim_end_matches('/').split('/').collect::<Vec<_>>();
    files.iter().any(|file| {
        let parts = file.split('/').collect::<Vec<_>>();
        parts.len() >= wanted.len() && wanted.iter().zip(&parts).all(|(wanted, part)| fits(wanted, part))
    })
}

fn fits(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    (0..=rest.len()).any(|at| rest.is_char_boundary(at) && fits(after, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(line: &str) -> Vec<String> {
        let files =
            ["base/sync/src/lib.rs", "base/memory/src/lib.rs", "docs/a.md", "README.md"].map(str::to_owned);
        let document = Text { path: "docs/a.md".into(), content: line.into() };
        check(&[document], &files).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn known_paths_are_accepted() {
        for line in [
            "see `base/sync/src/lib.rs` and `base/sync/`",
            "all of `base/{sync,memory}/src` and `base/*/src/*.rs`",
            "[here](a.md#top), [there](../README.md), [root](/README.md), [web](https://example.org/x)",
            "`a/b` of another world, `base / sync`, base/none without quotes",
            "```\nbase/none\n`base/none`\n```",
        ] {
            assert_eq!(findings(line), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn unknown_paths_are_found() {
        assert_eq!(findings("see `base/none`"), ["base/none does not exist"]);
        assert_eq!(findings("see `base/{sync,none}`"), ["base/none does not exist"]);
        assert_eq!(findings("[here](b.md)"), ["docs/b.md does not exist"]);
        assert_eq!(findings("`base/*/none.rs`"), ["base/*/none.rs does not exist"]);
    }
}
