//! The last good configuration, kept on disk for a start at which the source cannot be read.

use guira_disk::{self as disk, Durability, Mode};
use guira_routing::config::Texts;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

const HEAD: &str = "guira-router-config 1\n";

const MODE: u32 = 0o666;

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
    disk::create_dir_all(disk::folder_of(path))?;
    // Synced, because otherwise an empty file may have the name after a crash of the machine, when it is needed most.
    disk::replace(path, all.as_bytes(), Mode::Masked(MODE), Durability::Synced)
}

pub fn read(path: &Path) -> io::Result<Texts> {
    parse(&disk::read_to_string(path)?)
        .ok_or_else(|| io::Error::other("the file is not a saved configuration"))
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
        disk::write(&path, "guira-router-config 1\n0 99\n\n{}\n").unwrap();
        assert!(read(&path).is_err(), "it was cut off");
        disk::remove_dir_all(&folder).unwrap();
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
        let name = format!("guira-kept-here-{}.config", std::process::id());
        let texts: Texts = "{}".into();
        let saved = save(Path::new(&name), &texts);
        let read = read(Path::new(&name));
        disk::remove_file(&name).unwrap();
        assert_eq!((saved.unwrap(), read.unwrap()), ((), texts));
    }

    #[test]
    fn clients_of_one_process_may_keep_one_file_and_files_of_similar_names() {
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
        assert_eq!(disk::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
        disk::remove_dir_all(&folder).unwrap();
    }
}
