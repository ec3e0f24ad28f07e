//! MICA's datagrams: whatever comes is read without a panic; requests that are read lie within the datagram, one behind another, and are the same when they
//! are written again; as many replies as there are requests always fit into the longest datagram, with a number each.

use guira_protocol::mica::{
    DATAGRAM_HEADER, Directory, Header, Kind, Record, ReplyRecords, ReplyWriter, RequestWriter, Requests,
    Status,
};

/// The longest datagram.
const LONGEST: usize = 1452;

/// Checks that the laws hold for `input`.
pub fn check(input: &[u8]) {
    let input = &input[..input.len().min(LONGEST)];
    let _ = Directory::read(input);
    let Ok(header) = Header::read(input) else { return };
    ReplyRecords::of(input, &header).for_each(|reply| assert!(reply.value.len() < input.len()));
    let records: Vec<Record<'_>> = Requests::of(input, &header).collect();
    assert!(records.len() <= usize::from(header.count));
    if header.kind != Kind::Requests || records.iter().any(|record| record.operation.is_none()) {
        return;
    }
    let mut written = [0; LONGEST];
    let mut writer = RequestWriter::new(&mut written);
    // A key may be longer than any that is written.
    let all = records.iter().all(|record| writer.push(record));
    let length = writer.finish(header.generation, header.sequence, header.opaque);
    if all {
        assert_eq!(written[DATAGRAM_HEADER..length], input[DATAGRAM_HEADER..length]);
    }
    let mut replies = [0; LONGEST];
    let mut writer = ReplyWriter::resume(&mut replies, DATAGRAM_HEADER);
    for (number, record) in records.iter().enumerate() {
        let room = writer.space(records.len() - number - 1).len();
        assert!(room >= 8, "a number always fits");
        // Values of gets take all there is.
        writer.put(Status::Done, 0, if record.is_sound() { room } else { 8 });
    }
    assert!(writer.at() <= LONGEST);
}
