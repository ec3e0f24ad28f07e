//! What the process has in memory though it holds nothing: code, constants, and what its start has left behind.

use rustix::mm::{Advice, madvise};
use rustix::param::page_size;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Code is mapped again in pieces of this size, or smaller ones: of 64 KiB, nearly twice as much came back.
const PIECE: usize = 16 * crate::KIB;

/// The main thread's frames are left alone as far as this below the present one.
const STACK_LEFT: usize = 16 * crate::KIB;

/// Drops code and constants of the program and its libraries from the resident memory of the process; the kernel maps them again from its page
/// cache when they are used. A server uses a small part of what its start did. Returns their size in bytes.
///
/// The kernel maps what lies around as well: 64 KiB, and Linux 6.18 much more if the page cache has it in one piece, but no more than one mapping.
/// So there are many from now on, of 16 KiB each.
///
/// Mappings with changed pages are left as they are: where a debugger has set breakpoints these would be lost.
///
/// # Errors
/// If the kernel does not report where the code lies, or refuses, as it does for locked memory.
pub fn release_code() -> io::Result<usize> {
    let mut released = 0;
    let piece = PIECE.max(page_size());
    let pagemap = fs::File::open("/proc/self/pagemap")?;
    for range in code_of(&fs::read_to_string("/proc/self/maps")?) {
        if is_changed(&pagemap, &range)? {
            continue;
        }
        // SAFETY: a private mapping of a file of the program, without modified pages: dropped pages are read from the file again. Libraries are
        // never unloaded.
        unsafe {
            madvise(std::ptr::without_provenance_mut(range.start), range.len(), Advice::LinuxDontNeed)
        }?;
        released += range.len();
        for begin in range.clone().step_by(piece).skip(1).step_by(2) {
            let bytes = piece.min(range.end - begin);
            // SAFETY: changes nothing but what is dumped, and code never is. Neighbours with another setting are other mappings.
            unsafe { madvise(std::ptr::without_provenance_mut(begin), bytes, Advice::LinuxDontDump) }?;
        }
    }
    Ok(released)
}

/// The mappings in the text of `/proc/self/maps` that hold code or constants of a program or of a library.
fn code_of(maps: &str) -> Vec<Range<usize>> {
    let mappings: Vec<Mapping<'_>> = maps.lines().filter_map(Mapping::of).collect();
    let is_file = |mapping: &&Mapping<'_>| mapping.path.starts_with('/');
    let programs: HashSet<&str> = mappings
        .iter()
        .filter(is_file)
        .filter(|mapping| mapping.rights == "r-xp")
        .map(|mapping| mapping.path)
        .collect();
    let is_code =
        |mapping: &&Mapping<'_>| matches!(mapping.rights, "r-xp" | "r--p") && programs.contains(mapping.path);
    mappings.iter().filter(is_code).map(|mapping| mapping.range.clone()).collect()
}

/// Whether pages of a private mapping of a file are others than those of the file.
fn is_changed(pagemap: &fs::File, range: &Range<usize>) -> io::Result<bool> {
    // Documentation/admin-guide/mm/pagemap.rst: a word for each page, with bits for the file's own, for what is swapped out, and for what is present.
    const OF_FILE: u64 = 1 << 61;
    const IS_THERE: u64 = 1 << 62 | 1 << 63;
    let page = page_size();
    let mut words = vec![0; range.len() / page * size_of::<u64>()];
    pagemap.read_exact_at(&mut words, (range.start / page * size_of::<u64>()) as u64)?;
    let words = words
        .chunks_exact(size_of::<u64>())
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    Ok(words.into_iter().any(|word| word & IS_THERE != 0 && word & OF_FILE == 0))
}

/// A line of `/proc/self/maps`.
struct Mapping<'t> {
    range: Range<usize>,
    rights: &'t str,
    path: &'t str,
}

