//! Relocation: commands that borrow other bytes.
//!
//! A parsed command borrows its key, its flags and its opaque token from the input. To outlive the input, it borrows
//! from a copy: `relocate` passes each borrowed slice to `place`, always in the same order, and the new command
//! borrows what `place` returns. Nothing is parsed again.

use crate::classic::{Arithmetic, Delete, Store, Touch};
use crate::meta::{Meta, MetaFlags, MetaGet, MetaKey, MetaSet};

impl<'from> Store<'from> {
    /// The same command, borrowing from other bytes.
    pub fn relocate<'to>(&self, place: &mut impl FnMut(&'from [u8]) -> &'to [u8]) -> Store<'to> {
        let Store { verb, key, flags, exptime, length, noreply } = *self;
        Store { verb, key: place(key), flags, exptime, length, noreply }
    }
}

impl<'from> Delete<'from> {
    /// The same command, borrowing from other bytes.
    pub fn relocate<'to>(&self, place: &mut impl FnMut(&'from [u8]) -> &'to [u8]) -> Delete<'to> {
        Delete { key: place(self.key), hold_off: self.hold_off, noreply: self.noreply }
    }
}

impl<'from> Arithmetic<'from> {
    /// The same command, borrowing from other bytes.
    pub fn relocate<'to>(&self, place: &mut impl FnMut(&'from [u8]) -> &'to [u8]) -> Arithmetic<'to> {
        let Arithmetic { key, delta, direction, noreply } = *self;
        Arithmetic { key: place(key), delta, direction, noreply }
    }
}

impl<'from> Touch<'from> {
    /// The same command, borrowing from other bytes.
    pub fn relocate<'to>(&self, place: &mut impl FnMut(&'from [u8]) -> &'to [u8]) -> Touch<'to> {
        Touch { key: place(self.key), exptime: self.exptime, noreply: self.noreply }
    }
}

impl<'from> MetaKey<'from> {
    /// The same key, borrowing from other bytes.
    pub fn relocate<'to>(&self, place: &mut impl FnMut(&'from [u8]) -> &'to [u8]) -> MetaKey<'to> {
        MetaKey { text: place(self.text), form: self.form }
    }
}

impl<'from> MetaFlags<'from> {
    fn relocate<'to>(&self, place: &mut impl FnMut(&'from [u8]) -> &'to [u8]) -> MetaFlags<'to> {
        let MetaFlags { letters, text, exptime, vivify, recache, client_flags, .. } = *self;
        let MetaFlags { cas, cas_new, initial, delta, hold_off, mode, .. } = *self;
        let text = place(text);
        MetaFlags {
            letters,
            text,
            exptime,
            vivify,
            recache,
            client_flags,
            cas,
            cas_new,
            initial,
            delta,
            hold_off,
            mode,
        }
    }
}

impl<'from> MetaGet<'from> {
    fn relocate<'to>(&self, place: &mut impl FnMut(&'from [u8]) -> &'to [u8]) -> MetaGet<'to> {
        MetaGet { key: self.key.relocate(place), flags: self.flags.relocate(place) }
    }
}

impl<'from> Meta<'from> {
    /// The same command, borrowing from other bytes.
    pub fn relocate<'to>(&self, place: &mut impl FnMut(&'from [u8]) -> &'to [u8]) -> Meta<'to> {
        match self {
            Meta::Get(get) => Meta::Get(get.relocate(place)),
            Meta::Delete(delete) => Meta::Delete(delete.relocate(place)),
            Meta::Arithmetic(command, direction) => Meta::Arithmetic(command.relocate(place), *direction),
            Meta::Set(MetaSet { key, flags, mode, length }) => Meta::Set(MetaSet {
                key: key.relocate(place),
                flags: flags.relocate(place),
                mode: *mode,
                length: *length,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Command, Line, parse};

    /// Copies the bytes of a command, and relocates it to the copy.
    fn moved<T>(relocate: impl Fn(&mut dyn FnMut(&[u8]) -> &'static [u8]) -> T) -> T {
        let mut copies: Vec<&'static [u8]> = Vec::new();
        relocate(&mut |piece| {
            copies.push(piece.to_vec().leak());
            &[]
        });
        let mut copies = copies.into_iter();
        let whole = relocate(&mut |_| copies.next().unwrap());
        assert!(copies.next().is_none(), "the pieces come in the same order");
        whole
    }

    #[test]
    fn a_command_with_other_bytes_is_the_same_command() {
        for text in [
            "set key 1 2 3 noreply",
            "cas key 1 2 3 4",
            "delete key noreply",
            "incr key 5",
            "decr key 5 noreply",
            "touch key 100",
            "mg key v Oopaque k t",
            "mg a2V5 b v k",
            "mg key",
            "ms key 3 T0 F5 MA Oabc q",
            "md key q I T30",
            "ma key D5 MD J1 N0",
            "me key",
        ] {
            let command = parse(Line { text: text.as_bytes(), length: text.len() + 2 }).unwrap();
            let again = match command {
                Command::Store(store) => Command::Store(moved(|place| store.relocate(&mut &mut *place))),
                Command::Delete(delete) => Command::Delete(moved(|place| delete.relocate(&mut &mut *place))),
                Command::Arithmetic(step) => {
                    Command::Arithmetic(moved(|place| step.relocate(&mut &mut *place)))
                }
                Command::Touch(touch) => Command::Touch(moved(|place| touch.relocate(&mut &mut *place))),
                Command::Meta(meta) => Command::Meta(moved(|place| meta.relocate(&mut &mut *place))),
                Command::MetaDebug(key) => Command::MetaDebug(moved(|place| key.relocate(&mut &mut *place))),
                Command::Get(_) | Command::Server(_) => panic!("{text} is about one item"),
            };
            assert_eq!(format!("{again:?}"), format!("{command:?}"));
        }
    }
}
