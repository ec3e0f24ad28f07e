//! The format of a spool file: a head, and groups of records. One write and sync makes one group.
//!
//! The head of a group has its length, and the CRC-32 of that length and all records. A record is
//! its length, its CRC-32, a byte for the kind of work, and the keys, each behind its length. Files
//! of earlier versions have records without groups, and are still read.
//!
//! After a crash of the host a group that was not synced may have any bytes: only its beginning, or
//! zeros before its end. Such a group is the last one of its file, and was never acknowledged. So
//! an incomplete group at the end is ignored, and one before another group is damage.
//!
//! A file does not grow once the next one is started. The first group of each file has the lengths
//! of all earlier files, so that bytes which are missing from one of these are known to be damage.

use crate::batch::Work;

pub(super) const HEAD: &[u8; 8] = b"guirasp2";
pub(super) const HEAD_OF_RECORDS: &[u8; 8] = b"guirasp1";
/// The first bytes of a group; its sum and its length follow.
const GROUP: &[u8; 4] = b"\xf1grp";
pub(super) const GROUP_HEAD: usize = 16;
/// No record is longer: 5000 keys of 250 bytes.
const RECORD_MAX: usize = 4 << 20;
const DELETE: u8 = 0;
const FLUSH: u8 = 1;
const FILES: u8 = 2;

/// The number and the length of a file.
pub(super) type File = (u64, u64);

#[derive(Debug)]
pub(super) enum Record {
    Work(Work),
    /// The files that existed when this file was started, with their lengths.
    Files(Vec<File>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Groups,
    Records,
}

/// The valid part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) form: Form,
    pub(super) length: u64,
    /// What the file records about earlier files.
    pub(super) before: Vec<File>,
}

/// Puts work into one group; the result is empty without work.
pub(super) fn group<'a>(work: impl Iterator<Item = &'a Work>) -> Vec<u8> {
    let mut group = vec![0; GROUP_HEAD];
    work.for_each(|work| write_work(work, &mut group));
    sealed(group)
}

/// A group that lists the earlier files; empty if there are none.
pub(super) fn files(files: impl Iterator<Item = File>) -> Vec<u8> {
    let mut payload = vec![FILES];
    files.for_each(|(number, length)| payload.extend([number.to_le_bytes(), length.to_le_bytes()].concat()));
    let mut group = vec![0; GROUP_HEAD];
    if payload.len() > 1 {
        write_record(&payload, &mut group);
    }
    sealed(group)
}

fn sealed(mut group: Vec<u8>) -> Vec<u8> {
    let length = group.len() - GROUP_HEAD;
    if length == 0 {
        return Vec::new();
    }
    group[..4].copy_from_slice(GROUP);
    group[8..GROUP_HEAD].copy_from_slice(&(length as u64).to_le_bytes());
    let sum = crc32fast::hash(&group[8..]);
    group[4..8].copy_from_slice(&sum.to_le_bytes());
    group
}

/// The length of the records in a group with this head.
pub(super) fn group_length(head: &[u8; GROUP_HEAD]) -> Option<u64> {
    let length = head.strip_prefix(GROUP)?.get(4..)?.try_into().ok()?;
    Some(u64::from_le_bytes(length)).filter(|length| *length > 0)
}

/// The end of the group at the start of `data`, if the group is complete.
fn whole_group(data: &[u8]) -> Option<usize> {
    let length = usize::try_from(group_length(data.first_chunk()?)?).ok()?;
    let end = GROUP_HEAD.checked_add(length)?;
    let sum = u32::from_le_bytes(data.get(4..8)?.try_into().ok()?);
    (crc32fast::hash(data.get(8..end)?) == sum).then_some(end)
}

/// The length and the sum of a record.
pub(super) fn lengths(head: &[u8; 8]) -> Option<(usize, u32)> {
    let [a, b, c, d, e, f, g, h] = *head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    (1..=RECORD_MAX).contains(&length).then_some((length, u32::from_le_bytes([e, f, g, h])))
}

