//! How much memory there is: the machine's, or what a container, or another control group, lets the process have of it.

use std::io;
use std::path::{Path, PathBuf};

/// A file of facts about the machine.
#[cfg(not(guira_simulated))]
fn read(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path)
}

/// All simulated machines have 16 GiB: a seed means the same on every real one.
#[cfg(guira_simulated)]
fn read(path: &Path) -> io::Result<String> {
    let is_memory = path == Path::new("/proc/meminfo");
    is_memory.then(|| "MemTotal: 16777216 kB".to_owned()).ok_or(io::ErrorKind::NotFound.into())
}

/// Bytes of memory that the machine has; `None` if it does not tell.
pub fn machine_memory() -> Option<usize> {
    let text = read(Path::new("/proc/meminfo")).ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: usize = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Bytes of memory that the process may take: the machine's, or the least limit of the control groups that it is in.
pub fn available_memory() -> Option<usize> {
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = limit_files(&groups, Path::new("/sys/fs/cgroup"));
    let limits = limits.into_iter().filter_map(|file| limit(&read(&file).ok()?));
    limits.chain(machine_memory()).min()
}

/// The limit in a file of a control group, if there is one.
fn limit(text: &str) -> Option<usize> {
    text.trim().parse().ok()
}

/// The files that may have a limit of the groups that a process is in, as the system tells these, and of those around them.
fn limit_files(groups: &str, root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (root, name) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // Inside a container the path may be one of the host's, which is not there.
        files.extend(
            Path::new(path.trim_start_matches('/')).ancestors().map(|group| root.join(group).join(name)),
        );
    }
    files
}

#[cfg(not(miri))]
#[cfg(test)]
mod tests {
    use super::*;

    fn names(groups: &str) -> Vec<String> {
        let files = limit_files(groups, Path::new("/r"));
        files.iter().map(|file| file.display().to_string()).collect()
    }

    #[test]
    fn limits_are_looked_for_in_all_groups_around_the_process() {
        assert_eq!(names("0::/\n"), ["/r/memory.max"]);
        assert_eq!(
            names("0::/system.slice/guira.service\n"),
            ["/r/system.slice/guira.service/memory.max", "/r/system.slice/memory.max", "/r/memory.max"]
        );
        assert_eq!(
            names("5:cpu,memory:/docker/abc\n3:freezer:/x\nnothing\n"),
            [
                "/r/memory/docker/abc/memory.limit_in_bytes",
                "/r/memory/docker/memory.limit_in_bytes",
                "/r/memory/memory.limit_in_bytes"
            ]
        );
    }

    #[test]
    fn a_group_without_a_limit_limits_nothing() {
        assert_eq!((limit("max\n"), limit("1048576\n"), limit("")), (None, Some(1 << 20), None));
        let (machine, available) = (machine_memory().unwrap(), available_memory().unwrap());
        assert!(available <= machine && machine > 64 << 20, "{available} of {machine}");
    }
}
