//! `ma`: counting with flags.

use guira_tests::lines::number;
use guira_tests::{Server, newer_than_peer, upstream_flaw};

const BAD_FLAG: &str = "CLIENT_ERROR invalid or duplicate flag\r\n";
const BAD_MODE: &str = "CLIENT_ERROR invalid mode for ma M token\r\n";

#[test]
fn it_counts_up_by_one_and_returns_the_value_with_v() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 2\r\n10\r\n", "STORED\r\n"),
        ("ma key\r\n", "HD\r\n"),
        ("ma key v\r\n", "VA 2\r\n12\r\n"),
        ("ma key D88 v\r\n", "VA 3\r\n100\r\n"),
        ("ma key D0 v\r\n", "VA 3\r\n100\r\n"),
        ("ma missing\r\n", "NF\r\n"),
        ("ma missing v k O1\r\n", "NF kmissing O1\r\n"),
    ]);
}

#[test]
fn modes() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 2\r\n50\r\n", "STORED\r\n"),
        ("ma key MI v\r\n", "VA 2\r\n51\r\n"),
        ("ma key M+ v\r\n", "VA 2\r\n52\r\n"),
        ("ma key MD v\r\n", "VA 2\r\n51\r\n"),
        ("ma key M- D20 v\r\n", "VA 2\r\n31\r\n"),
        ("ma key Mi v\r\n", BAD_MODE),
        ("ma key Md v\r\n", BAD_MODE),
        ("ma key Mx\r\n", BAD_MODE),
        ("ma key MD D100 v\r\n", "VA 1\r\n0\r\n"),
    ]);
}

#[test]
fn an_empty_mode_is_a_bad_mode() {
    let server = Server::start();
    newer_than_peer!(server, "an empty mode is an invalid flag");
    server.connect().exchange("ma key M\r\n", BAD_MODE);
}

#[test]
fn numbers_wrap_upwards_and_stop_at_zero() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 20\r\n18446744073709551615\r\n", "STORED\r\n"),
        ("ma key D2 v\r\n", "VA 1\r\n1\r\n"),
        ("ma key MD D18446744073709551615 v\r\n", "VA 1\r\n0\r\n"),
    ]);
}

#[test]
fn n_creates_with_the_initial_value() {
    let server = Server::start();
    server.connect().talk(&[
        ("ma key N0 v\r\n", "VA 1\r\n0\r\n"),
        ("ma key N0 v\r\n", "VA 1\r\n1\r\n"),
        ("ma other N0 J13 D5 v\r\n", "VA 2\r\n13\r\n"),
        ("ma other N0 J13 D5 v\r\n", "VA 2\r\n18\r\n"),
        ("ma down N0 J13 MD v\r\n", "VA 2\r\n13\r\n"),
        ("ma timed N30 J7 v t\r\n", "VA 1 t~30\r\n7\r\n"),
        ("ma timed N90 v t\r\n", "VA 1 t~30\r\n8\r\n"),
        ("ma quiet N0\r\n", "HD\r\n"),
        ("get quiet\r\n", "VALUE quiet 0 1\r\n0\r\nEND\r\n"),
        ("ma large N0 J18446744073709551615 v\r\n", "VA 20\r\n18446744073709551615\r\n"),
    ]);
}

#[test]
fn an_initial_value_without_n_creates_nothing() {
    let server = Server::start();
    server.connect().talk(&[("ma key J13\r\n", "NF\r\n"), ("get key\r\n", "END\r\n")]);
}

#[test]
fn t_sets_the_time_in_the_order_of_flags() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1\r\n1\r\n", "STORED\r\n"),
        ("ma key T90 t v\r\n", "VA 1 t~90\r\n2\r\n"),
        ("ma key t T70\r\n", "HD t~90\r\n"),
        ("ma key t\r\n", "HD t~70\r\n"),
        ("ma key T0 t\r\n", "HD t-1\r\n"),
    ]);
}

#[test]
fn a_number_that_begins_lasts_as_long_as_the_later_of_n_and_t_says() {
    let server = Server::start();
    server.connect().talk(&[
        ("ma a T0 N30 t\r\n", "HD t~30\r\n"),
        ("mg a t\r\n", "HD t~30\r\n"),
        ("ma b T300 N30 t\r\n", "HD t~30\r\n"),
        ("mg b t\r\n", "HD t~30\r\n"),
        ("ma c N30 T300 t\r\n", "HD t~300\r\n"),
        ("mg c t\r\n", "HD t~300\r\n"),
    ]);
}

#[test]
fn key_opaque_and_cas_are_returned_in_order() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "1");
    let old = client.cas("key");
    let line = client.ask("ma key O1 k c\r\n");
    assert!(line.starts_with("HD O1 kkey c"), "{line}");
    assert_ne!(number(&line, 'c'), old);
    assert_eq!(number(&line, 'c'), client.cas("key"));
    let line = client.ask("ma new N0 c\r\n");
    assert_eq!(number(&line, 'c'), client.cas("new"));
}

#[test]
fn compare_and_count() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "1");
    let unique = client.cas("key");
    client.exchange(format!("ma key C{}\r\n", unique + 1), "EX\r\n");
    client.exchange(format!("ma key C{} k O1 v\r\n", unique + 1), "EX kkey O1\r\n");
    client.exchange(format!("ma key C{unique} v\r\n"), "VA 1\r\n2\r\n");
    client.exchange(format!("ma key C{unique} v\r\n"), "EX\r\n");
    client.exchange("ma key C0 v\r\n", "VA 1\r\n3\r\n");
    client.exchange("ma missing C1\r\n", "NF\r\n");
}

#[test]
fn what_is_no_number_is_refused() {
    let server = Server::start();
    let error = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    server.connect().talk(&[
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("ma key\r\n", error),
        ("ma key q\r\n", error),
        ("ma key N0 MD v\r\n", error),
        ("get key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n"),
    ]);
}

#[test]
fn one_error_stands_for_all_bad_flags() {
    let server = Server::start();
    let mut client = server.connect();
    for flags in ["q q", "z", "Dx", "D-1", "D", "Jx N0", "J x", "Cx", "Tx", "Nx", "D18446744073709551616"] {
        client.exchange(format!("ma key {flags}\r\n"), BAD_FLAG);
    }
}

#[test]
fn t_and_e_hold_when_the_number_gains_a_digit() {
    let server = Server::start();
    upstream_flaw!(server, "it changes the item that the longer number has just replaced");
    server.connect().talk(&[
        ("set key 0 0 1\r\n9\r\n", "STORED\r\n"),
        ("ma key T500 v\r\n", "VA 2\r\n10\r\n"),
        ("mg key t v\r\n", "VA 2 t~500\r\n10\r\n"),
        ("set key 0 0 1\r\n9\r\n", "STORED\r\n"),
        ("ma key E77 c\r\n", "HD c77\r\n"),
        ("mg key c v\r\n", "VA 2 c77\r\n10\r\n"),
    ]);
}
