//! The user of a database and its password, which a file may hold.

use guira_disk as disk;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The longest file with a password that is read, in bytes.
const FILE_MAX: u64 = 64 << 10;

/// A user, and the file of the password, which is read for each connection so that it can be
/// changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub password_file: Option<PathBuf>,
}

/// A user and a password, which is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: Vec<u8>,
}

impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Login({})", self.user)
    }
}

impl Credentials {
    /// Reads the first line of the file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self) -> io::Result<Login> {
        let password = self.password_file.as_deref().map_or_else(|| Ok(String::new()), first_line)?;
        Ok(Login { user: self.user.clone(), password: password.into_bytes() })
    }
}

fn first_line(path: &Path) -> io::Result<String> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()));
    if disk::metadata(path).map_err(named)?.len() > FILE_MAX {
        return Err(named(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large")));
    }
    let text = disk::read_to_string(path).map_err(named)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_harness::scratch::Scratch;

    #[test]
    fn a_password_is_read_anew_each_time_and_not_shown() {
        let scratch = Scratch::new();
        let file = scratch.write("password", "top secret\nmore\n");
        let credentials = Credentials { user: "guira".to_owned(), password_file: Some(file.clone()) };
        let login = credentials.read().unwrap();
        assert_eq!((&*login.user, &*login.password), ("guira", &b"top secret"[..]));
        assert_eq!(format!("{login:?}"), "Login(guira)");
        scratch.write("password", "another\n");
        assert_eq!(credentials.read().unwrap().password, b"another");
        disk::remove_file(&file).unwrap();
        let error = credentials.read().unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot read {}", file.display())), "{error}");
        let without_password = Credentials { password_file: None, ..credentials };
        assert_eq!(without_password.read().unwrap().password, b"");
    }
}
