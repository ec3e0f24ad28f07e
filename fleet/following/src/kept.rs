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

/// The file of a router in a folder, which no router of another name has: the first dot is the end of the service's name.
pub fn path(folder: &Path, service: &str, router: &str) -> PathBuf {
    let service = service.replace('%', "%%").replace('.', "%d");
    folder.join(format!("{service}.{router}.config"))
}

/// Replaces the file as a whole.
pub fn save(path: &Path, texts: &Texts) -> io::Result<()> {
    let mut all = HEAD.to_owned();
    let others = texts.others.iter().filter_map(|(name, text)| Some((&**name, &**text.as_ref().ok()?)));
    for (name, text) in std::iter::once((MAIN, &*texts.main)).chain(others) {
        all.push_str(&format!("{} {}\n{name}\n{text}\n", name.len(), text.len()));
    }
    let folder = folder_of(path);
    fs::create_dir_all(folder)?;
    let (new, mut file) = create_beside(path)?;
    let written = file.write_all(all.as_bytes());
    // Otherwise an empty file may have its name after a crash of the machine, when it is needed most.
    let named = written.and_then(|()| file.sync_all()).and_then(|()| fs::rename(&new, path));
    if named.is_err() {
        // Each attempt would leave one more. Why there is none is told.
        let _ = fs::remove_file(&new);
    }
    named?;
    File::open(folder)?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// A file that nobody else writes, to take the name of this one: clients of several processes, and several of one, may keep the same, and in
/// containers processes have the same number.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    loop {
        let new = beside(path);
        match File::create_new(&new) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (new, file)),
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    static SAVED: AtomicU32 = AtomicU32::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}-{}", std::process::id(), SAVED.fetch_add(1, Ordering::Relaxed)));
    path.with_file_name(name)
}

/// What was saved.
pub fn read(path: &Path) -> io::Result<Texts> {
    parse(&fs::read_to_string(path)?).ok_or_else(|| io::Error::other("the file is not a saved configuration"))
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

    #[test]
    fn routers_of_different_names_keep_different_files() {
        let folder = Path::new("/run");
        assert_eq!(path(folder, "shop", "r.1"), Path::new("/run/shop.r.1.config"));
        let names =
            [("a", "b.c"), ("a.b", "c"), ("a%d", "c"), ("a%", "dc"), ("a", ".c"), ("a.", "c"), ("a%.", "c")];
        let mut paths: Vec<PathBuf> =
            names.iter().map(|(service, router)| path(folder, service, router)).collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), names.len(), "{paths:?}");
    }

    #[test]
    fn a_name_without_a_folder_is_a_file_where_the_process_is() {
        for (path, folder) in [("kept.config", "."), ("a/kept.config", "a"), ("/kept.config", "/")] {
            let path = Path::new(path);
            assert_eq!(folder_of(path), Path::new(folder));
            assert_eq!(beside(path).parent(), path.parent());
        }
        let name = format!("guira-kept-here-{}.config", std::process::id());
        let texts: Texts = "{}".into();
        let saved = save(Path::new(&name), &texts);
        let read = read(Path::new(&name));
        fs::remove_file(&name).unwrap();
        assert_eq!((saved.unwrap(), read.unwrap()), ((), texts));
    }

    #[test]
    fn clients_of_one_process_may_keep_one_file_and_files_of_similar_names() {
        let [own, other] = ["/run/a.config", "/run/a.b"].map(Path::new);
        let all = [beside(own), beside(own), beside(other)];
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2], "{all:?}");
        let folder = std::env::temp_dir().join(format!("guira-kept-by-many-{}", std::process::id()));
        let path = folder.join("client.config");
        guira_sync::thread::scope(|scope| {
            for number in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    let texts: Texts = "x".repeat(1 + number * 1000).as_str().into();
                    (0..10).for_each(|_| save(path, &texts).unwrap());
                });
            }
        });
        assert!(matches!(read(&path), Ok(texts) if texts.main.len() % 1000 == 1));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
        fs::remove_dir_all(&folder).unwrap();
    }
}
