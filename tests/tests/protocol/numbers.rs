//! How numbers in classic commands are read.

use guira_tests::{Server, newer_than_peer};

#[test]
fn flags_have_32_bits() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 4294967295 0 1\r\nx\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 4294967295 1\r\nx\r\nEND\r\n"),
        ("mg key f\r\n", "HD f4294967295\r\n"),
        ("set key 65536 0 1\r\nx\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 65536 1\r\nx\r\nEND\r\n"),
        ("set key 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 0 1\r\nx\r\nEND\r\n"),
    ]);
}

#[test]
fn leading_zeros_do_not_matter() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 007 007 01\r\nx\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 7 1\r\nx\r\nEND\r\n"),
        ("set key 0 00 1\r\n5\r\n", "STORED\r\n"),
        ("incr key 0001\r\n", "6\r\n"),
    ]);
}

#[test]
fn flags_and_times_may_have_a_plus_sign() {
    let server = Server::start();
    server
        .connect()
        .talk(&[("set key +5 +500 1\r\nx\r\n", "STORED\r\n"), ("mg key f t\r\n", "HD f5 t~500\r\n")]);
}

#[test]
fn too_large_flags_of_set_are_cut_to_32_bits() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 4294967301 0 1\r\nx\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 5 1\r\nx\r\nEND\r\n"),
    ]);
}

#[test]
fn too_large_flags_of_ms_are_refused() {
    let server = Server::start();
    newer_than_peer!(server, "flags of ms are cut to 32 bits too");
    server.connect().talk(&[
        ("ms key 1 F4294967296\r\nx\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("mg key\r\n", "EN\r\n"),
    ]);
}

#[test]
fn further_words_of_set_are_ignored() {
    let server = Server::start();
    newer_than_peer!(server, "more than one further word is an ERROR");
    server.connect().talk(&[
        ("set key 0 0 1 one\r\nx\r\n", "STORED\r\n"),
        ("set key 0 0 1 one two three\r\ny\r\n", "STORED\r\n"),
        ("get key\r\n", "VALUE key 0 1\r\ny\r\nEND\r\n"),
    ]);
}

#[test]
fn an_exptime_out_of_range_is_refused_by_whatever_touches() {
    let server = Server::start();
    newer_than_peer!(server, "it is cut to 32 bits");
    let mut client = server.connect();
    client.set("key", "value");
    for time in ["2147483648", "4294967295", "-2147483649", "+1", "000000000001", "9223372036854775807"] {
        let refused = "CLIENT_ERROR invalid exptime argument\r\n";
        client.exchange(format!("touch key {time}\r\n"), refused);
        client.exchange(format!("gat {time} key\r\n"), refused);
        client.exchange(format!("flush_all {time}\r\n"), refused);
        client.exchange(
            format!("mg key T{time}\r\n").replace("T+1", "T1x"),
            "CLIENT_ERROR bad token in command line format\r\n",
        );
    }
    client.exchange("touch key -2147483648x\r\n", "CLIENT_ERROR invalid exptime argument\r\n");
    client.expect_value("key", "value");
    client.exchange("touch key 00000000100\r\n", "TOUCHED\r\n");
    client.exchange("mg key t\r\n", "HD t100\r\n");
}

#[test]
fn numbers_of_a_store_are_read_as_c_reads_them() {
    let server = Server::start();
    let mut client = server.connect();
    for (flags, time) in [("\t5", "0"), ("5\t", "0"), ("\x0b5", "\t0"), ("+5", "0\x0c"), ("5", "\t-0")] {
        client.exchange(format!("set key {flags} {time} 1\r\nx\r\n"), "STORED\r\n");
        client.exchange("mg key f\r\n", "HD f5\r\n");
    }
    for (value, sum) in [("\x0b1", "2"), ("1\tx", "2"), ("-0", "1")] {
        client.set("number", value);
        client.exchange("incr number 1\r\n", format!("{sum}\r\n"));
    }
    newer_than_peer!(server, "the data block of a wrong line is not passed over");
    for wrong in ["5\x1f 0", "-5 0", "5 5x", "+-5 0"] {
        client.exchange(format!("set key {wrong} 1\r\nx\r\n"), "CLIENT_ERROR bad command line format\r\n");
    }
}
