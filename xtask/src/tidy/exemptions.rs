//! Files, functions and structs that may be longer, each with its reason: `xtask/tidy-exemptions.toml`.

use std::path::Path;

use serde::Deserialize;

/// Where the exemptions are, from the root.
pub(crate) const FILE: &str = "xtask/tidy-exemptions.toml";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exemptions {
    /// Files of more than 800 lines.
    #[serde(default)]
    pub(crate) file: Vec<LongFile>,
    /// Functions of more than 70 lines.
    #[serde(default)]
    pub(crate) function: Vec<LongFunction>,
    /// Structs of more than 12 fields.
    #[serde(default)]
    pub(crate) r#struct: Vec<LongFunction>,
}

/// A file that may be longer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LongFile {
    /// The file, from the root.
    pub(crate) path: String,
    pub(crate) reason: String,
}

/// A function, or a struct, that may be longer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LongFunction {
    /// Its file, from the root.
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) reason: String,
}

pub(crate) fn read(root: &Path) -> Result<Exemptions, String> {
    let text = std::fs::read_to_string(root.join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    parse(&text)
}

pub(crate) fn parse(text: &str) -> Result<Exemptions, String> {
    let exemptions = toml::from_str::<Exemptions>(text).map_err(|error| format!("{FILE}: {error}"))?;
    let reasons = exemptions.file.iter().map(|file| (&file.path, &file.reason));
    let reasons = reasons.chain(
        exemptions
            .function
            .iter()
            .chain(&exemptions.r#struct)
            .map(|function| (&function.path, &function.reason)),
    );
    for (path, reason) in reasons {
        if reason.trim().is_empty() {
            return Err(format!("{FILE}: the exemption of {path} has no reason"));
        }
    }
    Ok(exemptions)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn exemptions_have_reasons() {
        assert!(parse("[[file]]\npath = \"a.rs\"\nreason = \"a table of rows\"\n").is_ok());
        assert!(parse("[[file]]\npath = \"a.rs\"\nreason = \" \"\n").is_err());
        assert!(parse("[[file]]\npath = \"a.rs\"\n").is_err());
        assert!(parse("[[function]]\npath = \"a.rs\"\nname = \"f\"\nreason = \"why\"\nlines = 3\n").is_err());
        assert!(parse("").is_ok());
    }
}
