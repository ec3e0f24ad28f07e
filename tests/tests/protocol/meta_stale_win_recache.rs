//! Who may fetch a missing, stale or ageing item anew: the flags W, Z and X.

use guira_tests::{Server, newer_than_peer};

#[test]
fn the_first_reader_of_a_missing_item_wins() {
    let server = Server::start();
    server.connect().talk(&[
        ("mg key N30 v t\r\n", "VA 0 t~30 W\r\n\r\n"),
        ("mg key N30 v t\r\n", "VA 0 t~30 Z\r\n\r\n"),
        ("mg key v t\r\n", "VA 0 t~30 Z\r\n\r\n"),
        ("mg key s\r\n", "HD s0 Z\r\n"),
        ("get key\r\n", "VALUE key 0 0\r\n\r\nEND\r\n"),
    ]);
}

#[test]
fn storing_ends_the_win() {
    let server = Server::start();
    server.connect().talk(&[
        ("mg key N30 v\r\n", "VA 0 W\r\n\r\n"),
        ("ms key 1\r\nx\r\n", "HD\r\n"),
        ("mg key N30 v t\r\n", "VA 1 t-1\r\nx\r\n"),
        ("mg other N30\r\n", "HD W\r\n"),
        ("set other 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("mg other\r\n", "HD\r\n"),
        ("mg third N30\r\n", "HD W\r\n"),
        ("delete third\r\n", "DELETED\r\n"),
        ("mg third N30\r\n", "HD W\r\n"),
    ]);
}

#[test]
fn a_vivified_item_can_live_forever() {
    let server = Server::start();
    server.connect().talk(&[("mg key N0 v t\r\n", "VA 0 t-1 W\r\n\r\n"), ("mg key t\r\n", "HD t-1 Z\r\n")]);
}

#[test]
fn a_vivified_item_tells_its_other_facts() {
    let server = Server::start();
    server.connect().exchange("mg key N30 k O1 s f h l\r\n", "HD kkey O1 s0 f0 h0 l0 W\r\n");
}

#[test]
fn the_winner_may_store_by_cas() {
    let server = Server::start();
    let mut client = server.connect();
    let line = client.ask("mg key N30 c\r\n");
    let unique = line.strip_prefix("HD c").and_then(|rest| rest.strip_suffix(" W")).expect("a cas and a win");
    client.exchange(format!("ms key 1 C{unique}\r\nx\r\n"), "HD\r\n");
    client.exchange(format!("ms key 1 C{unique}\r\ny\r\n"), "EX\r\n");
    client.exchange("mg key v\r\n", "VA 1\r\nx\r\n");
}

#[test]
fn little_time_left_lets_one_reader_win() {
    let server = Server::start();
    server.connect().talk(&[
        ("ms key 1 T500\r\nx\r\n", "HD\r\n"),
        ("mg key R30 t\r\n", "HD t~500\r\n"),
        ("mg key R600 t v\r\n", "VA 1 t~500 W\r\nx\r\n"),
        ("mg key R600 t\r\n", "HD t~500 Z\r\n"),
        ("mg key t\r\n", "HD t~500 Z\r\n"),
        ("ms key 1 T500\r\ny\r\n", "HD\r\n"),
        ("mg key R30 v\r\n", "VA 1\r\ny\r\n"),
    ]);
}

#[test]
fn an_item_without_expiry_needs_no_recaching() {
    let server = Server::start();
    server.connect().talk(&[("ms key 1\r\nx\r\n", "HD\r\n"), ("mg key R1000 t\r\n", "HD t-1\r\n")]);
}

#[test]
fn a_stale_item_is_served_and_one_reader_wins() {
    let server = Server::start();
    server.connect().talk(&[
        ("ms key 1\r\nx\r\n", "HD\r\n"),
        ("md key I T30\r\n", "HD\r\n"),
        ("mg key v t\r\n", "VA 1 t~30 X W\r\nx\r\n"),
        ("mg key v\r\n", "VA 1 Z X\r\nx\r\n"),
        ("mg key\r\n", "HD Z X\r\n"),
        ("get key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n"),
        ("ms key 1\r\ny\r\n", "HD\r\n"),
        ("mg key v t\r\n", "VA 1 t-1\r\ny\r\n"),
    ]);
}

#[test]
fn marking_again_gives_a_new_win() {
    let server = Server::start();
    server.connect().talk(&[
        ("ms key 1\r\nx\r\n", "HD\r\n"),
        ("md key I\r\n", "HD\r\n"),
        ("mg key\r\n", "HD X W\r\n"),
        ("mg key\r\n", "HD Z X\r\n"),
        ("md key I\r\n", "HD\r\n"),
        ("mg key\r\n", "HD X W\r\n"),
    ]);
}

#[test]
fn marking_as_stale_changes_the_unique() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "old");
    let old = client.cas("key");
    client.exchange("md key I\r\n", "HD\r\n");
    let new = client.cas("key");
    assert_ne!(old, new);
    client.exchange(format!("ms key 3 C{old}\r\nbad\r\n"), "EX\r\n");
    client.exchange(format!("ms key 3 C{new}\r\nnew\r\n"), "HD\r\n");
    client.exchange("mg key v\r\n", "VA 3\r\nnew\r\n");
}

