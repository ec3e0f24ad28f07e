use super::*;
use crate::number::Exptime;

fn record<'d>(operation: Operation, key: &'d [u8], value: &'d [u8]) -> Record<'d> {
    Record {
        operation: Some(operation),
        key,
        value,
        flags: 7,
        exptime: Exptime(-1),
        hash: 0x0102_0304_0506_0708,
    }
}

const HEADER: Header =
    Header { kind: Kind::Requests, count: 3, generation: 0xa0b0_c0d0, sequence: 5, opaque: u64::MAX - 1 };

#[test]
fn a_header_lies_as_the_document_says() {
    let mut bytes = [0xff; DATAGRAM_HEADER];
    HEADER.write(&mut bytes);
    let expected = [
        b'G', b'm', 1, 1, 3, 0, 0, 0, 0xd0, 0xc0, 0xb0, 0xa0, 5, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff,
    ];
    assert_eq!(bytes, expected);
    assert_eq!(Header::read(&bytes), Ok(HEADER));
    assert_eq!(Header::read(&bytes[..23]), Err(Unreadable::Foreign), "cut short");
    assert_eq!(Header::read(b"get a\r\nget b\r\nget c\r\nget d"), Err(Unreadable::Foreign));
    bytes[2] = 2;
    assert_eq!(Header::read(&bytes), Err(Unreadable::Unknown(HEADER)), "a request of another version");
    bytes[3] = 2;
    assert_eq!(Header::read(&bytes), Err(Unreadable::Foreign), "an answer of another version");
    (bytes[2], bytes[3]) = (1, 99);
    assert_eq!(Header::read(&bytes), Err(Unreadable::Foreign), "of another kind");
}

#[test]
fn requests_are_read_as_they_were_written() {
    let five = 5u64.to_le_bytes();
    let records = [
        record(Operation::Get, b"a", b""),
        record(Operation::Set, &[b'k'; 250], &[9; 300]),
        record(Operation::Increment, b"n", &five),
        record(Operation::Noop, b"", b""),
    ];
    let mut bytes = [0; 1000];
    let mut writer = RequestWriter::new(&mut bytes);
    assert!(records.iter().all(|record| writer.push(record)));
    assert_eq!(writer.count(), 4);
    let length = writer.finish(1, 2, 3);
    assert_eq!(
        bytes[DATAGRAM_HEADER..][..21],
        *b"\x01\x01\0\0\x07\0\0\0\xff\xff\xff\xff\x08\x07\x06\x05\x04\x03\x02\x01a"
    );
    let header = Header::read(&bytes[..length]).unwrap();
    assert_eq!(header, Header { kind: Kind::Requests, count: 4, generation: 1, sequence: 2, opaque: 3 });
    let read: Vec<Record<'_>> = Requests::of(&bytes[..length], &header).collect();
    assert_eq!(read, records);
    assert!(read.iter().all(Record::is_sound));
    assert_eq!(read[2].delta(), 5);
    for length in DATAGRAM_HEADER..length {
        assert!(Requests::of(&bytes[..length], &header).count() < 4, "cut short to {length}");
    }
}

#[test]
fn a_request_without_room_is_not_written() {
    let mut bytes = [0; DATAGRAM_HEADER + REQUEST_HEADER + 5];
    let mut writer = RequestWriter::new(&mut bytes);
    assert!(!writer.push(&record(Operation::Set, b"abc", b"def")));
    assert!(writer.push(&record(Operation::Set, b"abc", b"de")));
    assert!(!writer.push(&record(Operation::Noop, b"", b"")));
    assert_eq!(writer.finish(0, 0, 0), DATAGRAM_HEADER + REQUEST_HEADER + 5);
}

#[test]
fn malformed_requests_are_rejected() {
    let nonsense = [
        record(Operation::Get, b"", b""),
        record(Operation::Get, b"a", b"b"),
        record(Operation::Get, &[b'k'; 251], b""),
        record(Operation::Noop, b"a", b""),
        record(Operation::Increment, b"a", b"1"),
        record(Operation::Touch, b"a", b"1"),
        record(Operation::Delete, b"a", b"1"),
        Record { operation: None, ..record(Operation::Get, b"a", b"") },
    ];
    for record in nonsense {
        assert!(!record.is_sound(), "{record:?}");
    }
    assert!(record(Operation::Set, b"a", b"").is_sound(), "an empty value is one");
}

