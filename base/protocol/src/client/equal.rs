//! Comparing keys.

/// Whether two texts are the same. For texts as short as keys this takes fewer instructions than the call that `==`
/// compiles to.
#[inline(always)]
pub fn are_equal(one: &[u8], other: &[u8]) -> bool {
    let (words, rest) = one.as_chunks::<8>();
    let (others, _) = other.as_chunks::<8>();
    let are_words = one.len() == other.len() && words.iter().zip(others).all(|(one, other)| one == other);
    are_words
        && (rest.is_empty()
            || match (one.last_chunk::<8>(), other.last_chunk::<8>()) {
                (Some(one), Some(other)) => one == other,
                _ => one.iter().zip(other).all(|(one, other)| one == other),
            })
}

#[cfg(test)]
mod tests {
    use super::are_equal;

    #[test]
    fn one_byte_makes_a_difference_wherever_it_is() {
        let text: Vec<u8> = (1..=40).collect();
        for length in 0..=text.len() {
            let text = &text[..length];
            assert!(are_equal(text, text));
            for at in 0..length {
                let mut other = text.to_vec();
                other[at] ^= 0x80;
                assert!(!are_equal(text, &other), "{length} bytes, another at {at}");
                assert!(!are_equal(text, &text[..at]) && !are_equal(&text[..at], text));
            }
        }
    }
}
