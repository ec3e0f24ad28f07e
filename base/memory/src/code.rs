//! The program's code, as part of its resident memory.

use rustix::mm::{Advice, madvise};
use std::fs;
use std::io;

/// Drops the program's code and constants from the resident memory of the process; the kernel maps them again from
/// its page cache when they are used, 64 KiB at a time. A server uses a small part of what its start did. Returns
/// their size in bytes.
///
/// Does nothing while the process is traced: breakpoints are changes of the code, and would be lost.
///
/// # Errors
/// If the kernel does not report where the code lies, or refuses, as it does for locked memory.
pub fn release_code() -> io::Result<usize> {
    let is_traced = |line: &str| line.strip_prefix("TracerPid:").is_some_and(|pid| pid.trim() != "0");
    if fs::read_to_string("/proc/self/status")?.lines().any(is_traced) {
        return Ok(0);
    }
    let program = fs::read_link("/proc/self/exe")?;
    let mut released = 0;
    for line in fs::read_to_string("/proc/self/maps")?.lines() {
        if let Some((start, end)) = code_of(line, &program.to_string_lossy()) {
            // SAFETY: a private mapping of the program's file without modified pages: dropped pages are read from the
            // file again.
            unsafe { madvise(std::ptr::without_provenance_mut(start), end - start, Advice::LinuxDontNeed) }?;
            released += end - start;
        }
    }
    Ok(released)
}

/// The address range in `line` of `/proc/self/maps`, if it holds code or constants of `program`. Constants with
/// addresses in them were writable when the program was loaded, and are not at the beginning of its file.
fn code_of(line: &str, program: &str) -> Option<(usize, usize)> {
    let words: Vec<&str> = line.splitn(6, ' ').collect();
    let [range, rights, offset, _, _, path] = words[..] else {
        return None;
    };
    let (start, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let is_constant = rights == "r-xp" || rights == "r--p" && number(offset) == Some(0);
    if is_constant && path.trim_start() == program { Some((number(start)?, number(end)?)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::{code_of, release_code};

    #[test]
    fn only_the_programs_own_code_is_released() {
        let line = "55e32de90000-55e32e3aa000 r-xp 001a1000 fe:00 9994242                    /usr/bin/a b";
        assert_eq!(code_of(line, "/usr/bin/a b"), Some((0x55e3_2de9_0000, 0x55e3_2e3a_a000)));
        assert_eq!(code_of(line, "/usr/bin/a"), None);
        let constants = line.replace("r-xp", "r--p");
        assert_eq!(code_of(&constants, "/usr/bin/a b"), None);
        assert!(code_of(&constants.replace("001a1000", "00000000"), "/usr/bin/a b").is_some());
        assert_eq!(code_of(&line.replace("r-xp", "rwxp"), "/usr/bin/a b"), None);
        assert_eq!(code_of("7fff44e10000-7fff44e31000 rw-p 00000000 00:00 0 [stack]", "/usr/bin/a b"), None);
        assert_eq!(code_of("", ""), None);
    }

    #[test]
    fn a_program_goes_on_without_its_code() {
        assert!(release_code().unwrap() > 0);
        assert!(release_code().unwrap() > 0);
    }
}
