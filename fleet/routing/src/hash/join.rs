//! A key with something appended.

use arrayvec::ArrayVec;

/// Room for every key that memcached's protocol allows (250 bytes), the longest salt, and a number.
const ROOM: usize = 512;

/// Calls `hash` with the joined parts. Only parts longer than any key with any salt need the heap.
pub(super) fn joined<T>(parts: [&[u8]; 2], hash: impl FnOnce(&[u8]) -> T) -> T {
    let mut stack = ArrayVec::<u8, ROOM>::new();
    if stack.try_extend_from_slice(parts[0]).is_ok() && stack.try_extend_from_slice(parts[1]).is_ok() {
        hash(&stack)
    } else {
        hash(&parts.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::{ROOM, joined};

    #[test]
    fn parts_of_all_lengths_come_out_whole() {
        for first in [0, 1, 250, ROOM - 1, ROOM, ROOM + 1] {
            for second in [0, 1, 2, ROOM] {
                let (first, second) = (vec![b'k'; first], vec![b's'; second]);
                let expected = [&first[..], &second].concat();
                assert_eq!(joined([&first, &second], <[u8]>::to_vec), expected);
            }
        }
    }
}