#[test]
fn replies_are_read_as_they_were_written() {
    let mut bytes = [0; 100];
    let mut writer = ReplyWriter::resume(&mut bytes, DATAGRAM_HEADER);
    assert_eq!(writer.space(2).len(), 100 - DATAGRAM_HEADER - 3 * REPLY_HEADER - 2 * 8);
    writer.space(2)[..3].copy_from_slice(b"abc");
    writer.put(Status::Done, 9, 3);
    writer.put(Status::NotFound, 0, 0);
    writer.space(0)[..8].copy_from_slice(&77u64.to_le_bytes());
    writer.put(Status::Done, 0, 8);
    let length = writer.at();
    let header = HEADER.answer(Kind::Replies, 3, 8);
    header.write(&mut bytes);
    let replies: Vec<Replied<'_>> = ReplyRecords::of(&bytes[..length], &header).collect();
    assert_eq!(replies[0], Replied { status: Status::Done, flags: 9, value: b"abc" });
    assert_eq!(replies[1], Replied { status: Status::NotFound, flags: 0, value: b"" });
    assert_eq!(replies[2].number(), Some(77));
    assert_eq!((header.generation, header.sequence, header.opaque), (8, 5, u64::MAX - 1));
    assert_eq!(ReplyRecords::of(&bytes[..length - 1], &header).count(), 2, "cut short");
    assert_eq!(ReplyRecords::of(&bytes[..length], &HEADER).count(), 0, "requests are no replies");
}

#[test]
fn every_request_of_a_full_datagram_can_be_answered() {
    let mut bytes = [0; 1452];
    let mut writer = RequestWriter::new(&mut bytes);
    while writer.push(&record(Operation::Noop, b"", b"")) {}
    let count = usize::from(writer.count());
    let mut replies = [0; 1452];
    let mut writer = ReplyWriter::resume(&mut replies, DATAGRAM_HEADER);
    for number in 0..count {
        let most = writer.space(count - number - 1).len();
        writer.put(Status::Done, 0, most);
    }
    assert_eq!(writer.at(), 1452);
}

#[test]
fn a_directory_is_read_as_it_was_written() {
    let directory = Directory {
        generation: 3,
        access: PartitionAccess::Crew,
        hash: HashFunction::RapidMicro,
        cores: 3,
        partition_bits: 4,
        port: 4000,
        seed: 0x1234_5678_9abc_def0,
        datagram_max: 1452,
    };
    let (mut asked, mut bytes) = ([0; 64], [0; 64]);
    let length = Directory::request(17, 5, &mut asked);
    let header = Header::read(&asked[..length]).unwrap();
    assert_eq!((header.kind, header.sequence), (Kind::DirectoryRequest, 17));
    assert_eq!(directory.write(header, &mut bytes), length, "no amplification");
    assert_eq!(Directory::read(&bytes[..length]), Some(directory));
    assert_eq!(Header::read(&bytes).unwrap().sequence, 17);
    for length in 0..length {
        assert_eq!(Directory::read(&bytes[..length]), None);
    }
    bytes[DATAGRAM_HEADER] = 9;
    assert_eq!(Directory::read(&bytes), None, "no such access");
}

#[test]
fn partitions_are_spread_over_cores_by_the_highest_bits() {
    let mut directory = Directory {
        generation: 0,
        access: PartitionAccess::Erew,
        hash: HashFunction::RapidMicro,
        cores: 2,
        partition_bits: 4,
        port: 1,
        seed: 0,
        datagram_max: 1452,
    };
    assert_eq!([0, 7 << 60 | 1, 8 << 60, u64::MAX].map(|hash| directory.home(hash)), [0, 0, 1, 1]);
    directory.cores = 3;
    let homes: Vec<usize> = (0..16u64).map(|partition| directory.home(partition << 60)).collect();
    assert_eq!(homes, [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
    directory.partition_bits = 0;
    assert_eq!(directory.home(u64::MAX), 0);
}
