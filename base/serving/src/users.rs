//! The users of a server: a file with lines of the form `user:password`.

use guira_disk::read_file;
use guira_sync::lock::RwLock;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    #[error("cannot read the auth file {path}")]
    Read { path: PathBuf, source: std::io::Error },
    /// A line is not of the form `user:password`.
    #[error("the auth file {path}, line {line}: it must be user:password")]
    Line {
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// The file has no user.
    #[error("the auth file {path} has no users: add a line user:password")]
    Nobody { path: PathBuf },
}

const FILE_MAX: usize = 16 << 20;

struct User {
    name: Vec<u8>,
    password: Vec<u8>,
}

/// The users of an auth file. Its contents are not shown by anything. Clones are the same users.
#[derive(Clone)]
pub struct Users {
    path: PathBuf,
    /// LOCK: users. Leaf.
    users: Arc<RwLock<Arc<[User]>>>,
}

impl fmt::Debug for Users {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Users").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Users {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or has lines of another form, or none.
    pub fn load(path: &Path) -> Result<Self, UsersError> {
        Ok(Users { path: path.to_owned(), users: Arc::new(RwLock::new(read(path)?)) })
    }

    /// Reads the file again. Clients that have logged in stay so.
    ///
    /// # Errors
    /// As [`Users::load`]; then the users of before stay.
    pub fn reload(&self) -> Result<(), UsersError> {
        let users = read(&self.path)?;
        *self.users.write() = users;
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is such a user with such a password. It takes as long for every password of the same length.
    pub fn knows(&self, name: &[u8], password: &[u8]) -> bool {
        let users = self.users.read().clone();
        users.iter().fold(false, |known, user| {
            let is_user = is_same_secret(&user.name, name) & is_same_secret(&user.password, password);
            known | is_user
        })
    }
}

/// Whether two secrets are the same, without telling by the time it takes where they differ.
pub fn is_same_secret(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
    // black_box: or the compiler would stop at the first difference.
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

fn read(path: &Path) -> Result<Arc<[User]>, UsersError> {
    let text =
        read_file(path, FILE_MAX).map_err(|source| UsersError::Read { path: path.to_owned(), source })?;
    let users = parse(&text).map_err(|line| UsersError::Line { path: path.to_owned(), line })?;
    if users.is_empty() {
        return Err(UsersError::Nobody { path: path.to_owned() });
    }
    Ok(users.into())
}

/// Reads the lines; an error is the number of a bad one.
fn parse(text: &[u8]) -> Result<Vec<User>, usize> {
    let mut users = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':').ok_or(index + 1)?;
        users.push(User { name: line[..colon].to_vec(), password: line[colon + 1..].to_vec() });
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(text: &str) -> Users {
        let users = parse(text.as_bytes()).map_err(|line| format!("line {line}")).unwrap();
        Users { path: PathBuf::new(), users: Arc::new(RwLock::new(users.into())) }
    }

    #[test]
    fn a_user_is_known_by_name_and_password() {
        let users = users("foo:bar\r\nfirst:a:b c\n\nlast:");
        assert!(users.knows(b"foo", b"bar"));
        assert!(users.knows(b"first", b"a:b c"), "a password may have colons and blanks");
        assert!(users.knows(b"last", b""));
        for (name, password) in
            [("foo", "ba"), ("foo", "barr"), ("fo", "bar"), ("", "bar"), ("last", "x"), ("foo", "a:b c")]
        {
            assert!(!users.knows(name.as_bytes(), password.as_bytes()), "{name} {password}");
        }
    }

    #[test]
    fn a_bad_line_is_told_by_its_number() {
        assert_eq!(parse(b"a:b\n\nnobody\n").err(), Some(3));
        assert_eq!(parse(b"\n\n").unwrap().len(), 0);
    }

    #[test]
    fn a_reload_that_fails_leaves_the_users_of_before() {
        let path = std::env::temp_dir().join(format!("guira-users-{}", std::process::id()));
        guira_disk::write(&path, "foo:bar\n").unwrap();
        let users = Users::load(&path).unwrap();
        guira_disk::write(&path, "nobody\n").unwrap();
        assert!(users.reload().unwrap_err().to_string().contains("line 1"));
        guira_disk::write(&path, "\n").unwrap();
        assert!(users.reload().unwrap_err().to_string().contains("has no users"));
        assert!(users.knows(b"foo", b"bar"));
        guira_disk::write(&path, "foo:new\n").unwrap();
        users.reload().unwrap();
        assert!(users.knows(b"foo", b"new") && !users.knows(b"foo", b"bar"));
        guira_disk::remove_file(&path).unwrap();
        assert!(users.reload().unwrap_err().to_string().contains("cannot read"));
    }
}
