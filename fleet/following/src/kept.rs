//! The last good configuration, kept on disk for a start at which the source cannot be read.

use guira_routing::config::Texts;
use guira_sync::atomic::{AtomicU32, Ordering};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// How such a file begins.
const HEAD: &str = "guira-router-config 1\n";

/// The name of the configuration itself among the texts; no import has it.
const MAIN: &str = "";

/// The file of a router in a folder.
pub fn path(folder: &Path, service: &str, router: &str) -> PathBuf {
    folder.join(format!("{service}.{router}.config"))
}

/// Replaces the file as a whole.
pub fn save(path: &Path, texts: &Texts) -> io::Result<()> {
    let mut all = HEAD.to_owned();
    let others = texts.others.iter().filter_map(|(name, text)| Some((&**name, &**text.as_ref().ok()?)));
    for (name, text) in std::iter::once((MAIN, &*texts.main)).chain(others) {
        all.push_str(&format!("{} {}\n{name}\n{text}\n", name.len(), text.len()));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    fs::create_dir_all(folder)?;
    // Clients of several processes, and several of one, may keep the same file.
    static SAVED: AtomicU32 = AtomicU32::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}-{}", std::process::id(), SAVED.fetch_add(1, Ordering::Relaxed)));
    let new = path.with_file_name(name);
    let mut file = File::create(&new)?;
    file.write_all(all.as_bytes())?;
    // Otherwise an empty file may have its name after a crash of the machine, when it is needed most.
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(folder)?.sync_all()
}

/// What was saved.
pub fn read(path: &Path) -> io::Result<Texts> {
    parse(&fs::read_to_string(path)?)
        .ok_or_else(|| io::Error::other("is no configuration that a router has kept"))
}

fn parse(all: &str) -> Option<Texts> {
    let mut rest = all.strip_prefix(HEAD)?;
    let mut texts: BTreeMap<String, Result<String, String>> = BTreeMap::new();
    while !rest.is_empty() {
        let (lengths, after) = rest.split_once('\n')?;
        let (name_length, length) = lengths.split_once(' ')?;
        let (name_length, length): (usize, usize) = (name_length.parse().ok()?, length.parse().ok()?);
        let name = after.get(..name_length)?;
        let text = after.get(name_length + 1..)?.get(..length)?;
        rest = after.get(name_length + 1 + length..)?.strip_prefix('\n')?;
        texts.insert(name.to_owned(), Ok(text.to_owned()));
    }
    let main = texts.remove(MAIN)?.ok()?;
    Some(Texts { main, others: texts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_read_again() {
        let folder = std::env::temp_dir().join(format!("guira-router-kept-{}", std::process::id()));
        let path = path(&folder, "service", "router");
        let others = [("pool.json".to_owned(), Ok("5 5\n\n{}".to_owned()))].into();
        let texts = Texts { main: "{\n\"ä\": 1}\n".to_owned(), others };
        save(&path, &texts).unwrap();
        assert_eq!(read(&path).unwrap(), texts);
        fs::write(&path, "guira-router-config 1\n0 99\n\n{}\n").unwrap();
        assert!(read(&path).is_err(), "it was cut off");
        fs::remove_dir_all(&folder).unwrap();
    }
}
