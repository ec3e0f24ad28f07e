//! The spool of a target: batches on disk for a later delivery, in a folder of files. Each file is
//! written once, and removed when all of it was delivered.
//!
//! When [`Spool::append`] returns, its batches are synced. A crash may leave a torn group at the
//! end of a file; that group was never acknowledged, and is read from the log again.

use super::spool_file::{
    Form, GROUP_HEAD, HEAD, Record, Whole, files, group, group_length, lengths, read_record, whole,
};
use crate::batch::Work;
use crate::position::{Lock, PositionError, lock};
use guira_disk::{self as disk, File, OpenOptionsExt};
use guira_sync::simulated::{is_planted, sometimes};
use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const ENDING: &str = "spool";
const LOCK: &str = "lock";
/// A file of this size is followed by another.
const FILE_MAX: u64 = 8 << 20;
/// The most bytes of a key with its length. The heads of a record and of its group take less.
pub(super) const RECORD_KEY_MAX: u64 = 250 + 2;

#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    #[error("cannot {action} {path}")]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    InUse(#[from] PositionError),
    #[error(
        "spool file {0} is corrupt; deletes for this target are lost. Flush its caches and remove the file"
    )]
    Damaged(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    file: u64,
    offset: u64,
}

/// A file of the spool; bytes behind `length` are ignored.
#[derive(Debug)]
struct Segment {
    number: u64,
    form: Form,
    length: u64,
    /// The length of the file before its first batch.
    begun: u64,
}

/// The open spool of a target.
#[derive(Debug)]
pub(crate) struct Spool {
    folder: PathBuf,
    bytes_max: u64,
    segments: VecDeque<Segment>,
    /// The last segment, while it may still grow.
    writer: Option<File>,
    reader: Option<BufReader<File>>,
    /// The end of the last record that was read.
    read: Place,
    /// The end of the group that the reader is in, if the file has groups.
    group_end: u64,
    next: u64,
    _lock: Lock,
}

fn sync(file: &File) -> io::Result<()> {
    if is_planted("spool-unsynced") { Ok(()) } else { file.sync_data() }
}

fn sync_entries(folder: &Path) -> io::Result<()> {
    if is_planted("spool-folder-unsynced") { Ok(()) } else { File::open(folder)?.sync_all() }
}

