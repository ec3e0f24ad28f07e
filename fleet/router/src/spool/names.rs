//! Folders and files of logged deletes, as mcrouter names them:
//! `<folder>/<YYYYMMDD>T<HH>-<hour>/<YYYYMMDD>T<HHMMSS>-<time>-<service>-<router>-t<thread>-<pointer>`, with times in seconds since 1970.
//!
//! mcrouter writes dates in local time, this router in UTC; the seconds behind them are the same.
//! The pointer is replaced by a random number that is no valid pointer. So names are unique, and
//! the files of mcrouter, which locks none of them, can be recognized. The names of a router's
//! files sort in the order in which it started them.

use guira_disk as disk;
use guira_sync::random;
use std::io;
use std::path::{Path, PathBuf};

/// mcrouter starts a new file after this many seconds, and so does this router.
pub(crate) const LIFETIME_S: u64 = 15 * 60;
/// mcrouter no longer writes to a file that is older than its lifetime by this much.
const MARGIN_S: u64 = 60;
const HOUR_S: u64 = 60 * 60;
/// The highest four bits of the number in our names.
const OURS: u64 = 0xf << 60;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogFile {
    /// When the file was started.
    pub(crate) since: u64,
    pub(crate) path: PathBuf,
    author: By,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Us,
    Mcrouter,
}

impl LogFile {
    /// Whether no process writes to the file, as far as its name shows. A writer of this router
    /// holds a lock.
    pub(crate) fn is_finished(&self, now: u64) -> bool {
        self.author == By::Us || now > self.since + LIFETIME_S + MARGIN_S
    }

    /// The name of the folder, and that of the file.
    pub(crate) fn name(&self) -> String {
        let part = |path: Option<&std::ffi::OsStr>| path.unwrap_or_default().to_string_lossy().into_owned();
        let folder = part(self.path.parent().and_then(Path::file_name));
        format!("{folder}/{}", part(self.path.file_name()))
    }
}

/// The year, month and day of a day since 1970 (Howard Hinnant, chrono-compatible low-level date
/// algorithms).
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * era + year + carry, month, day_of_year - (153 * ((month + 9) % 12) + 2) / 5 + 1)
}

fn date_and_hour(now: u64) -> String {
    let (year, month, day) = date(now / (24 * HOUR_S));
    format!("{year:04}{month:02}{day:02}T{:02}", now / HOUR_S % 24)
}

/// The folder of files that are started at this time.
pub(crate) fn folder_name(now: u64) -> String {
    format!("{}-{}", date_and_hour(now), now - now % HOUR_S)
}

/// Generates the names of a router's files.
#[derive(Clone, Debug)]
pub(crate) struct Naming {
    service: String,
    router: String,
    number: u64,
}

/// This many files of a router sort in their order, more than it can start in a second.
const IN_ORDER: u64 = 1 << 20;

impl Naming {
    pub(crate) fn new(service: &str, router: &str) -> Self {
        let number = OURS | (random::seed() & !(OURS | (IN_ORDER - 1)));
        Naming { service: service.to_owned(), router: router.to_owned(), number }
    }

    /// The name of a file that is started at this time.
    pub(crate) fn next(&mut self, now: u64, thread: i32) -> String {
        let Naming { service, router, number } = self;
        let (minute, second) = (now / 60 % 60, now % 60);
        let name = format!(
            "{}{minute:02}{second:02}-{now}-{service}-{router}-t{thread}-{number:#x}",
            date_and_hour(now)
        );
        *number = *number & !(IN_ORDER - 1) | (*number + 1) & (IN_ORDER - 1);
        name
    }
}

/// The rest behind a date with the hour and this many digits of time, if the text starts with one.
fn after_date(text: &str, time_digits: usize) -> Option<&str> {
    let (date, rest) = text.split_once('-')?;
    let (day, time) = date.split_once('T')?;
    let has_digits =
        |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    (has_digits(day, 8) && has_digits(time, time_digits)).then_some(rest)
}

