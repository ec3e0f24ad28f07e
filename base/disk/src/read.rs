//! Reading of whole files, of limited length.

use crate::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a file of at most `most` bytes. A longer one, or one without an end, is not the file that was meant.
///
/// # Errors
/// If the file is longer, or an error of the system.
pub fn read_file(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        let message = format!("longer than {most} bytes, the most that is read");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit_and_an_endless_one_not_at_all() {
        let path = std::env::temp_dir().join(format!("guira-file-{}", std::process::id()));
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(read_file(&path, 3).unwrap(), b"abc");
        assert_eq!(read_file(&path, 2).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::remove_file(&path).unwrap();
        let error = read_file(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(error.to_string(), "longer than 1048576 bytes, the most that is read");
    }
}
