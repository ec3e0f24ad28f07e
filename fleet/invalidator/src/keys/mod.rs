//! Which keys of the caches a change of the database concerns.

mod comments;
mod extractor;
mod template;

pub(crate) use extractor::{Extractor, Rule, TableKeys};
pub(crate) use template::Template;

use crate::deliver::KEY_MAX;

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Why no cache can have this key, if that is so, or no target be sent it, which takes up to `sent_max` bytes.
fn flaw(key: &[u8], sent_max: usize) -> Option<&'static str> {
    match key {
        [] => Some("empty key"),
        _ if key.len() > KEY_MAX => Some("over 250 bytes"),
        _ if key.len() > sent_max => Some("over 250 bytes with the prefix of any target"),
        _ if key.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) => Some("blanks or control bytes"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_no_cache_can_have_are_known() {
        assert_eq!(flaw("user:Zoë😀'\"`".as_bytes(), KEY_MAX), None);
        assert_eq!(flaw(&[b'k'; 250], KEY_MAX), None);
        assert_eq!(flaw(&[b'k'; 245], 245), None);
        assert!(flaw(&[b'k'; 246], 245).is_some());
        for key in [&[b'k'; 251][..], b"", b"a b", b"a\nb", b"a\0", b"a\x7f"] {
            assert!(flaw(key, KEY_MAX).is_some(), "{key:?}");
        }
    }
}
