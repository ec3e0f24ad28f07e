//! Configurations that are checked, and databases that do not suit.

use guira_tests::scratch::Scratch;
use guira_tests::server::{refused_guira, run_guira};

const GOOD: &str = "position = \"position\"\n[source.mariadb]\naddress = \"127.0.0.1:3306\"\nuser = \"guira\"\nserver-id = 7\n\
    [[target]]\nname = \"east\"\naddress = \"127.0.0.1:11211\"\n";

#[test]
fn a_configuration_is_checked_without_connecting_to_anything() {
    let scratch = Scratch::new();
    let file = scratch.write("good.toml", GOOD);
    let output = run_guira(&["invalidate", "--check", "--config", &file.to_string_lossy()]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"the configuration is valid\n");
    assert!(!scratch.file("position").exists());
}

#[test]
fn a_wrong_configuration_is_refused_with_its_line() {
    let scratch = Scratch::new();
    let file = scratch.write("wrong.toml", &GOOD.replace("server-id", "serverid"));
    for arguments in [&["--check"][..], &[]] {
        let file = file.to_string_lossy();
        let arguments = [&["invalidate", "--config", &file], arguments].concat();
        let (code, errors) = refused_guira(&arguments);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains("line 5") && errors.contains("unknown field `serverid`"), "{errors}");
    }
}

#[test]
fn a_position_that_is_damaged_is_refused() {
    let scratch = Scratch::new();
    let position = scratch.write("position", "0-1-270\n");
    let text = GOOD.replace("\"position\"", &format!("{position:?}"));
    let file = scratch.write("good.toml", &text);
    let (code, errors) = refused_guira(&["invalidate", "--config", &file.to_string_lossy()]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("is corrupt or of another version"), "{errors}");
}

#[test]
fn what_somebody_has_sent_is_not_replayed() {
    let scratch = Scratch::new();
    let (start, end) = (GOOD.find("[source.mariadb]").unwrap(), GOOD.find("[[target]]").unwrap());
    let events = "[source.debezium]\nlisten = \"127.0.0.1:1\"\n";
    for (text, from, expected) in [
        (
            [&GOOD[..start], events, &GOOD[end..]].concat().replacen("position = ", "spool = ", 1),
            "1-1-0/0",
            "cannot replay change events",
        ),
        (
            GOOD.replace("server-id = 7", "server-id = 7\npassword-file = \"/nowhere\""),
            "0-1-1",
            "cannot read /nowhere",
        ),
    ] {
        let file = scratch.write("replay.toml", &text);
        let (code, errors) =
            refused_guira(&["invalidate", "replay", "--config", &file.to_string_lossy(), "--from", from]);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(expected), "{errors}");
    }
}
