//! The files that a configuration was read from.

use md5::{Digest, Md5};
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
    path.is_file().then_some(path)
}