fn read_name(path: PathBuf) -> Option<LogFile> {
    let name = path.file_name()?.to_str()?;
    let (since, rest) = after_date(name, 6)?.split_once('-')?;
    let (_, pointer) = rest.rsplit_once("-0x")?;
    let number = u64::from_str_radix(pointer, 16).ok();
    let is_ours = pointer.len() == 16 && number.is_some_and(|number| number & OURS == OURS);
    let author = if is_ours { By::Us } else { By::Mcrouter };
    Some(LogFile { since: since.parse().ok()?, path, author })
}

/// All files of a folder, the oldest first. Files with other names are ignored.
pub(crate) fn list(folder: &Path) -> io::Result<Vec<LogFile>> {
    let mut files = Vec::new();
    for hour in disk::read_dir(folder)? {
        let hour = hour?;
        let name = hour.file_name();
        let is_hour = name.to_str().and_then(|name| after_date(name, 2)).is_some();
        if !is_hour {
            continue;
        }
        match disk::read_dir(hour.path()) {
            Ok(entries) => files.extend(entries.filter_map(|entry| read_name(entry.ok()?.path()))),
            // Another process has removed the folder with its last file; or the path is no folder.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error),
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_mcrouter() {
        assert_eq!(folder_name(1_289_416_829), "20101110T19-1289415600");
        let mut naming = Naming::new("www", "web-1");
        let name = naming.next(1_289_416_829, 77);
        let number = name.strip_prefix("20101110T192029-1289416829-www-web-1-t77-0xf").expect(&name);
        assert!(number.len() == 15 && number.bytes().all(|digit| digit.is_ascii_hexdigit()), "{name}");
        assert!(name < naming.next(1_289_416_829, 77));
        assert_ne!(name, Naming::new("www", "web-1").next(1_289_416_829, 77));
        for (seconds, expected) in [
            (0, "19700101T00"),
            (951_782_400, "20000229T00"),
            (951_868_799, "20000229T23"),
            (951_868_800, "20000301T00"),
            (4_107_542_399, "21000228T23"),
            (4_107_542_400, "21000301T00"),
            (1_735_689_599, "20241231T23"),
        ] {
            assert_eq!(date_and_hour(seconds), expected);
        }
    }

    #[test]
    fn files_are_listed_by_age_and_others_left_alone() {
        let folder = std::env::temp_dir().join(format!("guira-router-names-{}", std::process::id()));
        let hour = folder.join("20101110T19-1289415600");
        disk::create_dir_all(&hour).unwrap();
        disk::create_dir_all(folder.join("20101110T18-1289412000")).unwrap();
        disk::create_dir_all(folder.join(".replay")).unwrap();
        disk::write(folder.join(".replay/20101110T192029-1289416829-a-b-t1-0x1"), "").unwrap();
        let ours = Naming::new("a-b", "c").next(1_289_416_830, 1);
        for name in
            [&ours, "20101110T192029-1289416829-unknown-5000-t9-0x7f12a0c0", "other", "20101110T192029-x"]
        {
            disk::write(hour.join(name), "").unwrap();
        }
        let last = Naming::new("s", "r").next(1_289_412_000, 2);
        disk::write(folder.join("20101110T18-1289412000").join(&last), "").unwrap();
        let files = list(&folder).unwrap();
        let since: Vec<u64> = files.iter().map(|file| file.since).collect();
        assert_eq!(since, [1_289_412_000, 1_289_416_829, 1_289_416_830]);
        let finished = |now| files.iter().map(|file| file.is_finished(now)).collect::<Vec<_>>();
        assert_eq!(finished(1_289_416_830), [true, false, true]);
        assert_eq!(finished(1_289_416_829 + 961), [true, true, true]);
        assert_eq!(files[2].name(), format!("20101110T19-1289415600/{ours}"));
        disk::remove_dir_all(&folder).unwrap();
    }
}
