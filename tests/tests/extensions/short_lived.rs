//! With `--short-lived` items that live for some seconds are removed when they expire, asked for or not.

use guira_tests::Setup;
use guira_tests::server::{refused_guira, wait_for};

#[test]
fn items_that_live_for_seconds_are_removed_in_the_second_in_which_they_expire() {
    let setup = Setup::new().guira_argument("--test-commands").guira_argument("--short-lived=10");
    let server = setup.not_with("mica").not_with("mica-store").start_guira();
    let mut client = server.connect();
    client.exchange("lru_crawler disable\r\n", "OK\r\n");
    client.exchange("debugtime p\r\n", "OK\r\n");
    for number in 0..500 {
        client.exchange(format!("set short{number} 0 5 1\r\nx\r\n"), "STORED\r\n");
        client.exchange(format!("set long{number} 0 500 1\r\nx\r\n"), "STORED\r\n");
    }
    client.exchange("touch short0 100\r\ntouch long0 3\r\n", "TOUCHED\r\nTOUCHED\r\n");
    client.exchange("debugtime 4\r\n", "OK\r\n");
    wait_for("the touched item to go", || (client.stats("")["curr_items"] == "999").then_some(()));
    client.exchange("debugtime 1\r\n", "OK\r\n");
    wait_for("the short-lived to go", || (client.stats("")["curr_items"] == "500").then_some(()));
    let stats = client.stats("");
    assert_eq!((&*stats["short_lived_reclaimed"], &*stats["short_lived_untracked"]), ("500", "0"));
    client.expect_value("short0", "x");
}

#[test]
fn mica_refuses_it_and_says_why() {
    for engine in ["mica", "mica-store"] {
        let (status, error) = refused_guira(&["serve", "--engine", engine, "--short-lived", "10"]);
        assert!(status != Some(0) && error.contains("short-lived"), "{status:?} {error}");
    }
    let (status, error) = refused_guira(&["serve", "--short-lived", "601"]);
    assert!(status != Some(0) && error.contains("at most 600"), "{status:?} {error}");
}