#[test]
fn only_a_matching_unique_marks() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    let unique = client.cas("key");
    client.exchange(format!("md key I C{}\r\n", unique + 1), "EX\r\n");
    client.exchange("mg key\r\n", "HD\r\n");
    client.exchange(format!("md key I C{unique}\r\n"), "HD\r\n");
    client.exchange("mg key\r\n", "HD X W\r\n");
}

#[test]
fn an_older_unique_stores_as_stale() {
    let server = Server::start();
    newer_than_peer!(server, "the uniques of this test are set with E");
    server.connect().talk(&[
        ("ms key 1 E1000\r\nx\r\n", "HD\r\n"),
        ("ms key 1 C1001 I\r\na\r\n", "EX\r\n"),
        ("ms key 1 C999 I E1500 c\r\ny\r\n", "HD c1500\r\n"),
        ("mg key v s\r\n", "VA 1 s1 X W\r\ny\r\n"),
        ("mg key v\r\n", "VA 1 Z X\r\ny\r\n"),
        ("ms key 1 C1499\r\nz\r\n", "EX\r\n"),
        ("ms key 1 C1500 I\r\nz\r\n", "HD\r\n"),
        ("mg key v\r\n", "VA 1\r\nz\r\n"),
    ]);
}

#[test]
fn an_older_unique_stores_as_stale_with_given_uniques() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    let old = client.cas("key");
    client.set("key", "y");
    client.exchange(format!("ms key 1 C{old}\r\nz\r\n"), "EX\r\n");
    client.exchange(format!("ms key 1 C{old} I\r\nz\r\n"), "HD\r\n");
    client.exchange("mg key v\r\n", "VA 1 X W\r\nz\r\n");
    client.exchange("ms missing 1 C1 I\r\nz\r\n", "NF\r\n");
}

#[test]
fn invalidation_without_a_unique_is_a_plain_set() {
    let server = Server::start();
    server.connect().talk(&[("ms key 1 I\r\nx\r\n", "HD\r\n"), ("mg key v\r\n", "VA 1\r\nx\r\n")]);
}

#[test]
fn exactly_one_of_many_readers_wins() {
    let server = Server::start();
    for round in 0..20 {
        let wins = std::thread::scope(|scope| {
            let readers = (0..8).map(|_| {
                scope.spawn(|| server.connect().ask(format!("mg key{round} N30\r\n")).ends_with('W'))
            });
            let readers = readers.collect::<Vec<_>>();
            readers.into_iter().filter_map(|reader| reader.join().ok()).filter(|won| *won).count()
        });
        assert_eq!(wins, 1);
    }
}

#[test]
fn storing_as_stale_keeps_the_time_and_the_winner() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    client.exchange("md key I T50\r\n", "HD\r\n");
    client.exchange("mg key\r\n", "HD X W\r\n");
    client.exchange("ms key 1 T5000 C0\r\nf\r\n", "EX\r\n");
    client.exchange("ms key 1 T5000 C1 I\r\ny\r\n", "HD\r\n");
    client.exchange("mg key v t\r\n", "VA 1 t~50 Z X\r\ny\r\n");
    let unique = client.cas("key");
    client.exchange(format!("ms key 1 T5000 C{unique} I\r\nz\r\n"), "HD\r\n");
    client.exchange("mg key v t\r\n", "VA 1 t~5000\r\nz\r\n");
}

#[test]
fn quiet_does_not_hide_a_win() {
    let server = Server::start();
    server.connect().talk(&[("mg key N50 q s t\r\n", "HD s0 t~50 W\r\n"), ("mg key q\r\n", "HD Z\r\n")]);
}

#[test]
fn only_set_and_replace_store_as_stale() {
    let server = Server::start();
    server.connect().talk(&[
        // The second time, so that 1 is older than its unique on any server.
        ("set key 5 500 1\r\nx\r\n", "STORED\r\n"),
        ("set key 5 500 1\r\nx\r\n", "STORED\r\n"),
        ("ms key 1 C0 I\r\ny\r\n", "EX\r\n"),
        ("ms key 1 C1 I MA\r\ny\r\n", "EX\r\n"),
        ("ms key 1 C1 I ME\r\ny\r\n", "NS\r\n"),
        ("mg key v t f\r\n", "VA 1 t~500 f5\r\nx\r\n"),
        ("ms key 1 C1 I MR F7 T0\r\ny\r\n", "HD\r\n"),
        ("mg key v t f\r\n", "VA 1 t~500 f7 X W\r\ny\r\n"),
    ]);
}

#[test]
fn the_times_of_a_vivified_item_act_in_the_order_of_flags() {
    let server = Server::start();
    server.connect().talk(&[
        ("mg a N500 T0 t\r\n", "HD t-1 W\r\n"),
        ("mg b T0 N500 t\r\n", "HD t~500 W\r\n"),
        ("mg a t\r\n", "HD t-1 Z\r\n"),
        ("mg b t\r\n", "HD t~500 Z\r\n"),
    ]);
}

#[test]
fn vivifying_into_the_past_wins_each_time() {
    let server = Server::start();
    server.connect().talk(&[
        ("mg key N-1 v\r\n", "VA 0 W\r\n\r\n"),
        ("mg key N-1 v\r\n", "VA 0 W\r\n\r\n"),
        ("mg key\r\n", "EN\r\n"),
    ]);
}
