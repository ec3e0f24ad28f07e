//! The memory limit of the requests and answers that handles keep.

use crate::outcome::{Answer, KeptAnswer, Outcome};

/// Limit of the memory that all handles of a worker use together. At this limit, further requests
/// are refused as busy, and answers are kept as errors of the router.
const KEPT_MAX: usize = 256 << 20;
/// The longest value that is joined from pieces.
const JOINED_MAX: usize = 64 << 20;

/// How many bytes are kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    bytes: usize,
}

impl Kept {
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= KEPT_MAX
    }

    /// A request is kept in any case: the last one may be more than there is room for.
    pub(super) fn adds(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    fn takes(&mut self, bytes: usize) -> bool {
        let fits = bytes <= KEPT_MAX.saturating_sub(self.bytes);
        self.bytes += if fits { bytes } else { 0 };
        fits
    }

    pub(super) fn gives_back(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    /// Keeps an answer, and adds what it takes to `of_frame`.
    pub(super) fn answer(&mut self, answer: &Answer<'_>, of_frame: &mut usize) -> KeptAnswer {
        let bytes = answer.bytes();
        if self.takes(bytes) {
            *of_frame += bytes;
            KeptAnswer::of(answer)
        } else {
            KeptAnswer::of(&Answer::of(Outcome::LocalError))
        }
    }

    /// Keeps the value of an answer. `None` if there is no memory for it.
    pub(super) fn piece(&mut self, answer: &Answer<'_>, of_frame: &mut usize) -> Option<Box<[u8]>> {
        let value = answer.item.map_or(b"".as_slice(), |item| item.value);
        let is_taken = self.takes(value.len());
        *of_frame += if is_taken { value.len() } else { 0 };
        is_taken.then(|| value.into())
    }
}

/// Parts of a value, in any order.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pieces: Vec<(u32, Box<[u8]>)>,
    bytes: usize,
    missing: Missing,
}

/// Whether a piece could not be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Missing {
    #[default]
    None,
    Some,
}

impl Pieces {
    pub(super) fn keep(&mut self, number: u32, piece: Option<Box<[u8]>>) {
        let Some(piece) = piece.filter(|piece| piece.len() <= JOINED_MAX - self.bytes) else {
            self.missing = Missing::Some;
            return;
        };
        self.bytes += piece.len();
        self.pieces.push((number, piece));
    }

    /// The pieces in the order of their numbers, if all were kept.
    pub(super) fn join(mut self) -> Option<Box<[u8]>> {
        if self.missing == Missing::Some {
            return None;
        }
        self.pieces.sort_unstable_by_key(|(number, _)| *number);
        let mut value = Vec::with_capacity(self.bytes);
        self.pieces.iter().for_each(|(_, piece)| value.extend_from_slice(piece));
        Some(value.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Item;

    #[test]
    fn no_more_is_kept_than_there_may_be() {
        let mut kept = Kept::default();
        let value = vec![0; 1 << 20];
        let answer = Answer { item: Some(Item { flags: 1, value: &value }), ..Answer::of(Outcome::Found) };
        let mut bytes = 0;
        let answers: Vec<_> = (0..300).map(|_| kept.answer(&answer, &mut bytes)).collect();
        let held = answers.iter().filter(|kept| kept.answer().outcome == Outcome::Found).count();
        assert_eq!((held, bytes), (256, 256 << 20));
        assert!(kept.is_full() && kept.piece(&answer, &mut bytes).is_none());
        kept.adds(7);
        assert!(kept.piece(&answer, &mut bytes).is_none());
        kept.gives_back(bytes);
        assert!(!kept.is_full() && kept.piece(&answer, &mut bytes).is_some());
    }

    #[test]
    fn pieces_are_joined_in_their_order_unless_one_is_missing() {
        let piece = |text: &[u8]| Some(text.into());
        let mut pieces = Pieces::default();
        for (number, text) in [(2, b"c"), (0, b"a"), (1, b"b")] {
            pieces.keep(number, piece(text));
        }
        assert_eq!(pieces.join().as_deref(), Some(b"abc".as_slice()));
        let mut pieces = Pieces::default();
        pieces.keep(0, piece(b"a"));
        pieces.keep(1, None);
        assert_eq!(pieces.join(), None);
        let mut pieces = Pieces::default();
        for number in 0..9 {
            pieces.keep(number, Some(vec![0; 8 << 20].into()));
        }
        assert_eq!(pieces.join(), None, "72 MiB are too much");
    }
}