impl Spool {
    /// Opens the folder of a target, which is created if it is missing. Reads all of its files
    /// once.
    pub(crate) fn open(folder: &Path, bytes_max: u64) -> Result<Self, SpoolError> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| SpoolError::File { action, path, source }
        };
        disk::create_dir_all(folder).map_err(failed("make", folder))?;
        // Without this sync a crash of the host could remove a new folder, and with it acknowledged
        // batches.
        for above in folder.ancestors().skip(1).take(2).filter(|above| !above.as_os_str().is_empty()) {
            let synced = File::open(above).and_then(|above| above.sync_all());
            synced.map_err(failed("sync", above))?;
        }
        let lock = lock(&folder.join(LOCK))?;
        let mut numbers = Vec::new();
        for entry in disk::read_dir(folder).map_err(failed("read", folder))? {
            let name = entry.map_err(failed("read", folder))?.file_name();
            let number =
                name.to_str().and_then(|name| name.strip_suffix(ENDING)?.strip_suffix('.')?.parse().ok());
            numbers.extend::<Option<u64>>(number);
        }
        numbers.sort_unstable();
        let (mut segments, mut known) = (VecDeque::new(), HashMap::new());
        for number in numbers {
            let path = path(folder, number);
            let data = disk::read(&path).map_err(failed("read", &path))?;
            let whole = whole(&data).ok_or_else(|| SpoolError::Damaged(path.clone()))?;
            let Whole { form, length, before } = whole;
            let torn = (data.len() as u64).saturating_sub(length);
            if torn > 0 {
                sometimes("spool-ends-in-a-torn-write");
                // Operator: Nothing: these deletes are read again from the database's log.
                tracing::warn!(
                    "discarded {torn} bytes at the end of {}: an incomplete write before a crash, never \
                         acknowledged",
                    path.display()
                );
            }
            known.extend(before);
            segments.push_back(Segment { number, form, length, begun: 0 });
        }
        if let Some(short) = segments.iter().find(|it| known.get(&it.number) > Some(&it.length)) {
            return Err(SpoolError::Damaged(path(folder, short.number)));
        }
        let read = Place { file: segments.front().map_or(0, |it| it.number), offset: HEAD.len() as u64 };
        let next = segments.back().map_or(1, |it| it.number + 1);
        let folder = folder.to_owned();
        Ok(Spool {
            folder,
            bytes_max,
            segments,
            writer: None,
            reader: None,
            read,
            group_end: 0,
            next,
            _lock: lock,
        })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|it| it.length).sum()
    }

    pub(super) fn is_read(&self) -> bool {
        self.segments.back().is_none_or(|last| self.read >= Place { file: last.number, offset: last.length })
    }

    /// Adds all of this, or nothing.
    ///
    /// # Errors
    /// When the disk is full, or the spool has reached its maximum.
    pub(super) fn append<'a>(&mut self, work: impl Iterator<Item = &'a Work>) -> io::Result<()> {
        let records = group(work);
        if records.is_empty() {
            return Ok(());
        }
        if self.bytes() + records.len() as u64 > self.bytes_max {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the spool has reached its maximum size"));
        }
        if self.segments.back().is_some_and(|last| last.length >= FILE_MAX) {
            self.writer = None;
        }
        // After an error the bytes behind the file's length are unknown, so another file is
        // started.
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.begin()?,
        };
        if let Err(error) = writer.write_all(&records).and_then(|()| sync(&writer)) {
            sometimes("spool-cannot-be-written");
            self.take_back(&writer);
            return Err(error);
        }
        sometimes("deletes-spooled");
        self.writer = Some(writer);
        if let Some(last) = self.segments.back_mut() {
            last.length += records.len() as u64;
        }
        Ok(())
    }

    /// Removes a torn write, so that a full disk does not become fuller. If that fails too, the
    /// reader ignores those bytes.
    fn take_back(&mut self, writer: &File) {
        match self.segments.back() {
            Some(last) if last.length > last.begun => {
                let _ = writer.set_len(last.length);
            }
            Some(last) => {
                let _ = disk::remove_file(path(&self.folder, last.number));
                self.segments.pop_back();
            }
            None => {}
        }
    }

    fn begin(&mut self) -> io::Result<File> {
        let (number, path) = (self.next, path(&self.folder, self.next));
        self.next += 1;
        let mut file = File::options().create_new(true).append(true).mode(0o600).open(&path)?;
        let head = [&HEAD[..], &files(self.segments.iter().map(|it| (it.number, it.length)))].concat();
        let begun = file.write_all(&head).and_then(|()| sync_entries(&self.folder));
        if let Err(error) = begun {
            // A file without a group counts as missing, so it does no harm if it cannot be removed.
            let _ = disk::remove_file(&path);
            return Err(error);
        }
        let length = head.len() as u64;
        self.segments.push_back(Segment { number, form: Form::Groups, length, begun: length });
        Ok(file)
    }

    /// The next batch, and the end of its record.
    pub(super) fn next(&mut self) -> io::Result<Option<(Work, Place)>> {
        loop {
            match self.next_record()? {
                Some(Record::Work(work)) => return Ok(Some((work, self.read))),
                Some(Record::Files(_)) => {}
                None => return Ok(None),
            }
        }
    }

    fn next_record(&mut self) -> io::Result<Option<Record>> {
        let Some(form) = self.next_segment() else { return Ok(None) };
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => {
                let mut file = File::open(path(&self.folder, self.read.file))?;
                file.seek(SeekFrom::Start(self.read.offset))?;
                BufReader::new(file)
            }
        };
        let mut offset = self.read.offset;
        let mut group_end = self.group_end;
        if form == Form::Groups && offset >= group_end {
            let mut head = [0; GROUP_HEAD];
            reader.read_exact(&mut head)?;
            offset += GROUP_HEAD as u64;
            group_end = offset + group_length(&head).ok_or_else(changed)?;
        }
        let mut head = [0; 8];
        reader.read_exact(&mut head)?;
        let (length, sum) = lengths(&head).ok_or_else(changed)?;
        let mut payload = vec![0; length];
        reader.read_exact(&mut payload)?;
        let record = (crc32fast::hash(&payload) == sum).then(|| read_record(&payload)).flatten();
        let record = record.ok_or_else(changed)?;
        self.read.offset = offset + (head.len() + length) as u64;
        self.group_end = group_end;
        self.reader = Some(reader);
        Ok(Some(record))
    }

    /// Moves to the segment of the next record, if there is one; returns the form of its file.
    fn next_segment(&mut self) -> Option<Form> {
        loop {
            let at = self.segments.iter().position(|it| it.number >= self.read.file)?;
            let Segment { number, form, length, .. } = self.segments[at];
            if number == self.read.file && self.read.offset < length {
                return Some(form);
            }
            let following = if number > self.read.file { number } else { self.segments.get(at + 1)?.number };
            self.read = Place { file: following, offset: HEAD.len() as u64 };
            self.group_end = 0;
            self.reader = None;
        }
    }

    /// Removes the files of delivered batches: those before `place`. A file that cannot be removed is
    /// delivered again after a restart.
    pub(super) fn release(&mut self, place: Place) {
        while let Some(first) = self.segments.front() {
            let end = Place { file: first.number, offset: first.length };
            let is_last = self.segments.len() == 1;
            // The last file stays until it is full, unless it has been read to its end.
            if place < end || is_last && self.read < end {
                return;
            }
            if let Err(error) = disk::remove_file(path(&self.folder, first.number)) {
                // Operator: Check the permissions of the spool's folder.
                tracing::warn!(
                    "cannot remove a spool file; its deletes are sent again after a restart: {error}"
                );
            }
            if is_last {
                self.writer = None;
            }
            self.segments.pop_front();
        }
    }
}

fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a record of the spool is corrupt")
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:016}.{ENDING}"))
}

#[cfg(test)]
mod tests {
    use super::super::spool_file::HEAD_OF_RECORDS;
    use super::*;
    use guira_harness::scratch::Scratch;

    const MANY: u64 = 1 << 30;

    fn work(keys: &[&str]) -> Work {
        Work::Delete(keys.iter().map(|key| key.as_bytes().into()).collect())
    }

    fn read_all(spool: &mut Spool) -> Vec<String> {
        let mut all = Vec::new();
        while let Some((work, _)) = spool.next().unwrap() {
            all.push(match work {
                Work::Flush => "flush".to_owned(),
                Work::Delete(keys) => {
                    keys.iter().map(|key| String::from_utf8_lossy(key).into_owned() + " ").collect()
                }
            });
        }
        all
    }

    fn files(scratch: &Scratch) -> usize {
        disk::read_dir(scratch.file("east")).unwrap().count() - 1
    }

    #[test]
    fn what_was_added_is_read_in_order_also_by_the_next_process() {
        let scratch = Scratch::new();
        let folder = scratch.file("east");
        let mut spool = Spool::open(&folder, MANY).unwrap();
        assert!(spool.is_read());
        spool.append([&work(&["a", "b"]), &Work::Flush].into_iter()).unwrap();
        assert_eq!(read_all(&mut spool), ["a b ", "flush"]);
        spool.append([&work(&[""])].into_iter()).unwrap();
        assert!(!spool.is_read());
        assert!(matches!(Spool::open(&folder, MANY), Err(SpoolError::InUse(_))));
        drop(spool);
        let mut spool = Spool::open(&folder, MANY).unwrap();
        spool.append([&work(&["c"])].into_iter()).unwrap();
        assert_eq!(read_all(&mut spool), ["a b ", "flush", " ", "c "]);
        assert!(spool.is_read());
    }

    #[test]
    fn files_are_removed_once_they_are_delivered() {
        let scratch = Scratch::new();
        let folder = scratch.file("east");
        let mut spool = Spool::open(&folder, MANY).unwrap();
        let long = "k".repeat(250);
        let keys: Vec<&str> = vec![&long; 5000];
        for _ in 0..16 {
            spool.append([&work(&keys)].into_iter()).unwrap();
        }
        assert!(files(&scratch) >= 2 && spool.bytes() > FILE_MAX);
        let mut last = None;
        for _ in 0..8 {
            last = spool.next().unwrap();
        }
        spool.release(last.unwrap().1);
        assert_eq!(files(&scratch), 2, "the first is gone");
        while let Some((_, place)) = spool.next().unwrap() {
            spool.release(place);
        }
        assert_eq!((files(&scratch), spool.bytes()), (0, 0));
        spool.append([&work(&["a"])].into_iter()).unwrap();
        assert_eq!(read_all(&mut spool), ["a "], "it begins anew");
    }

