//! What a program prints on standard output.

use std::io::Write;

use crate::failure::Failure;

/// Prints `text`, all of it, now.
///
/// # Errors
/// If standard output cannot be written to.
pub fn print(text: &str) -> Result<(), Failure> {
    #[cfg(not(guira_simulated))]
    let mut out = std::io::stdout();
    // The simulator prints what it has found.
    #[cfg(guira_simulated)]
    let mut out = std::io::stderr();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::system("cannot print"))
}
