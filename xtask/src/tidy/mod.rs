//! Rules of the house that no compiler checks.
//!
//! | module | rule |
//! |---|---|
//! | [`circles`] | the files of a crate depend on each other one way |
//! | [`dependencies`] | who may use whom: the table in [`layers`] |
//! | [`doors`] | locks, threads, sockets and files come from one module each |
//! | [`lengths`] | files of at most 800 lines, functions of at most 70, structs of the product of at most 12 fields |
//! | [`paths`] | every path that a document names exists |
//! | [`phrases`] | banned phrases in documents, texts and comments, and banned words in names |
//! | [`prose`] | lines of prose of at most 200 columns; every name of code that a document quotes exists |
//! | [`supply`] | licences and sources of all crates are those that deny.toml allows |
//! | [`unsafety`] | `unsafe` only where it is allowed |
//! | [`words`] | no machine paths, no notes to be done later, no test ignored without a reason, no glob imports |
//!
//! Exemptions from the lengths lie in `xtask/tidy-exemptions.toml`, each with its reason.

mod circles;
mod dependencies;
mod doors;
mod exemptions;
mod finding;
mod layers;
mod lengths;
mod paths;
mod phrases;
mod prose;
mod source;
mod supply;
mod unsafety;
mod words;

use std::path::Path;
use std::process::ExitCode;

pub(crate) use finding::Finding;
use source::Source;

use crate::{messages, workspace};

/// A text file of the repository.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) path: String,
    pub(crate) content: String,
}

/// Everything that is checked, read once.
struct Repository {
    texts: Vec<Text>,
    sources: Vec<Source>,
    files: Vec<String>,
    packages: Vec<workspace::Package>,
}

impl Repository {
    fn read(root: &Path) -> Result<Self, String> {
        let files = workspace::files(root)?;
        let mut texts = Vec::new();
        for path in &files {
            let bytes = std::fs::read(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
            // What is not text has no lines to check.
            if let Ok(content) = String::from_utf8(bytes)
                && !content.contains('\0')
            {
                texts.push(Text { path: path.clone(), content });
            }
        }
        let rust = texts.iter().filter(|text| text.path.ends_with(".rs"));
        let sources = rust.map(|text| Source::new(&text.path, &text.content)).collect();
        Ok(Self { sources, texts, files, packages: workspace::packages(root)? })
    }
}

/// Writes the documents that are made of the code itself.
pub(crate) fn documents(root: &Path) -> Result<(), String> {
    messages::write(root, &Repository::read(root)?.texts)
}

/// Runs every check.
pub(crate) fn run(root: &Path) -> Result<Vec<Finding>, String> {
    let repository = Repository::read(root)?;
    let exemptions = exemptions::read(root)?;
    let mut findings = dependencies::check(root, &repository.packages);
    findings.extend(circles::check(&repository.sources));
    findings.extend(doors::check(&repository.sources));
    findings.extend(lengths::check(&repository.sources, &exemptions));
    findings.extend(paths::check(&repository.texts, &repository.files));
    findings.extend(messages::check(&repository.texts));
    findings.extend(phrases::check(&repository.texts, &repository.sources));
    findings.extend(prose::check(&repository.texts, &repository.sources));
    findings.extend(supply::check(root)?);
    findings.extend(unsafety::check(root, &repository.sources, &repository.packages));
    findings.extend(words::check_texts(&repository.texts));
    findings.extend(words::check_sources(&repository.sources));
    findings.sort();
    Ok(findings)
}

pub(crate) fn report(findings: &[Finding]) -> ExitCode {
    for finding in findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("tidy: {} findings", findings.len());
    ExitCode::FAILURE
}