    /// A closed spool with two groups: its folder, its file, the bytes of the file, and the end of
    /// the first group.
    fn two_groups(scratch: &Scratch) -> (PathBuf, PathBuf, Vec<u8>, usize) {
        let folder = scratch.file("east");
        let mut spool = Spool::open(&folder, MANY).unwrap();
        spool.append([&work(&["first"]), &work(&["second"])].into_iter()).unwrap();
        let first = spool.bytes() as usize;
        spool.append([&work(&["third"]), &work(&["fourth"])].into_iter()).unwrap();
        let file = path(&folder, 1);
        let data = disk::read(&file).unwrap();
        (folder, file, data, first)
    }

    #[test]
    fn an_append_that_was_not_synced_is_left_out_whatever_there_is_of_it() {
        let scratch = Scratch::new();
        let (folder, file, data, first) = two_groups(&scratch);
        let read = |bytes: &[u8]| {
            disk::write(&file, bytes).unwrap();
            read_all(&mut Spool::open(&folder, MANY).unwrap())
        };
        assert_eq!(read(&data), ["first ", "second ", "third ", "fourth "]);
        for length in 0..data.len() {
            let expected = if length >= first { &["first ", "second "][..] } else { &[] };
            assert_eq!(read(&data[..length]), expected, "{length} bytes");
            // A later block may be written before an earlier one.
            if length >= HEAD.len() {
                let (from, all) = if length >= first { (length, data.len()) } else { (HEAD.len(), first) };
                let mut holes = data[..all].to_vec();
                holes[from..(from + 8).min(all)].fill(0);
                if holes != data[..all] {
                    assert_eq!(read(&holes), expected, "a hole at {from}");
                }
                assert_eq!(
                    read(&[&data[..length], &[0; 8192][..]].concat()),
                    expected,
                    "{length} bytes and zeros"
                );
            }
        }
        // 8 KiB were not written, but a record behind them was.
        let record = &group([&work(&["a"])].into_iter())[GROUP_HEAD..];
        let holes = [&data[..first], &[0; 8192][..], record].concat();
        assert_eq!(read(&holes), ["first ", "second "]);
        let mut spool = Spool::open(&folder, MANY).unwrap();
        spool.append([&work(&["next"])].into_iter()).unwrap();
        assert_eq!(read_all(&mut spool), ["first ", "second ", "next "]);
    }

    #[test]
    fn what_was_synced_and_is_damaged_is_refused() {
        let scratch = Scratch::new();
        let (folder, file, data, first) = two_groups(&scratch);
        for at in 0..first {
            let mut damaged = data.clone();
            damaged[at] ^= 1;
            disk::write(&file, damaged).unwrap();
            assert!(matches!(Spool::open(&folder, MANY), Err(SpoolError::Damaged(_))), "at {at}");
        }
    }

    /// A closed spool of three files with two groups each.
    fn three_files(scratch: &Scratch) -> PathBuf {
        let folder = scratch.file("east");
        let mut spool = Spool::open(&folder, MANY).unwrap();
        for number in 1..=3 {
            for half in ["a", "b"] {
                spool.append([&work(&[&format!("{number}{half}")])].into_iter()).unwrap();
            }
            spool.writer = None;
        }
        folder
    }

    #[test]
    fn what_is_missing_at_the_end_of_a_file_before_others_is_damage() {
        let scratch = Scratch::new();
        let folder = three_files(&scratch);
        let all = ["1a ", "1b ", "2a ", "2b ", "3a ", "3b "];
        assert_eq!(read_all(&mut Spool::open(&folder, MANY).unwrap()), all);
        for number in [1, 2] {
            let file = path(&folder, number);
            let data = disk::read(&file).unwrap();
            let is_damaged = |bytes: &[u8]| {
                disk::write(&file, bytes).unwrap();
                matches!(Spool::open(&folder, MANY), Err(SpoolError::Damaged(damaged)) if damaged == file)
            };
            assert!((0..data.len()).all(|length| is_damaged(&data[..length])), "file {number} is cut");
            for at in 0..data.len() {
                let mut damaged = data.clone();
                damaged[at] ^= 1;
                assert!(is_damaged(&damaged), "at {at} of file {number}");
            }
            // A failed append leaves bytes that were never acknowledged.
            assert!(!is_damaged(&[&data, &data[HEAD.len()..][..20]].concat()));
            assert_eq!(read_all(&mut Spool::open(&folder, MANY).unwrap()), all);
        }
    }

