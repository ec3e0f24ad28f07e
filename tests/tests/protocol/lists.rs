//! Lists of what is stored: `lru_crawler metadump` and `mgdump`, `stats cachedump` and `stats sizes`.

use std::collections::BTreeSet;
use std::ops::Range;

use guira_tests::scratch::Scratch;
use guira_tests::server::wait_for;
use guira_tests::{Client, Server, Setup, newer_than_peer};

/// The lines up to the last.
fn lines_to(client: &mut guira_tests::Client, last: &str) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let line = client.loose_line();
        if line == last {
            return lines;
        }
        lines.push(line);
    }
}

#[test]
fn a_metadump_lists_every_item_with_its_facts() {
    let server = Server::start();
    newer_than_peer!(server, "begins with OK");
    let mut client = server.connect();
    client.exchange("set plain 0 0 5\r\nvalue\r\n", "STORED\r\n");
    client.exchange("set a/b%c 7 1000 5\r\nvalue\r\n", "STORED\r\n");
    client.exchange("get plain\r\n", "VALUE plain 0 5\r\nvalue\r\nEND\r\n");
    client.send("lru_crawler metadump all\r\n");
    assert_eq!(client.line(), "OK");
    let lines = lines_to(&mut client, "END");
    assert_eq!(lines.len(), 2, "{lines:?}");
    let line = lines.iter().find(|line| line.starts_with("key=plain ")).unwrap();
    assert!(line.contains(" exp=-1 la=") && line.contains(" fetch=yes cls="), "{line}");
    assert!(line.contains(" flags=0 "), "{line}");
    let line = lines.iter().find(|line| line.starts_with("key=a%2Fb%25c ")).unwrap();
    assert!(line.contains(" fetch=no cls=") && line.contains(" flags=7 "), "{line}");
    // The connection goes on afterwards.
    client.exchange("get plain\r\n", "VALUE plain 0 5\r\nvalue\r\nEND\r\n");
}

#[test]
fn an_mgdump_lists_gets_that_can_be_sent_back() {
    let server = Server::start();
    newer_than_peer!(server, "has mgdump");
    let mut client = server.connect();
    client.exchange("set one 0 0 1\r\n1\r\n", "STORED\r\n");
    client.exchange("ms AAECAw== 1 b\r\n2\r\n", "HD\r\n");
    client.send("lru_crawler mgdump hash\r\n");
    assert_eq!(client.line(), "OK");
    let found: BTreeSet<String> = lines_to(&mut client, "EN").into_iter().collect();
    assert_eq!(found, BTreeSet::from(["mg AAECAw== b".to_owned(), "mg one".to_owned()]));
}

#[test]
fn a_long_list_is_complete_and_what_follows_it_is_answered() {
    let server = Server::start();
    newer_than_peer!(server, "begins with OK");
    let mut client = server.connect();
    client.send_many((0..20_000).map(|key| format!("set key{key} 0 0 1 noreply\r\nx\r\n")));
    client.exchange("mn\r\n", "MN\r\n");
    client.send("lru_crawler metadump all\r\n");
    assert_eq!(client.line(), "OK");
    let keys: BTreeSet<String> = lines_to(&mut client, "END")
        .into_iter()
        .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(keys.len(), 20_000);
    client.exchange("get key19999\r\n", "VALUE key19999 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn what_is_no_list_is_refused() {
    let server = Server::start();
    newer_than_peer!(server, "says which command cannot be pipelined");
    let mut client = server.connect();
    client.exchange("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    client.exchange("lru_crawler metadump 0\r\n", "BADCLASS invalid class id\r\n");
    client.exchange("lru_crawler metadump nonsense\r\n", "BADCLASS invalid class id\r\n");
    client.exchange("lru_crawler nonsense\r\n", "ERROR\r\n");
    client.exchange("lru_crawler\r\n", "ERROR\r\n");
    client.exchange("lru_crawler tocrawl x\r\n", "CLIENT_ERROR bad command line format\r\n");
    client.exchange("lru_crawler sleep 1000001\r\n", "CLIENT_ERROR sleep must be one second or less\r\n");
    client.exchange("stats cachedump 1\r\n", "CLIENT_ERROR bad command line\r\n");
    client.exchange("stats cachedump x 1\r\n", "CLIENT_ERROR bad command line format\r\n");
    client.exchange("stats cachedump 1000 1\r\n", "CLIENT_ERROR Illegal slab id\r\n");
    client.exchange(
        "mg k v\r\nlru_crawler metadump all\r\n",
        "VA 1\r\nx\r\nERROR cannot pipeline other commands before metadump\r\n",
    );
    // That is reported first.
    client.exchange(
        "mg k v\r\nlru_crawler mgdump nonsense\r\n",
        "VA 1\r\nx\r\nERROR cannot pipeline other commands before mgdump\r\n",
    );
}

#[test]
fn what_mn_has_ended_may_come_before_a_list() {
    let server = Server::start();
    newer_than_peer!(server, "begins with OK");
    let mut client = server.connect();
    client.exchange("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    client.send("mg k v\r\nmn\r\nlru_crawler metadump all\r\n");
    assert_eq!(client.line(), "VA 1");
    client.hear("x\r\nMN\r\nOK\r\n");
    assert_eq!(lines_to(&mut client, "END").len(), 1);
}

#[test]
fn commas_that_separate_no_classes_are_passed_over() {
    let server = Server::start();
    newer_than_peer!(server, "begins with OK");
    let mut client = server.connect();
    client.exchange("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    let class = client
        .stats("items")
        .into_keys()
        .find_map(|name| Some(name.strip_prefix("items:")?.split(':').next()?.to_owned()))
        .unwrap();
    client.send(format!("lru_crawler metadump ,{class},,\r\n"));
    assert_eq!(client.line(), "OK");
    assert_eq!(lines_to(&mut client, "END").len(), 1);
}

#[test]
fn no_class_beyond_63_is_dumped() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange("stats cachedump 63 0\r\n", "END\r\n");
    for class in ["64", "255", "256", "4294967295"] {
        client.exchange(format!("stats cachedump {class} 0\r\n"), "CLIENT_ERROR Illegal slab id\r\n");
    }
}

#[test]
fn the_crawler_can_be_switched_off_and_on_and_sent() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange("lru_crawler disable\r\n", "OK\r\n");
    // memcached's crawler takes a moment to stop.
    for verb in ["crawl", "metadump"] {
        wait_for("the crawler's end", || {
            let answer = client.ask(format!("lru_crawler {verb} all\r\n"));
            (answer == "CLIENT_ERROR lru crawler disabled").then_some(())
        });
    }
    client.exchange("lru_crawler enable\r\n", "OK\r\n");
    client.exchange("lru_crawler tocrawl 5\r\n", "OK\r\n");
    client.exchange("lru_crawler sleep 50\r\n", "OK\r\n");
    client.exchange("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    // memcached's may still be busy with what it does by itself.
    wait_for("the crawler", || (client.ask("lru_crawler crawl all\r\n") == "OK").then_some(()));
}

#[test]
fn a_cachedump_lists_the_items_of_a_class() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange("set k 0 0 3\r\nxyz\r\n", "STORED\r\n");
    let class = client
        .stats("items")
        .into_iter()
        .find_map(|(name, _)| name.strip_prefix("items:")?.split(':').next().map(str::to_owned))
        .unwrap();
    // memcached lists only what has become cold.
    let lines = wait_for("the item in the list", || {
        client.send(format!("stats cachedump {class} 0\r\n"));
        let lines = lines_to(&mut client, "END");
        (!lines.is_empty()).then_some(lines)
    });
    assert!(lines.len() == 1 && lines[0].starts_with("ITEM k [3 b; "), "{lines:?}");
}

fn listers(server: &Server) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.process_id())).expect("it runs");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "lister").count()
}

