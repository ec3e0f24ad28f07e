//! The last good configuration on disk: all of it in one file, and a copy of each of its files in mcrouter's layout.

use crate::options::{Dump, Identity};
use crate::sources_info::file_of;
use guira_discovery::{Source, kept};
use guira_disk::{self as disk, Durability, Mode};
use guira_routing::config::Texts;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A reader of mcrouter's copies may run under another user.
const COPY_MODE: u32 = 0o664;
/// The beginning of the name of such a copy; the path of the file follows.
const COPY: &str = "file-";
const FILE: &str = "file:";
/// Bytes of a name of a file. A longer path has no copy, nor has it in mcrouter.
const NAME_MAX: usize = 255;

/// Where the last good configuration is saved.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    folder: PathBuf,
    age_max: Option<Duration>,
}

impl Kept {
    pub(crate) fn new(dump: &Dump, identity: &Identity) -> Self {
        let Identity { service, router } = identity;
        Kept {
            path: kept::path(&dump.root, service, router),
            folder: dump.root.join(service).join(router),
            age_max: dump.age_max,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The configuration that was saved, or the reason why it cannot be used. Without a file of this router, copies that mcrouter has left are
    /// read.
    pub(crate) fn read(&self, source: &Source) -> Option<Result<Texts, String>> {
        if self.age_max == Some(Duration::ZERO) {
            return None;
        }
        if disk::exists(&self.path) {
            return Some(self.read_with(&self.path, kept::read));
        }
        match source {
            Source::File(main) if disk::exists(&self.copy_of(main)) => Some(self.read_copies(main)),
            _ => None,
        }
    }

    fn read_with<T>(&self, path: &Path, read: impl Fn(&Path) -> io::Result<T>) -> Result<T, String> {
        let age = disk::metadata(path)
            .and_then(|data| data.modified())
            .map(|time| time.elapsed().unwrap_or_default());
        match (age, self.age_max) {
            (Ok(age), Some(most)) if age > most => Err(format!(
                "{} is {} s old, and --max-dumped-config-age is {} s",
                path.display(),
                age.as_secs(),
                most.as_secs()
            )),
            (Err(error), _) => Err(error.to_string()),
            _ => read(path).map_err(|error| error.to_string()),
        }
    }

    fn read_copies(&self, main: &Path) -> Result<Texts, String> {
        let of = |path: &Path| self.read_with(path, |path| disk::read_to_string(path));
        let mut others = BTreeMap::new();
        let entries = disk::read_dir(&self.folder).map_err(|error| error.to_string())?;
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            let Some(path) = name.to_str().and_then(|name| name.strip_prefix(COPY)).and_then(unescaped)
            else {
                continue;
            };
            // A configuration may name a file in both ways.
            let relative =
                Path::new(&path).strip_prefix(folder_of(main)).ok().map(|path| path.display().to_string());
            let names = [Some(format!("{FILE}{path}")), relative];
            for name in names.into_iter().flatten() {
                others.insert(name, of(&entry.path()));
            }
        }
        Ok(Texts { main: of(&self.copy_of(main))?, others })
    }

    /// Saves the configuration. Files that did not change become young again.
    pub(crate) fn save(&self, source: &Source, texts: &Texts) {
        let saved = kept::save(&self.path, texts);
        if let Err(error) = saved.and_then(|()| self.save_copies(source, texts)) {
            // Operator: Check the folder's permissions and free space. A start without the source would have
            // no configuration.
            tracing::warn!(file = %self.path.display(), %error, "cannot save the configuration");
        }
    }

    fn save_copies(&self, source: &Source, texts: &Texts) -> io::Result<()> {
        let Source::File(main) = source else { return Ok(()) };
        disk::create_dir_all(&self.folder)?;
        self.save_copy(main, &texts.main)?;
        for (name, text) in &texts.others {
            // SRV records and pools of etcd are no files.
            if let (Some(path), Ok(text)) = (file_of(main, name), text) {
                self.save_copy(&path, text)?;
            }
        }
        Ok(())
    }

    fn save_copy(&self, path: &Path, text: &str) -> io::Result<()> {
        let copy = self.copy_of(path);
        if copy.file_name().is_none_or(|name| name.len() > NAME_MAX) {
            return Ok(());
        }
        disk::replace(&copy, text.as_bytes(), Mode::Exact(COPY_MODE), Durability::Unsynced)
    }

    fn copy_of(&self, path: &Path) -> PathBuf {
        self.folder.join(format!("{COPY}{}", escaped(&path.to_string_lossy())))
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// A text with every byte as `%XX` that is neither a letter, a digit nor one of `-_.~`.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(part.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_sync::clock::wall_clock;

    fn kept(root: &Path, age_max: Option<u64>) -> Kept {
        let dump = Dump { root: root.to_owned(), age_max: age_max.map(Duration::from_secs) };
        Kept::new(&dump, &Identity { service: "mcrouter".into(), router: "5000".into() })
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("guira-router-{name}-{}", std::process::id()));
        disk::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn paths_are_escaped_as_uris() {
        assert_eq!(escaped("/etc/mc router.json"), "%2Fetc%2Fmc%20router.json");
        for text in ["/etc/mc router.json", "a%b", "ä~_-."] {
            assert_eq!(unescaped(&escaped(text)).as_deref(), Some(text));
        }
        assert_eq!(unescaped("a%2"), None);
    }

    #[test]
    fn each_file_has_a_copy_that_is_read_in_place_of_a_lost_file() {
        let root = folder("copies");
        let (main, pool) = (root.join("main.json"), root.join("pool.json"));
        disk::write(&main, "{}").unwrap();
        disk::write(&pool, "[]").unwrap();
        let others =
            [("pool.json".to_owned(), Ok("[]".to_owned())), ("srv:_a".to_owned(), Ok("x".to_owned()))];
        let texts = Texts { main: "{}".to_owned(), others: others.into() };
        let kept = kept(&root, None);
        let source = Source::File(main.clone());
        kept.save(&source, &texts);
        let copies = disk::read_dir(root.join("mcrouter/5000")).unwrap().count();
        assert_eq!(copies, 2, "one for each file");
        assert_eq!(disk::read_to_string(kept.copy_of(&main)).unwrap(), "{}");
        assert_eq!(kept.read(&source).unwrap().unwrap(), texts);
        // mcrouter leaves copies only.
        disk::remove_file(kept.path()).unwrap();
        let read = kept.read(&source).unwrap().unwrap();
        assert_eq!((&*read.main, &read.others["pool.json"]), ("{}", &Ok("[]".to_owned())));
        assert_eq!(kept.read(&Source::File(root.join("other.json"))), None);
        disk::remove_dir_all(root).unwrap();
    }

    #[test]
    fn an_old_configuration_is_not_used() {
        let root = folder("age");
        let source = Source::Text("{}".to_owned());
        kept(&root, None).save(&source, &"{}".into());
        let path = kept(&root, None).path().to_owned();
        let hour_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(wall_clock() - 3600);
        disk::File::options().write(true).open(path).unwrap().set_modified(hour_ago).unwrap();
        assert!(kept(&root, Some(7200)).read(&source).unwrap().is_ok());
        assert!(kept(&root, Some(60)).read(&source).unwrap().unwrap_err().contains("s old"));
        assert_eq!(kept(&root, Some(0)).read(&source), None);
        disk::remove_dir_all(root).unwrap();
    }
}