    #[test]
    fn the_end_of_the_last_file_may_be_torn_and_is_left_out_of_what_the_next_one_says() {
        let scratch = Scratch::new();
        let folder = three_files(&scratch);
        let file = path(&folder, 3);
        let data = disk::read(&file).unwrap();
        disk::write(&file, &data[..data.len() - 1]).unwrap();
        let mut spool = Spool::open(&folder, MANY).unwrap();
        spool.append([&work(&["4a"])].into_iter()).unwrap();
        drop(spool);
        let mut spool = Spool::open(&folder, MANY).unwrap();
        assert_eq!(read_all(&mut spool), ["1a ", "1b ", "2a ", "2b ", "3a ", "4a "]);
        assert!(spool.is_read());
    }

    #[test]
    fn files_of_before_are_read_and_their_damage_is_refused() {
        let scratch = Scratch::new();
        let folder = scratch.file("east");
        drop(Spool::open(&folder, MANY).unwrap());
        let file = path(&folder, 1);
        let records = group([&work(&["first"]), &work(&["second"])].into_iter());
        let data = [HEAD_OF_RECORDS, &records[GROUP_HEAD..]].concat();
        let second = HEAD.len() + 8 + 8;
        for length in 0..data.len() {
            disk::write(&file, &data[..length]).unwrap();
            let read = read_all(&mut Spool::open(&folder, MANY).unwrap());
            assert_eq!(read.len(), usize::from(length >= second), "{length} bytes");
            let zeros = [&data[..length], &[0; 30]].concat();
            if length <= HEAD.len() || length == second {
                disk::write(&file, zeros).unwrap();
                let read = read_all(&mut Spool::open(&folder, MANY).unwrap());
                assert_eq!(read.len(), usize::from(length >= second), "{length} bytes and zeros");
            }
        }
        for at in [0, 8, 14, 20] {
            let mut damaged = data.clone();
            damaged[at] ^= 1;
            disk::write(&file, damaged).unwrap();
            assert!(matches!(Spool::open(&folder, MANY), Err(SpoolError::Damaged(_))), "at {at}");
        }
    }

    #[test]
    fn a_spool_that_is_full_takes_all_or_nothing() {
        let scratch = Scratch::new();
        let mut spool = Spool::open(&scratch.file("east"), 64).unwrap();
        let first = work(&["first"]);
        spool.append([&first].into_iter()).unwrap();
        let full = spool.append([&first, &first, &first].into_iter()).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        let (_, place) = spool.next().unwrap().unwrap();
        assert_eq!(read_all(&mut spool), [""; 0]);
        spool.release(place);
        spool.append([&first, &first, &first].into_iter()).unwrap();
        assert_eq!(read_all(&mut spool).len(), 3);
    }

    #[test]
    fn a_file_that_nothing_could_be_written_into_is_gone() {
        let scratch = Scratch::new();
        let mut spool = Spool::open(&scratch.file("east"), MANY).unwrap();
        spool.begin().unwrap();
        assert_eq!(files(&scratch), 1);
        spool.writer = Some(File::open(path(&spool.folder, 1)).unwrap());
        assert!(spool.append([&work(&["a"])].into_iter()).is_err());
        assert_eq!((files(&scratch), spool.is_read(), spool.bytes()), (0, true, 0));
        spool.append([].into_iter()).unwrap();
        assert_eq!(files(&scratch), 0, "there is nothing to write");
        spool.append([&work(&["b"])].into_iter()).unwrap();
        assert_eq!(read_all(&mut spool), ["b "]);
    }

    #[test]
    fn after_a_failure_another_file_is_begun() {
        let scratch = Scratch::new();
        let folder = scratch.file("east");
        let mut spool = Spool::open(&folder, MANY).unwrap();
        spool.append([&work(&["a"])].into_iter()).unwrap();
        // A file that was opened for reading cannot be written.
        spool.writer = Some(File::open(path(&folder, 1)).unwrap());
        assert!(spool.append([&work(&["b"])].into_iter()).is_err());
        spool.append([&work(&["c"])].into_iter()).unwrap();
        assert_eq!(read_all(&mut spool), ["a ", "c "]);
        assert_eq!(files(&scratch), 2);
    }
}
