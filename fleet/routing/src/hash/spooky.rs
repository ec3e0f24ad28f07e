//! SpookyHash V2 (Bob Jenkins, 2012), by which mcrouter decides with a probability: whether a key stays with a server of less than full weight,
//! and whether it is shadowed. Its configurations hash strings by it.

const CONSTANT: u64 = 0xdead_beef_dead_beef;
const WORDS: usize = 12;
const BLOCK: usize = WORDS * size_of::<u64>();
const SHORT: usize = 2 * BLOCK;

/// The hash of 64 bits.
pub fn hash64(message: &[u8], seed: u64) -> u64 {
    if message.len() < SHORT { short(message, seed) } else { long(message, seed) }
}

/// Its low 32 bits.
pub fn hash32(message: &[u8], seed: u32) -> u32 {
    hash64(message, seed.into()) as u32
}

fn short(message: &[u8], seed: u64) -> u64 {
    let mut state = [seed, seed, CONSTANT, CONSTANT];
    let (pairs, rest) = message.as_chunks::<16>();
    for (number, pair) in pairs.iter().enumerate() {
        // The first 16 bytes of every 32 go to one half of the state and are mixed, the last 16 go to the other.
        let first = if number % 2 == 0 { 2 } else { 0 };
        add_pair(&mut state, first, pair);
        if first == 2 {
            short_mix(&mut state);
        }
    }
    state[3] = state[3].wrapping_add((message.len() as u64) << 56);
    if rest.is_empty() {
        state[2] = state[2].wrapping_add(CONSTANT);
        state[3] = state[3].wrapping_add(CONSTANT);
    } else {
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        add_pair(&mut state, 2, &last);
    }
    short_end(&mut state);
    state[0]
}

fn add_pair(state: &mut [u64; 4], first: usize, bytes: &[u8; 16]) {
    let (words, _) = bytes.as_chunks::<8>();
    for (part, word) in state[first..].iter_mut().zip(words) {
        *part = part.wrapping_add(u64::from_le_bytes(*word));
    }
}

fn short_mix(state: &mut [u64; 4]) {
    const ROTATIONS: [u32; 12] = [50, 52, 30, 41, 54, 48, 38, 37, 62, 34, 5, 36];
    for (step, by) in ROTATIONS.into_iter().enumerate() {
        let [to, at, from] = [0, 2, 3].map(|part| (step + part) % 4);
        state[at] = state[at].rotate_left(by).wrapping_add(state[from]);
        state[to] ^= state[at];
    }
}

fn short_end(state: &mut [u64; 4]) {
    const ROTATIONS: [u32; 11] = [15, 52, 26, 51, 28, 9, 47, 54, 32, 25, 63];
    for (step, by) in ROTATIONS.into_iter().enumerate() {
        let [at, to] = [2, 3].map(|part| (step + part) % 4);
        state[to] ^= state[at];
        state[at] = state[at].rotate_left(by);
        state[to] = state[to].wrapping_add(state[at]);
    }
}

fn long(message: &[u8], seed: u64) -> u64 {
    let mut state = [0; WORDS];
    for three in state.as_chunks_mut::<3>().0 {
        *three = [seed, seed, CONSTANT];
    }
    let (blocks, rest) = message.as_chunks::<BLOCK>();
    for block in blocks {
        mix(&mut state, block);
    }
    let mut last = [0; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    last[BLOCK - 1] = rest.len() as u8;
    for (part, word) in state.iter_mut().zip(last.as_chunks::<8>().0) {
        *part = part.wrapping_add(u64::from_le_bytes(*word));
    }
    for _ in 0..3 {
        end(&mut state);
    }
    state[0]
}

fn mix(state: &mut [u64; WORDS], block: &[u8; BLOCK]) {
    const ROTATIONS: [u32; WORDS] = [11, 32, 43, 31, 17, 28, 39, 57, 55, 54, 22, 46];
    for ((at, word), by) in block.as_chunks::<8>().0.iter().enumerate().zip(ROTATIONS) {
        let [next, after_next, two_before, before] = [1, 2, 10, 11].map(|part| (at + part) % WORDS);
        state[at] = state[at].wrapping_add(u64::from_le_bytes(*word));
        state[after_next] ^= state[two_before];
        state[before] ^= state[at];
        state[at] = state[at].rotate_left(by);
        state[before] = state[before].wrapping_add(state[next]);
    }
}

fn end(state: &mut [u64; WORDS]) {
    const ROTATIONS: [u32; WORDS] = [44, 15, 34, 21, 38, 33, 10, 13, 38, 53, 42, 54];
    for (at, by) in ROTATIONS.into_iter().enumerate() {
        let [next, after_next, before] = [1, 2, 11].map(|part| (at + part) % WORDS);
        state[before] = state[before].wrapping_add(state[next]);
        state[after_next] ^= state[before];
        state[next] = state[next].rotate_left(by);
    }
}

#[cfg(test)]
mod tests {
    use super::{hash32, hash64};

    /// facebook/folly, folly/test/SpookyHashV2Test.cpp at 0dacfa4764aebfc5a716c3955963871d8166c56b: messages that count up from 128, by length.
    #[test]
    fn follys_vectors() {
        let message: Vec<u8> = (0..512).map(|number| (number + 128) as u8).collect();
        for (length, expected) in [
            (0, 0x6bf5_0919),
            (1, 0x70de_1d26),
            (2, 0xa2b3_7298),
            (3, 0x35bc_5fbf),
            (4, 0x8223_b279),
            (5, 0x5bcb_315e),
            (7, 0xf9f1_a233),
            (8, 0xee19_3982),
            (9, 0x54f8_6f29),
            (11, 0x9ed6_0886),
            (12, 0x5f23_d1da),
            (13, 0x1ed9_f474),
            (15, 0x83ec_01f9),
            (16, 0xf274_736c),
            (17, 0x7e9a_c0df),
            (31, 0x027b_ca7c),
            (32, 0xe5cf_c8b6),
            (33, 0xce01_d9d7),
            (48, 0x390e_5fdc),
            (64, 0x069c_8bb7),
            (65, 0x6f9d_4e1e),
            (128, 0x94e9_48ec),
            (191, 0xe13d_9e19),
            (192, 0x77e0_12bd),
            (193, 0x2d05_114c),
            (256, 0x38ce_bf03),
            (287, 0xc22c_642d),
            (288, 0x4788_0140),
            (289, 0xfbff_3bec),
            (383, 0x4827_f45c),
            (384, 0x44eb_5634),
            (511, 0xcc1c_8250),
        ] {
            assert_eq!(hash32(&message[..length], 0), expected, "length {length}");
        }
    }

    /// What Presto's spooky_hash_v2_64 says: facebookincubator/velox, velox/functions/prestosql/tests/BinaryFunctionsTest.cpp.
    #[test]
    fn prestos_vectors() {
        for (text, expected) in [
            ("", 0x2327_06fc_6bf5_0919),
            ("hello", 0x3768_826a_d382_e6ca),
            ("       ", 0x8a63_cce3_4db3_fc9e),
            ("special_#@,$|%/^~?{}+-", 0xaaf4_b42d_dc33_e6f0),
            ("1234567890", 0xd942_6f48_c5cd_219b),
            ("more_than_12_characters_string", 0x3493_ae21_b95f_627c),
        ] {
            assert_eq!(hash64(text.as_bytes(), 0), expected, "{text:?}");
        }
    }
}
