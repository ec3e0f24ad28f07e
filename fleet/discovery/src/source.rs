//! Sources of a configuration: its own text, and the texts that it names.

use crate::etcd_pools::EtcdPools;
use crate::records::{PATIENCE, Records};
use guira_control::ETCD;
use guira_disk::File;
use guira_routing::config::{SRV, Sources, Texts};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    File(PathBuf),
    Text(String),
}

/// Why a configuration cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct Unreadable {
    path: PathBuf,
    reason: String,
}

const FILE: &str = "file:";
/// No configuration is larger.
const BYTES_MAX: u64 = 32 << 20;

impl Source {
    /// Parses the value of `--config`: `file:PATH`, a path, or the configuration itself.
    pub fn named(text: &str) -> Self {
        match text.strip_prefix(FILE) {
            Some(path) => Source::File(path.into()),
            None if text.trim_start().starts_with(['{', '/']) && text.contains('{') => {
                Source::Text(text.to_owned())
            }
            None => Source::File(text.into()),
        }
    }

    pub fn name(&self) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::Text(_) => "config-str".to_owned(),
        }
    }
}

/// The followed sources: SRV records and pools in etcd.
#[derive(Clone, Debug)]
pub struct Followed {
    pub records: Arc<Records>,
    pub pools: Arc<EtcdPools>,
}

impl Followed {
    /// Saved texts are used until newer ones are found.
    pub fn remember(&self, texts: &Texts) {
        self.records.remember(texts);
        self.pools.remember(texts);
    }

    /// These texts with the current records and pools.
    pub fn renew(&self, texts: &Texts) -> Texts {
        let now =
            |name: &String, text: &Result<String, String>| self.text(name).unwrap_or_else(|| text.clone());
        let others = texts.others.iter().map(|(name, text)| (name.clone(), now(name, text))).collect();
        Texts { main: texts.main.clone(), others }
    }

    /// Drops records that these texts do not name. Returns those that they name.
    pub fn keep_records_of(&self, texts: &Texts) -> HashSet<Arc<str>> {
        let records = texts.others.keys().filter_map(|name| name.strip_prefix(SRV));
        let records: HashSet<Arc<str>> = records.map(Arc::from).collect();
        self.records.keep(&records);
        records
    }

    /// The present text of an SRV or etcd name; `None` for a file.
    fn text(&self, name: &str) -> Option<Result<String, String>> {
        if name.starts_with(SRV) {
            Some(self.records.text(name))
        } else if name.starts_with(ETCD) {
            Some(self.pools.text(name, PATIENCE))
        } else {
            None
        }
    }
}

/// Reads files, SRV records and pools of etcd, and keeps what it has read.
#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
    followed: Followed,
    texts: RefCell<Texts>,
    seen: RefCell<Vec<(PathBuf, Option<String>)>>,
}

impl Sources for Files {
    fn read(&self, name: &str) -> Result<String, String> {
        if let Some(known) = self.texts.borrow().others.get(name) {
            return known.clone();
        }
        if let Some(text) = self.followed.text(name) {
            self.texts.borrow_mut().others.insert(name.to_owned(), text.clone());
            return text;
        }
        // A name without `file:` is relative to the configuration, as in mcrouter.
        let path = name.strip_prefix(FILE).map_or_else(|| self.folder.join(name), PathBuf::from);
        let text = read(&path).map_err(|error| error.to_string());
        self.seen.borrow_mut().push((path, text.as_ref().ok().cloned()));
        self.texts.borrow_mut().others.insert(name.to_owned(), text.clone());
        text
    }
}

fn read(path: &Path) -> io::Result<String> {
    // A pipe might never end.
    if !guira_disk::metadata(path)?.is_file() {
        return Err(io::Error::other("is no file"));
    }
    let mut text = String::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!("has more than {} MiB", BYTES_MAX >> 20)));
    }
    Ok(text)
}

/// Reads a configuration, again and again.
#[derive(Clone, Debug)]
pub struct Reader {
    source: Source,
    pub followed: Followed,
    /// The files that the last attempt has read, or tried to, with their texts.
    seen: Vec<(PathBuf, Option<String>)>,
}

impl Reader {
    pub fn new(source: Source, followed: Followed) -> Self {
        Reader { source, followed, seen: Vec::new() }
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The files that the last attempt has read, or tried to.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.seen.iter().map(|(path, _)| path.clone()).collect()
    }

    /// Whether a file has another content by now.
    pub fn is_outdated(&self) -> bool {
        self.seen.iter().any(|(path, text)| read(path).ok() != *text)
    }

    /// Reads the source, and the texts that it names when `take` requests them. Returns the result
    /// of `take`, and all that was read.
    ///
    /// # Errors
    /// If the source cannot be read, or if `take` fails.
    pub fn read<T, E: From<Unreadable>>(
        &mut self,
        take: impl FnOnce(&str, &Files) -> Result<T, E>,
    ) -> Result<(T, Texts), E> {
        let (main, folder) = match &self.source {
            Source::Text(text) => {
                self.seen.clear();
                (text.clone(), PathBuf::new())
            }
            Source::File(path) => {
                let text = read(path);
                self.seen = vec![(path.clone(), text.as_ref().ok().cloned())];
                let reason = |error: io::Error| Unreadable { path: path.clone(), reason: error.to_string() };
                (text.map_err(reason)?, path.parent().unwrap_or(Path::new("")).to_owned())
            }
        };
        let texts = RefCell::new(Texts { main: main.clone(), others: BTreeMap::new() });
        let files = Files { folder, followed: self.followed.clone(), texts, seen: RefCell::default() };
        let taken = take(&main, &files);
        self.seen.extend(files.seen.into_inner());
        Ok((taken?, files.texts.into_inner()))
    }
}
