//! What a program prints on standard output.

use std::io::Write;

use crate::failure::Failure;

/// Prints `text`, all of it, now.
///
/// # Errors
/// If standard output cannot be written to.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::system("cannot print"))
}
