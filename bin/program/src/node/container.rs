//! `guira container`: what the image starts. It has no shell that could tell options from programs.

use std::ffi::OsString;

use crate::MEMCACHED;
use guira_cli::failure::Failure;

/// The command line that the words behind `docker run IMAGE` stand for: that of a program in the image, or memcached's options alone.
pub(crate) fn command_line(words: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    match words.first().and_then(|word| word.to_str()) {
        Some("guira" | MEMCACHED) => Ok(words),
        Some(word) if !word.starts_with('-') => Err(Failure::usage(format!(
            "unknown program {word}: this image runs guira, memcached, or memcached with the given options"
        ))),
        _ => Ok([OsString::from(MEMCACHED)].into_iter().chain(words).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Option<String> {
        let line = command_line(words.iter().map(Into::into).collect()).ok()?;
        Some(line.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn options_alone_are_memcacheds_and_programs_are_named() {
        assert_eq!(line(&[]).as_deref(), Some("memcached"));
        assert_eq!(line(&["-m", "64"]).as_deref(), Some("memcached -m 64"));
        assert_eq!(line(&["memcached", "-m", "64"]).as_deref(), Some("memcached -m 64"));
        assert_eq!(line(&["guira", "serve", "--help"]).as_deref(), Some("guira serve --help"));
        assert_eq!(line(&["sh"]), None);
    }
}
