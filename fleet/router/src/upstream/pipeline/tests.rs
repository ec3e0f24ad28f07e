//! Requests and replies by bytes, with a clock that the tests set.

use super::*;
use guira_routing::Outcome;

fn client(part: u32) -> Origin<Ticket> {
    Origin::Client(Ticket { call: 0, part })
}

fn push(pipeline: &mut Pipeline, op: Op, key: &str, now_ms: u64) {
    let origin = client(pipeline.pushed as u32);
    let request = Request { value: b"v", ..Request::classic(op, key.as_bytes()) };
    if let Op::Get | Op::Gets = op {
        pipeline.push_get(&request, None, origin, now_ms);
    } else {
        pipeline.push(&request, None, origin, now_ms);
    }
}

/// A pipeline with a timeout of 100 ms that has pushed these requests at 0 ms.
fn pipeline(requests: &[(Op, &str)]) -> Pipeline {
    let mut pipeline = Pipeline::new(100, Leases::Native);
    requests.iter().for_each(|(op, key)| push(&mut pipeline, *op, key, 0));
    pipeline
}

fn send(pipeline: &mut Pipeline, now_us: u64) -> String {
    pipeline.begin_flush(now_us);
    pipeline.complete_last();
    let text = String::from_utf8(pipeline.unsent().to_vec()).unwrap();
    pipeline.note_sent(text.len());
    pipeline.end_flush();
    text
}

/// The numbers and outcomes of the requests that `input` completes, and how many bytes are left of
/// it.
fn receive(pipeline: &mut Pipeline, mut input: &[u8]) -> (Vec<(u32, Outcome)>, usize) {
    let mut replies = Vec::new();
    loop {
        let Step::Done(parsed) = pipeline.next(input) else { panic!("no request concerns leases") };
        let length = match parsed {
            Parsed::Reply(Origin::Client(ticket), answer, length) => {
                replies.push((ticket.part, answer.outcome));
                length
            }
            Parsed::OwnReply(length) | Parsed::Discarded(length) => length,
            Parsed::Incomplete(_) => return (replies, input.len()),
            other => panic!("{other:?}"),
        };
        input = &input[length..];
    }
}

#[test]
fn gets_that_follow_each_other_are_combined_and_have_replies_of_their_own() {
    let mut pipeline = pipeline(&[(Op::Get, "a"), (Op::Get, "b"), (Op::Gets, "c"), (Op::Get, "d")]);
    assert_eq!(pipeline.pending(), 4);
    assert_eq!(send(&mut pipeline, 0), "get a b\r\ngets c d\r\n");
    assert_eq!((pipeline.pending(), pipeline.waiting()), (0, 4));
    let (replies, left) =
        receive(&mut pipeline, b"VALUE b 0 1\r\nx\r\nEND\r\nVALUE c 0 1 7\r\nx\r\nEND\r\nVA");
    let expected = [Outcome::NotFound, Outcome::Found, Outcome::Found, Outcome::NotFound];
    assert_eq!(replies, [0, 1, 2, 3].map(|part| (part, expected[part as usize])));
    assert_eq!((left, pipeline.waiting()), (2, 0));
}

#[test]
fn a_get_with_many_keys_is_split() {
    let mut pipeline = Pipeline::new(100, Leases::Native);
    (0..100).for_each(|key| push(&mut pipeline, Op::Get, &format!("k{key}"), 0));
    let text = send(&mut pipeline, 0);
    let keys: Vec<usize> = text.lines().map(|line| line.split(' ').count() - 1).collect();
    assert_eq!(keys, [64, 36]);
}

#[test]
fn a_timeout_begins_when_the_request_is_flushed_and_its_late_reply_is_discarded() {
    let mut pipeline = pipeline(&[(Op::Set, "a"), (Op::Touch, "b")]);
    send(&mut pipeline, 30_000);
    assert_eq!(pipeline.deadline(40, None), Some(130));
    assert!(pipeline.time_out(129, None).is_none());
    let timed_out = pipeline.time_out(130, None).unwrap();
    assert_eq!(timed_out.request.origin, client(0));
    assert!(!timed_out.is_own && !timed_out.is_stuck);
    assert_eq!(timed_out.latency.map(|latency| latency.micros), Some(100_000));
    assert_eq!(pipeline.waiting(), 1);
    assert_eq!(receive(&mut pipeline, b"STORED\r\nTOUCHED\r\n").0, [(1, Outcome::Touched)]);
}

#[test]
fn a_connection_without_replies_is_stuck_after_three_timeouts_and_one_reply_clears_them() {
    let requests = [(Op::Touch, "k"); 6];
    let mut pipeline = pipeline(&requests);
    send(&mut pipeline, 0);
    let stuck = |pipeline: &mut Pipeline| pipeline.time_out(100, None).unwrap().is_stuck;
    assert_eq!([stuck(&mut pipeline), stuck(&mut pipeline)], [false, false]);
    receive(&mut pipeline, b"TOUCHED\r\nTOUCHED\r\nTOUCHED\r\n");
    assert_eq!([0; 3].map(|_| stuck(&mut pipeline)), [false, false, true]);
}

