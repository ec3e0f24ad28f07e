//! The keys of the source, in two bytes and their own each.

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) form: KeyForm,
}

/// The form of a key in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    Word,
    Base64,
}

impl KeyForm {
    /// The form of a key that the source may have marked as binary.
    pub(crate) fn of(key: &[u8], is_binary: bool) -> Self {
        let is_word = !is_binary && key.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
        if is_word { KeyForm::Word } else { KeyForm::Base64 }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// Of each key its length, its form and its bytes.
    packed: Vec<u8>,
    count: u64,
}

impl Keys {
    /// Adds a key. One of more than 255 bytes does not exist.
    pub(crate) fn push(&mut self, key: Key<'_>) {
        let Ok(length) = u8::try_from(key.bytes.len()) else { return };
        self.packed.extend([length, u8::from(key.form == KeyForm::Base64)]);
        self.packed.extend_from_slice(key.bytes);
        self.count += 1;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Key<'_>> {
        let mut rest = &self.packed[..];
        std::iter::from_fn(move || {
            let [length, form, behind @ ..] = rest else { return None };
            let (bytes, behind) = behind.split_at_checked(usize::from(*length))?;
            rest = behind;
            let form = if *form == 0 { KeyForm::Word } else { KeyForm::Base64 };
            Some(Key { bytes, form })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_in_their_order_and_form() {
        let long = [b'x'; 250];
        let all = [(&b"one"[..], KeyForm::Word), (b"a b", KeyForm::Base64), (&long, KeyForm::Word)];
        let mut keys = Keys::default();
        all.into_iter().for_each(|(bytes, form)| keys.push(Key { bytes, form }));
        keys.push(Key { bytes: &[b'x'; 256], form: KeyForm::Word });
        assert_eq!(keys.count(), 3);
        let found: Vec<_> = keys.iter().map(|key| (key.bytes, key.form)).collect();
        assert_eq!(found, all);
    }

    #[test]
    fn a_key_is_sent_in_base64_if_it_is_no_word_or_marked() {
        for (key, is_binary, form) in [
            (&b"one"[..], false, KeyForm::Word),
            (b"one", true, KeyForm::Base64),
            (b"a b", false, KeyForm::Base64),
            (b"a\x01", false, KeyForm::Base64),
            (b"\x7f", false, KeyForm::Base64),
            ("Zoë".as_bytes(), false, KeyForm::Word),
        ] {
            assert_eq!(KeyForm::of(key, is_binary), form, "{}", key.escape_ascii());
        }
    }
}