/// Stores items, of a hundred bytes in a list each.
fn store(client: &mut Client, items: Range<usize>) {
    client.send_many(items.map(|key| format!("set key-with-a-long-name-{key:020} 0 0 1 noreply\r\nx\r\n")));
    client.sync();
}

/// A server behind a UNIX socket, whose buffers do not grow.
fn with_small_buffers(scratch: &Scratch) -> Server {
    Setup::new().unix_socket(&scratch.path().join("socket")).start_guira()
}

/// Asks for a list until it begins; then nothing of it is read.
fn begin_list(server: &Server) -> Client {
    wait_for("the list to begin", || {
        let mut client = server.connect();
        client.send("lru_crawler metadump all\r\n");
        if client.line() == "OK" {
            return Some(client);
        }
        client.abandon();
        None
    })
}

/// What connections do, once none is sent a list by a thread any more.
fn states_at_home(client: &mut Client) -> Vec<String> {
    wait_for("all connections to be with their workers", || {
        let conns = client.stats("conns").into_iter();
        let states: Vec<_> =
            conns.filter(|(name, _)| name.ends_with(":state")).map(|(_, state)| state).collect();
        let count = |state: &str| states.iter().filter(|other| *other == state).count();
        // This client is the one whose turn it is.
        (count("conn_watch") == 0 && count("conn_parse_cmd") == 1).then_some(states)
    })
}

#[test]
fn the_end_of_a_list_that_is_not_read_keeps_no_thread() {
    let scratch = Scratch::new();
    let server = with_small_buffers(&scratch);
    let mut client = server.connect();
    let is_longer = |client: &mut Client, items: Range<usize>| {
        store(client, items);
        let list = begin_list(&server);
        wait_for("the end of the walk", || (listers(&server) == 0).then_some(()));
        let is_longer = states_at_home(client).contains(&"conn_mwrite".to_owned());
        list.abandon();
        wait_for("its end", || (client.stats("")["curr_connections"] == "1").then_some(()));
        is_longer
    };
    // Lists that are longer than what a socket takes, by little and by up to 30 KB: the thread leaves no more to the
    // worker. What a socket takes is found by 25 KB.
    let mut items = 0;
    while !is_longer(&mut client, items..items + 250) {
        items += 250;
    }
    client.exchange("flush_all\r\n", "OK\r\n");
    store(&mut client, 0..items);
    let mut longer = 0;
    while longer < 6 {
        longer += usize::from(is_longer(&mut client, items..items + 50));
        items += 50;
    }
    let mut clients: Vec<Client> = (0..10).map(|_| begin_list(&server)).collect();
    wait_for("all ends to be left to the workers", || (listers(&server) == 0).then_some(()));
    for client in &mut clients {
        assert_eq!(lines_to(client, "END").len(), items);
        client.exchange("mn\r\n", "MN\r\n");
    }
    let held = |client: &mut Client| client.stats("")["conn_memory_used"] != "0";
    wait_for("nothing to be held", || (!held(&mut client)).then_some(()));
}

#[test]
fn a_client_that_reads_no_further_gives_way_to_others() {
    let scratch = Scratch::new();
    let server = with_small_buffers(&scratch);
    store(&mut server.connect(), 0..20_000);
    let stuck = begin_list(&server);
    // The other is refused, since there is a list already, again and again, but not for long.
    let mut other = begin_list(&server);
    assert_eq!(lines_to(&mut other, "END").len(), 20_000);
    stuck.abandon();
}
