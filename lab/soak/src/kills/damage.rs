//! Changing bits of a region while no server uses it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use guira_workload::Rng;
use rustix::fs::{SeekFrom, seek};

/// The server's own, at the start of the file: damaged, it empties the region.
const HEAD: u64 = 64 << 10;

/// How many bits change at the most.
const FLIPS: u64 = 8;

/// Changes some bits of what the file at `path` holds.
pub(super) fn flip(path: &Path, random: &mut Rng) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot damage {}: {error}", path.display());
    let file = File::options().read(true).write(true).open(path).map_err(|error| failed(&error))?;
    let mut parts = Vec::new();
    let mut at = HEAD;
    while let Ok(from) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(from)).map_err(|error| failed(&error))?;
        parts.push(from..at);
    }
    let length: u64 = parts.iter().map(|part| part.end - part.start).sum();
    // Each hits another bit, so that none is undone.
    for flip in 0..1 + random.below(FLIPS) {
        let mut place = random.below(length / FLIPS) * FLIPS + flip;
        let part = parts.iter().find(|part| {
            let behind = place >= part.end - part.start;
            place -= if behind { part.end - part.start } else { 0 };
            !behind
        });
        let at = part.map_or(HEAD, |part| part.start + place);
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).map_err(|error| failed(&error))?;
        byte[0] ^= 1 << random.below(8);
        file.write_all_at(&byte, at).map_err(|error| failed(&error))?;
    }
    Ok(())
}
