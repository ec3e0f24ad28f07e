//! Files that appear all at once, so that no reader sees half of one.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Writes `text` to a file at `path`, in the place of what is there.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut unfinished = path.to_owned().into_os_string();
    unfinished.push(format!(".{}.tmp", std::process::id()));
    // A process of the same number may have left one behind.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Nothing that is there already, nor what a link there points to.
    let mut file = OpenOptions::new().write(true).create_new(true).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_replaces_what_was_there_and_follows_no_link() {
        let folder = std::env::temp_dir().join(format!("guira-whole-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, victim) = (folder.join("file"), folder.join("victim"));
        fs::write(&victim, "untouched").unwrap();
        fs::write(&path, "before").unwrap();
        let unfinished = folder.join(format!("file.{}.tmp", std::process::id()));
        std::os::unix::fs::symlink(&victim, &unfinished).unwrap();
        write(&path, "after").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing is left over");
        fs::remove_dir_all(&folder).unwrap();
    }
}
