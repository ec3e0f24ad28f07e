//! Statements for the client program of a database.

use std::io::Write;
use std::process::{Command, Stdio};

/// Has a client execute statements; returns what it says.
///
/// # Errors
/// Why it has failed, in its words.
pub fn statements_to(mut client: Command, statements: &str) -> Result<String, String> {
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = client.spawn().map_err(|error| error.to_string())?;
    if let Some(mut input) = client.stdin.take() {
        // If it does not read to the end, it says why.
        let _ = input.write_all(statements.as_bytes());
    }
    let output = client.wait_with_output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
