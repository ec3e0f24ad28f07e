use super::*;
use guira_sync::channel;

const HOST: &str = "cache";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn found(records: &[u32], ttl: u64) -> Result<Found<u32>, String> {
    Ok(Found { records: records.to_vec(), ttl: seconds(ttl) })
}

fn no_caller() -> Waiting<u32> {
    Box::new(|_, _| {})
}

/// A book whose one name is looked up.
fn begun() -> (Book<u32>, Arc<str>) {
    let mut book = Book::default();
    book.look_up(HOST.into(), no_caller(), seconds(0));
    assert_eq!(book.begin(seconds(0), 9), [HOST.into()]);
    (book, HOST.into())
}

/// How long after `now` the next lookup is, without what spreads names.
fn gap(book: &Book<u32>, now: Duration) -> u64 {
    let gap = book.next().expect("it is looked up again") - now;
    let whole = [1, 2, 4, 8, 16, 32, 60, 300]
        .into_iter()
        .find(|whole| (seconds(*whole)..=seconds(*whole) + seconds(*whole) / 8).contains(&gap));
    whole.unwrap_or_else(|| panic!("{gap:?}"))
}

#[test]
fn an_answer_is_used_for_its_ttl_within_bounds() {
    for (ttl, expected) in [(0, 1), (1, 1), (60, 60), (86_400, 300)] {
        let (mut book, name) = begun();
        assert_eq!(book.next(), None, "it is under way");
        book.learn(&name, found(&[1], ttl), seconds(5));
        assert_eq!(gap(&book, seconds(5)), expected, "a TTL of {ttl}");
        assert!(book.begin(seconds(5), 9).is_empty(), "it is not due yet");
        assert_eq!(book.begin(seconds(500), 9), [HOST.into()]);
    }
}

#[test]
fn a_failure_keeps_what_was_found_and_is_repeated_later_and_later() {
    let (mut book, name) = begun();
    assert_eq!(book.learn(&name, found(&[2, 1, 2], 60), seconds(0)), Learned::Changed(vec![1, 2]));
    let mut now = seconds(100);
    let mut gaps = Vec::new();
    for failures in 1..=9 {
        assert_eq!(book.begin(now, 9).len(), 1);
        // An empty answer is none.
        let result = if failures % 2 == 0 { found(&[], 60) } else { Err("timeout".to_owned()) };
        assert_eq!(book.learn(&name, result, now), Learned::Failed(failures));
        gaps.push(gap(&book, now));
        now += seconds(100);
    }
    assert_eq!(gaps, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    assert_eq!(book.stale_and_unknown(), (1, 0));
    let (sender, receiver) = channel::channel();
    book.look_up(name.clone(), Box::new(move |_, known| sender.send(known).unwrap()), now);
    assert_eq!(receiver.try_recv(), Ok(Ok(vec![1, 2])), "what was found last");
    book.begin(now, 9);
    assert_eq!(book.learn(&name, found(&[1, 2], 60), now), Learned::Same);
    assert_eq!((gap(&book, now), book.stale_and_unknown()), (60, (0, 0)));
}

#[test]
fn who_asks_about_an_unknown_name_is_told_what_the_next_lookup_finds() {
    let (mut book, name) = begun();
    book.learn(&name, Err("no such name".to_owned()), seconds(0));
    assert_eq!(book.stale_and_unknown(), (0, 1));
    let (sender, receiver) = channel::channel();
    book.look_up(name.clone(), Box::new(move |_, known| sender.send(known).unwrap()), seconds(0));
    assert_eq!(book.begin(seconds(0), 9), [HOST.into()], "at once");
    assert!(receiver.try_recv().is_err());
    assert_eq!(book.learn(&name, found(&[7], 60), seconds(0)), Learned::Changed(vec![7]));
    assert_eq!(receiver.try_recv(), Ok(Ok(vec![7])));
}

#[test]
fn names_are_looked_up_a_few_at_a_time_and_forgotten_when_nobody_follows_them() {
    let mut book = Book::default();
    for number in 0..10 {
        book.look_up(format!("cache-{number}").into(), no_caller(), seconds(0));
    }
    assert_eq!((book.begin(seconds(0), 4).len(), book.begin(seconds(0), 9).len()), (4, 6));
    book.follow(&HashSet::from(["cache-3".into()]));
    assert_eq!(book.len(), 1);
    assert_eq!(book.learn(&"cache-4".into(), found(&[1], 1), seconds(0)), Learned::Same);
    book.learn(&"cache-3".into(), found(&[1], 300), seconds(0));
    book.expire(seconds(2));
    assert_eq!(book.begin(seconds(2), 9), ["cache-3".into()]);
}

#[test]
fn no_name_is_kept_from_being_looked_up_by_others_that_fail_slowly() {
    const AT_ONCE: usize = 4;
    let mut book = Book::default();
    for number in 0..100 {
        book.look_up(format!("cache-{number}").into(), no_caller(), seconds(0));
    }
    let mut seen = HashSet::new();
    // A lookup takes 10 seconds, after which most names are due again before the others have been looked up.
    for round in 0..100 / AT_ONCE as u64 {
        let begun = book.begin(seconds(10 * round), AT_ONCE);
        for name in &begun {
            book.learn(name, Err("no DNS server has answered".to_owned()), seconds(10 * round + 10));
        }
        seen.extend(begun);
    }
    assert_eq!(seen.len(), 100);
    book.look_up("new".into(), no_caller(), seconds(250));
    assert_eq!(book.begin(seconds(250), 1), ["new".into()], "a load of a configuration waits for it");
}