fn write_work(work: &Work, records: &mut Vec<u8>) {
    let mut payload = Vec::new();
    match work {
        Work::Flush => payload.push(FLUSH),
        Work::Delete(keys) => {
            payload.push(DELETE);
            for key in keys {
                // No key has over 250 bytes.
                payload.extend((key.len() as u16).to_le_bytes());
                payload.extend_from_slice(key);
            }
        }
    }
    write_record(&payload, records);
}

fn write_record(payload: &[u8], records: &mut Vec<u8>) {
    records.extend((payload.len() as u32).to_le_bytes());
    records.extend(crc32fast::hash(payload).to_le_bytes());
    records.extend(payload);
}

pub(super) fn read_record(payload: &[u8]) -> Option<Record> {
    match payload.split_first()? {
        (&FLUSH, []) => Some(Record::Work(Work::Flush)),
        (&FILES, files) => {
            let (pairs, []) = files.as_chunks::<16>() else { return None };
            let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
            let pairs = pairs.iter().map(|pair| Some((number(&pair[..8])?, number(&pair[8..])?)));
            pairs.collect::<Option<_>>().map(Record::Files)
        }
        (&DELETE, mut rest) => {
            let mut keys = Vec::new();
            while let Some((length, behind)) = rest.split_first_chunk::<2>() {
                let (key, behind) = behind.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
                keys.push(key.into());
                rest = behind;
            }
            rest.is_empty().then_some(Record::Work(Work::Delete(keys)))
        }
        _ => None,
    }
}

/// The valid part of a file; `None` for damage that no crash causes.
pub(super) fn whole(data: &[u8]) -> Option<Whole> {
    let same = |head: &[u8]| data.iter().zip(head).take_while(|(byte, expected)| byte == expected).count();
    if same(HEAD_OF_RECORDS) == HEAD_OF_RECORDS.len() {
        return Some(Whole { form: Form::Records, length: whole_records(data)?, before: Vec::new() });
    }
    let begun = same(HEAD);
    let form = Form::Groups;
    if begun < HEAD.len() {
        // A crash may leave the name of a file without its contents.
        let nothing = Whole { form, length: HEAD.len() as u64, before: Vec::new() };
        return is_torn(&data[begun..]).then_some(nothing);
    }
    let mut at = HEAD.len();
    while let Some(length) = whole_group(&data[at..]) {
        at += length;
    }
    let is_last =
        !(at + 1..data.len()).any(|at| data[at..].starts_with(GROUP) && whole_group(&data[at..]).is_some());
    let before = files_before(&data[HEAD.len()..at]).unwrap_or_default();
    is_last.then_some(Whole { form, length: at as u64, before })
}

/// The list of earlier files in the first record of complete groups.
fn files_before(groups: &[u8]) -> Option<Vec<File>> {
    let record = groups.get(GROUP_HEAD..)?;
    let (length, _) = lengths(record.first_chunk()?)?;
    match read_record(record.get(8..)?.get(..length)?)? {
        Record::Files(files) => Some(files),
        Record::Work(_) => None,
    }
}

/// The valid length of a file without groups, in which it is unknown which records were synced
/// together.
fn whole_records(data: &[u8]) -> Option<u64> {
    let mut at = HEAD_OF_RECORDS.len();
    while let Some(head) = data.get(at..at + 8).and_then(|head| head.first_chunk()) {
        let Some((length, sum)) = lengths(head) else {
            return is_torn(&data[at..]).then_some(at as u64);
        };
        let end = at + 8 + length;
        let is_right = data.get(at + 8..end).is_some_and(|payload| crc32fast::hash(payload) == sum);
        if !is_right {
            return (end >= data.len()).then_some(at as u64);
        }
        at = end;
    }
    Some(at as u64)
}

/// A file may be longer than its data after a crash; the rest is zeros.
fn is_torn(rest: &[u8]) -> bool {
    rest.iter().all(|byte| *byte == 0)
}
