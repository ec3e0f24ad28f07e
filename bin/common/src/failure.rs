//! Why a command failed, and how a program reports that.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// The exit code when the work failed.
pub const FAILED: u8 = 1;
/// The exit code when the command line or the configuration makes no sense, as clap has it.
pub const USAGE: u8 = 2;
/// The exit code when a server answered wrongly.
pub const WRONG: u8 = 3;

/// Why a command failed: any error, with its causes.
#[derive(Debug)]
pub struct Failure(Box<dyn Error>);

/// Arguments that contradict each other or the machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// Work that failed for a reason in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Reason(String);

/// An error, and what could not be done because of it.
#[derive(Debug, thiserror::Error)]
#[error("{action}")]
struct Caused {
    action: String,
    source: Box<dyn Error>,
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(Box::new(error))
    }
}

impl fmt::Display for Failure {
    /// The error and all its causes, on one line.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(out, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl Failure {
    /// The command line makes no sense: `text` says why, and what to do.
    pub fn usage(text: impl Into<String>) -> Self {
        Usage(text.into()).into()
    }

    /// The work failed for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Reason(reason.into()).into()
    }

    /// The failure of a system call, where `action` says what could not be done, as "cannot open the file".
    pub fn system(action: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::caused(action, error)
    }

    /// The failure that `error` caused, where `action` says what could not be done.
    pub fn caused(action: impl Into<String>, error: impl Error + 'static) -> Self {
        Caused { action: action.into(), source: Box::new(error) }.into()
    }

    /// The error, if it is of this type.
    pub fn find<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }

    /// Whether this failure was made by [`Failure::usage`].
    pub fn is_usage(&self) -> bool {
        self.0.is::<Usage>()
    }

    /// Prints the failure after the name of the program; the process is to end with `code`.
    pub fn report(&self, program: &str, code: u8) -> ExitCode {
        eprintln!("{program}: {self}");
        ExitCode::from(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_its_causes_and_knows_its_type() {
        let failure = Failure::system("cannot open the file")(io::Error::other("the disk is gone"));
        assert_eq!(failure.to_string(), "cannot open the file: the disk is gone");
        assert!(!failure.is_usage());
        assert!(Failure::usage("no").is_usage());
        assert!(Failure::from(io::Error::other("x")).find::<io::Error>().is_some());
    }
}
