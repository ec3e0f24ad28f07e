//! Bob Jenkins' lookup3 (2006), `hashlittle` from 13 on.

const INITIAL: u32 = 13;
const BLOCK: usize = 12;

pub(super) fn jenkins(key: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(key.len() as u32).wrapping_add(INITIAL);
    let mut state = [start; 3];
    let mut rest = key;
    while let Some((block, after)) = rest.split_first_chunk::<BLOCK>()
        && !after.is_empty()
    {
        add(&mut state, block);
        mix(&mut state);
        rest = after;
    }
    if !rest.is_empty() {
        let mut last = [0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        add(&mut state, &last);
        finish(&mut state);
    }
    state[2]
}

fn add(state: &mut [u32; 3], block: &[u8; BLOCK]) {
    let (words, _) = block.as_chunks::<4>();
    for (part, word) in state.iter_mut().zip(words) {
        *part = part.wrapping_add(u32::from_le_bytes(*word));
    }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    step(a, b, c, 4);
    step(b, c, a, 6);
    step(c, a, b, 8);
    step(a, b, c, 16);
    step(b, c, a, 19);
    step(c, a, b, 4);
}

fn step(a: &mut u32, b: &u32, c: &mut u32, by: u32) {
    *a = a.wrapping_sub(*c) ^ c.rotate_left(by);
    *c = c.wrapping_add(*b);
}

fn finish([a, b, c]: &mut [u32; 3]) {
    last_step(c, b, 14);
    last_step(a, c, 11);
    last_step(b, a, 25);
    last_step(c, b, 16);
    last_step(a, c, 4);
    last_step(b, a, 14);
    last_step(c, b, 24);
}

fn last_step(to: &mut u32, from: &u32, by: u32) {
    *to = (*to ^ from).wrapping_sub(from.rotate_left(by));
}
