//! The files that a configuration was read from, with their MD5, as mcrouter shows them.

use guira_discovery::Source;
use guira_routing::config::Texts;
use guira_web::object;
use md5::{Digest, Md5};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

const FILE: &str = "file:";

/// The MD5 of a text, in hexadecimal.
pub(crate) fn digest(text: &str) -> String {
    Md5::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The path of an import: a name without `file:` is relative to the configuration's folder. `None`: it is no file.
pub(crate) fn file_of(main: &Path, name: &str) -> Option<PathBuf> {
    let path = match name.strip_prefix(FILE) {
        Some(path) => PathBuf::from(path),
        None => main.parent().unwrap_or(Path::new("")).join(name),
    };
    guira_disk::is_file(&path).then_some(path)
}

/// JSON with an indent: the configuration's file and MD5, and those of what it imports.
pub(crate) fn text(source: &Source, texts: &Texts) -> String {
    let mut info = Map::new();
    info.insert("mcrouter_config".to_owned(), digest(&texts.main).into());
    if let Source::File(main) = source {
        info.insert("config_file".to_owned(), main.display().to_string().into());
        let digests = texts.others.iter().filter_map(|(name, text)| {
            Some((file_of(main, name)?.display().to_string(), digest(text.as_ref().ok()?).into()))
        });
        let imports = object(digests);
        if !imports.is_empty() {
            info.insert("config_import".to_owned(), imports.into());
        }
    }
    let info = Value::Object(info);
    serde_json::to_string_pretty(&info).unwrap_or_else(|_| info.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_its_digest_only() {
        let info = text(&Source::Text("{}".to_owned()), &"{}".into());
        assert_eq!(info, "{\n  \"mcrouter_config\": \"99914b932bd37a50b983c5e7c90ae93b\"\n}");
    }
}
