//! Equal memory: how much to allow a server so that its process becomes as large as another's.
//!
//! memcached's `-m` bounds the items and not the process: the hash table, the threads' buffers and the heap come on
//! top. So two caches given the same number are not given the same memory, and comparing them would reward the one
//! that counts less. What the machine loses is the resident size, so that is made equal.

use crate::error::LoadError;
use crate::server::{Server, Spec};

/// Starts of the server that are spent on the search.
const TRIES: usize = 4;
const MIB: u64 = 1 << 20;

/// The memory to allow a server like `spec` so that it is about `target` bytes resident once `fill` has filled it.
///
/// # Errors
/// When a server cannot be started or filled.
pub fn fit(
    spec: &Spec,
    target: u64,
    fill: &mut dyn FnMut(&Server) -> Result<(), LoadError>,
) -> Result<u64, LoadError> {
    let mut resident = |memory: u64| -> Result<u64, LoadError> {
        let server = Server::start(&Spec { memory, ..spec.clone() })?;
        fill(&server)?;
        server.resident_bytes()
    };
    search(target, &mut resident)
}

/// Finds the memory whose resident size is nearest to `target`, in whole MiB, by correcting the last guess.
fn search(target: u64, resident: &mut dyn FnMut(u64) -> Result<u64, LoadError>) -> Result<u64, LoadError> {
    let mut memory = (target / MIB).max(1) * MIB;
    let mut best = (u64::MAX, memory);
    for _ in 0..TRIES {
        let size = resident(memory)?;
        let distance = size.abs_diff(target);
        if distance < best.0 {
            best = (distance, memory);
        }
        let error_mib = (size as f64 - target as f64) / MIB as f64;
        let next = (memory / MIB).saturating_add_signed(-(error_mib.round() as i64)).max(1) * MIB;
        if next == memory || distance < target / 200 {
            break;
        }
        memory = next;
    }
    Ok(best.1)
}

#[cfg(test)]
mod tests {
    use super::{MIB, search};

    #[test]
    fn finds_the_memory_of_a_server_with_overhead() {
        // A base of 4.6 MiB and 3 % on every item's byte.
        let mut starts = 0;
        let memory = search(64 * MIB, &mut |memory| {
            starts += 1;
            Ok(46 * MIB / 10 + memory + memory * 3 / 100)
        });
        assert_eq!(memory.unwrap() / MIB, 58);
        assert!(starts <= 4);
    }

    #[test]
    fn a_server_that_is_always_too_large_gets_the_least() {
        assert_eq!(search(4 * MIB, &mut |memory| Ok(9 * MIB + memory)).unwrap(), MIB);
    }
}
