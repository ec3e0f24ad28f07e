//! Parts of reply lines.

/// The token of the flag `flag` in a meta reply line such as `HD t30 c7`.
pub fn flag(line: &str, flag: char) -> Option<&str> {
    line.split(' ').skip(1).find_map(|word| word.strip_prefix(flag))
}

/// The number after the flag `flag` in a meta reply line.
///
/// # Panics
/// When the line has no such flag or its token is no number.
#[track_caller]
pub fn number(line: &str, letter: char) -> u64 {
    let token = flag(line, letter).unwrap_or_else(|| panic!("no {letter} in \"{line}\""));
    token.parse().unwrap_or_else(|_| panic!("{letter} is not followed by a number in \"{line}\""))
}

#[cfg(test)]
mod tests {
    use super::{flag, number};

    #[test]
    fn flags_are_found_by_their_letter() {
        assert_eq!(flag("HD t30 c7 X", 'c'), Some("7"));
        assert_eq!(flag("HD t30 c7 X", 'X'), Some(""));
        assert_eq!(flag("HD t30", 'c'), None);
        assert_eq!(number("VA 2 s2 t30", 't'), 30);
    }
}