impl<'t> Mapping<'t> {
    fn of(line: &'t str) -> Option<Self> {
        let words: Vec<&str> = line.splitn(6, ' ').collect();
        let [range, rights, _, _, _, path] = words[..] else {
            return None;
        };
        let (start, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some(Mapping { range: number(start)?..number(end)?, rights, path: path.trim_start() })
    }
}

/// Drops what deep calls of the past have left of the main thread's stack; nothing on another thread. Returns its size in bytes, or 0.
///
/// # Errors
/// If the kernel does not report where the stack lies, or refuses, as it does for locked memory.
pub fn release_stack() -> io::Result<usize> {
    let local = 0u8;
    let here = std::ptr::from_ref(&local).addr();
    let maps = fs::read_to_string("/proc/self/maps")?;
    let stack = maps.lines().filter_map(Mapping::of).find(|mapping| mapping.path == "[stack]");
    let Some(Mapping { range, .. }) = stack.filter(|stack| stack.range.contains(&here)) else {
        return Ok(0);
    };
    let end = (here - STACK_LEFT) & !(page_size() - 1);
    if end <= range.start {
        return Ok(0);
    }
    // SAFETY: this thread's stack, below all frames in use, including those of this call and of a signal's handler. Whoever calls deeper
    // finds zeroes where nothing was written yet.
    unsafe {
        madvise(std::ptr::without_provenance_mut(range.start), end - range.start, Advice::LinuxDontNeed)
    }?;
    Ok(end - range.start)
}

/// Gives back what the system library keeps of memory that was freed.
pub fn release_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: has no requirements.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(miri))]
#[cfg(test)]
mod tests {
    use super::{Mapping, code_of, is_changed, release_code, release_heap, release_stack};
    use std::fs;

    fn mapping(rights: &str, path: &str) -> String {
        format!("55e32de90000-55e32e3aa000 {rights} 001a1000 fe:00 9994242                    {path}\n")
    }

    #[test]
    fn only_code_and_constants_of_programs_are_released() {
        let code = mapping("r-xp", "/usr/bin/a b");
        let range = 0x55e3_2de9_0000..0x55e3_2e3a_a000;
        assert_eq!(code_of(&code), std::slice::from_ref(&range));
        for other in [
            mapping("rwxp", "/usr/bin/a b"),
            mapping("r-xp", "[vdso]"),
            mapping("r--p", "/usr/share/no program"),
            mapping("r--s", "/usr/bin/a b"),
            mapping("rw-p", "[stack]"),
            String::new(),
        ] {
            assert_eq!(code_of(&other), [], "{other}");
            assert_eq!(code_of(&format!("{other}{code}{other}")).len(), 1, "{other}");
        }
        let constants = mapping("r--p", "/usr/bin/a b");
        assert_eq!(code_of(&format!("{constants}{code}")), [range.clone(), range]);
    }

    #[test]
    fn what_the_loader_has_changed_is_told_from_the_file() {
        let (maps, pagemap) =
            (fs::read_to_string("/proc/self/maps").unwrap(), fs::File::open("/proc/self/pagemap").unwrap());
        let program = fs::read_link("/proc/self/exe").unwrap();
        let own: Vec<Mapping<'_>> = maps
            .lines()
            .filter_map(Mapping::of)
            .filter(|one| one.path == program.to_string_lossy())
            .collect();
        let is_changed = |rights| {
            let of_these = own.iter().filter(|mapping| mapping.rights == rights);
            of_these.map(|mapping| is_changed(&pagemap, &mapping.range).unwrap()).collect::<Vec<_>>()
        };
        assert!(is_changed("r-xp").iter().all(|changed| !changed));
        assert!(is_changed("rw-p").contains(&true));
    }

    #[test]
    fn a_program_goes_on_without_its_code() {
        assert!(release_code().unwrap() > 0);
        assert!(release_code().unwrap() > 0);
    }

    #[test]
    fn a_program_goes_on_without_what_is_free() {
        release_heap();
        // Tests do not run on the main thread.
        assert_eq!(release_stack().unwrap(), 0);
    }
}
