//! What a file of a spool has: a head, and groups of records. Each group is what was written and synced at once.
//!
//! A group has a head, with its length and the CRC-32 of that and of all its records. A record is its length, its CRC-32, and a byte that says what is to be done; keys follow,
//! each behind its length. Files of before have no groups, but records alone, and are still read.
//!
//! What a crash of the host leaves of a group that was not synced may be anything: its beginning, or its end behind zeros. It is the last one of its file, and was never
//! acknowledged. So a group that is not whole is left out, unless another one is behind it, which only damage leaves.
//!
//! A file is not written on once another is begun, and then it is known how long it is: that of all files before it is what the first group of a file says. What is missing of such a
//! length was acknowledged, and is damage.

use crate::batch::Work;

pub(super) const HEAD: &[u8; 8] = b"guirasp2";
pub(super) const HEAD_OF_RECORDS: &[u8; 8] = b"guirasp1";
/// What a group begins with; its sum and its length follow.
const GROUP: &[u8; 4] = b"\xf1grp";
pub(super) const GROUP_HEAD: usize = 16;
/// No record is longer: 5000 keys of 250 bytes.
const RECORD_MAX: usize = 4 << 20;
const DELETE: u8 = 0;
const FLUSH: u8 = 1;
const FILES: u8 = 2;

/// A file, and how long it is, by number.
pub(super) type File = (u64, u64);

#[derive(Debug)]
pub(super) enum Record {
    Work(Work),
    /// The files that were there when the one was begun which has this, and how long each of them is.
    Files(Vec<File>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Groups,
    Records,
}

/// What of a file is of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) form: Form,
    pub(super) length: u64,
    /// What it says of the files before it.
    pub(super) before: Vec<File>,
}

/// Puts work into one group; it is empty if there is none.
pub(super) fn group<'a>(work: impl Iterator<Item = &'a Work>) -> Vec<u8> {
    let mut group = vec![0; GROUP_HEAD];
    work.for_each(|work| write_work(work, &mut group));
    sealed(group)
}

/// The group that says which files are before its own; it is empty if there are none.
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

/// How long the records are of a group that begins with this.
pub(super) fn group_length(head: &[u8; GROUP_HEAD]) -> Option<u64> {
    let length = head.strip_prefix(GROUP)?.get(4..)?.try_into().ok()?;
    Some(u64::from_le_bytes(length)).filter(|length| *length > 0)
}

/// Where the group ends that data begins with, if it is whole.
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

/// How much of a file is of use. `None` if there is something wrong in it that no crash leaves.
pub(super) fn whole(data: &[u8]) -> Option<Whole> {
    let same = |head: &[u8]| data.iter().zip(head).take_while(|(byte, expected)| byte == expected).count();
    if same(HEAD_OF_RECORDS) == HEAD_OF_RECORDS.len() {
        return Some(Whole { form: Form::Records, length: whole_records(data)?, before: Vec::new() });
    }
    let begun = same(HEAD);
    let form = Form::Groups;
    if begun < HEAD.len() {
        // The name of a file may be there before what was written into it.
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

/// What the first record of whole groups says of other files.
fn files_before(groups: &[u8]) -> Option<Vec<File>> {
    let record = groups.get(GROUP_HEAD..)?;
    let (length, _) = lengths(record.first_chunk()?)?;
    match read_record(record.get(8..)?.get(..length)?)? {
        Record::Files(files) => Some(files),
        Record::Work(_) => None,
    }
}

/// The same of a file of records, whose writer has not said what was synced together.
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

/// A file may be longer than what was written: then it ends with zeros.
fn is_torn(rest: &[u8]) -> bool {
    rest.iter().all(|byte| *byte == 0)
}