#[test]
fn a_request_that_was_not_sent_is_stuck_when_it_times_out() {
    let mut pipeline = pipeline(&[(Op::Touch, "k")]);
    pipeline.begin_flush(0);
    assert!(pipeline.time_out(100, None).unwrap().is_stuck);
}

#[test]
fn a_server_that_sends_long_replies_is_not_slow() {
    let mut pipeline = pipeline(&[(Op::Get, "a")]);
    send(&mut pipeline, 0);
    pipeline.note_received(BURST, 90);
    assert_eq!(pipeline.deadline(90, None), Some(190));
    pipeline.note_received(BURST - 1, 180);
    assert!(pipeline.time_out(190, None).is_some());
}

#[test]
fn while_the_link_connects_a_request_waits_for_the_shorter_timeout_from_the_attempt_on() {
    let mut pipeline = pipeline(&[(Op::Get, "a")]);
    pipeline.begin_flush(0);
    let attempt = Some(Attempt { started_ms: 50, timeout_ms: 20 });
    assert_eq!(pipeline.deadline(50, attempt), Some(70));
    assert!(pipeline.time_out(69, attempt).is_none() && pipeline.time_out(70, attempt).is_some());
}

#[test]
fn a_value_that_is_too_long_is_skipped_and_fails_its_request_only() {
    let mut pipeline = pipeline(&[(Op::Get, "a"), (Op::Get, "b")]);
    send(&mut pipeline, 0);
    let line = format!("VALUE a 0 {}\r\n", 65 << 20);
    assert_eq!(receive(&mut pipeline, line.as_bytes()).0, [(0, Outcome::RemoteError)]);
    let (mut left, piece) = ((65 << 20) + 2, vec![b'x'; 1 << 20]);
    while left > 0 {
        let length = piece.len().min(left);
        assert_eq!(receive(&mut pipeline, &piece[..length]), (Vec::new(), 0));
        left -= length;
    }
    assert_eq!(receive(&mut pipeline, b"VALUE b 0 1\r\nx\r\nEND\r\n"), (vec![(1, Outcome::Found)], 0));
}

#[test]
fn requests_that_were_not_sent_are_sent_over_the_next_connection() {
    let mut pipeline = pipeline(&[(Op::Touch, "a")]);
    let text = send(&mut pipeline, 0);
    push(&mut pipeline, Op::Get, "b", 0);
    let Disconnected { failed, of_clients } = pipeline.disconnect(Unsent::Keep);
    assert_eq!((failed.len(), failed[0].origin, of_clients), (1, client(0), 1));
    assert_eq!((text.as_str(), send(&mut pipeline, 0).as_str()), ("touch a 0\r\n", "get b\r\n"));
    assert_eq!(pipeline.disconnect(Unsent::Fail).of_clients, 1);
    assert!(pipeline.is_empty() && pipeline.is_sent());
}

#[test]
fn only_held_requests_wait_and_lease_sets_among_them_can_be_replaced() {
    let mut pipeline = pipeline(&[(Op::Touch, "a")]);
    pipeline.push_own(Kind::Lease(LeaseStep::Check), b"mn\r\n", 0);
    pipeline.hold();
    for (op, key) in [(Op::LeaseSet, "b"), (Op::Touch, "c"), (Op::LeaseSet, "d"), (Op::Get, "e")] {
        push(&mut pipeline, op, key, 0);
    }
    assert_eq!(send(&mut pipeline, 0), "touch a 0\r\nmn\r\n");
    assert!(pipeline.release_without_lease_sets(b"version\r\n"));
    push(&mut pipeline, Op::Get, "f", 0);
    assert_eq!(send(&mut pipeline, 0), "version\r\ntouch c 0\r\nversion\r\nget e\r\nget f\r\n");
}

#[test]
fn nothing_is_a_reply_behind_a_value_that_the_server_may_have_executed() {
    let mut pipeline = pipeline(&[(Op::Set, "a"), (Op::Get, "b")]);
    send(&mut pipeline, 0);
    let Step::Done(Parsed::Reply(..)) = pipeline.next(b"CLIENT_ERROR bad data chunk\r\n") else {
        panic!("the error is the reply");
    };
    assert!(matches!(pipeline.next(b"END\r\n"), Step::Done(Parsed::Invalid)));
}

#[test]
fn a_record_ends_behind_whole_requests_and_never_past_what_is_available() {
    let requests = |positions: &[u64]| -> InFlight<Outstanding> {
        let one = |position: &u64| Outstanding {
            origin: Origin::NoClient,
            position: *position,
            back: 0,
            key_length: 0,
            kind: Kind::Probe,
            since_ms: 0,
            log: None,
        };
        positions.iter().map(one).collect()
    };
    let leases = requests(&[0, 29, 10_269, 20_509]);
    for (from, available, length) in [
        (0, 29, 29),
        (0, 30_749, 10_269),
        (29, 30_720, 10_240),
        (100, 30_649, 10_169),
        (20_509, 10_240, 10_240),
    ] {
        assert_eq!(record_length(&leases, from, available), length, "{from} {available}");
    }
    assert_eq!(record_length(&requests(&[0, 40_000]), 0, 50_000), 40_000);
}
