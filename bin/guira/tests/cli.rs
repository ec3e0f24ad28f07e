//! The binary as a person runs it: arguments, exit codes and messages.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use guira_harness::deadline::Deadline;
use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Spec};

/// How long is waited for what should happen at once.
const PATIENCE: Duration = Duration::from_secs(20);

fn guira(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_guira")).args(args).output().expect("the binary was built")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_help_shows_the_commands_in_groups_and_fits_the_terminal() {
    let help = stdout(&guira(&["--help"]));
    for name in ["serve", "top", "probe", "invalidate", "fleet", "load", "replay", "sim", "bench", "man"] {
        assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
    }
    for heading in ["The cache:", "The fleet:", "The laboratory (guira-lab):"] {
        assert!(help.contains(heading), "{heading}: {help}");
    }
    assert!(!help.contains("container") && !help.contains("docs"), "{help}");
    for command in [&["--help"][..], &["serve", "--help"], &["invalidate", "--help"], &["router", "--help"]] {
        let help = stdout(&guira(command));
        let widest = help.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|columns| columns <= 115), "{command:?}: {widest:?} columns");
    }
}

#[test]
fn every_command_tells_its_version() {
    let version = stdout(&guira(&["--version"]));
    assert!(version.starts_with(concat!("guira ", env!("CARGO_PKG_VERSION"), " (")), "{version}");
    let number = version.trim_start_matches("guira ");
    for command in [&["serve"][..], &["top"], &["invalidate"], &["check"], &["fleet"], &["fleet", "create"]] {
        let output = guira(&[command, &["-V"]].concat());
        assert!(output.status.success(), "{command:?}: {}", stderr(&output));
        assert!(stdout(&output).ends_with(number), "{command:?}: {}", stdout(&output));
    }
}

#[test]
fn every_command_that_is_shown_has_a_man_page_and_options_to_complete() {
    let scratch = Scratch::new();
    let folder = scratch.path().to_str().expect("a plain path");
    let output = guira(&["man", "--all", folder]);
    assert!(output.status.success(), "{}", stderr(&output));
    let page = |name: &str| fs::read_to_string(scratch.file("man/man1").join(name)).expect(name);
    for (name, text) in [
        ("guira.1", "guira\\-serve"),
        ("guira-serve.1", "memory"),
        ("guira-router.1", "config"),
        ("guira-memcached.1", "-m"),
        ("guira-fleet-create.1", "slots"),
        ("guira-invalidate-replay.1", "from"),
    ] {
        assert!(page(name).contains(text), "{name}: {}", page(name));
    }
    assert!(stdout(&guira(&["man", "fleet", "create"])).contains("guira fleet create"));
    assert!(stderr(&guira(&["man", "flee"])).contains("guira has no command flee"));
    let bash = stdout(&guira(&["completions", "bash"]));
    for option in ["--engine", "--config-str", "--policy"] {
        assert!(bash.contains(option), "{option}");
    }
}

#[test]
fn commands_of_the_laboratory_are_passed_on_and_say_where_it_is_missing() {
    let scratch = Scratch::new();
    // A link in a folder of its own. A program that this process has written cannot be started while another test's
    // child still has the file open ("Text file busy").
    let folder = Scratch::within(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("the folder can be written");
    let alone = folder.file("guira");
    fs::hard_link(env!("CARGO_BIN_EXE_guira"), &alone).expect("a link");
    for command in [&["load", "--help"][..], &["fleet", "up", "--help"]] {
        let output = Command::new(&alone).args(command).env("PATH", "/nowhere").output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(stderr(&output).contains("install the package guira-lab"), "{}", stderr(&output));
    }
    // Beside it, and in PATH.
    fs::create_dir(scratch.file("bin")).expect("a folder");
    let lab = scratch.file("bin/guira-lab");
    symlink("/bin/echo", &lab).expect("a link");
    let path = lab.parent().expect("a folder").to_str().expect("a plain path");
    let path = format!("{path}:{}", std::env::var("PATH").expect("there is one"));
    let output = Command::new(&alone).args(["load", "-d", "1s"]).env("PATH", path).output().expect("it runs");
    assert_eq!(stdout(&output), "load -d 1s\n", "{}", stderr(&output));
}

#[test]
fn bad_arguments_are_explained_and_exit_with_2() {
    for (args, message) in [
        (&["flor"][..], "unrecognized subcommand 'flor'"),
        (&["serve", "--workers", "-1"][..], "invalid value '-1' for '--workers"),
        (&["serve", "--listen", "localhost:1"][..], "host names are not resolved"),
        (&["serve", "--memory", "64"][..], "memory: 64 is 64 bytes: did you mean 64MiB?"),
        (&["serve", "--memory", "1M"][..], "memory: 1MiB is too little: the minimum is 2MiB"),
    ] {
        let output = guira(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
        for never in ["floor", "-- -1"] {
            assert!(!stderr(&output).contains(never), "{args:?}: {}", stderr(&output));
        }
    }
    assert!(stderr(&guira(&["serv"])).contains("'serve'"));
}

#[test]
fn bad_options_of_memcached_are_explained_and_exit_with_64() {
    let memcached = ["memcached", "-u", "root", "-l", "127.0.0.1", "-p", "-1"];
    for (args, message) in [
        (&["-m", "-1"][..], "-m must be a number of MiB, not -1"),
        (&["-t", "-1"][..], "invalid value '-1'"),
        (&["-c", "-1"][..], "invalid value '-1'"),
        (&["-n", "-1"][..], "invalid value '-1'"),
        (&["-f", "inf"][..], "above 1 and at most 1024, not inf"),
        (&["-o", "ssl_min_version=foo"][..], "'foo' is not a version"),
        (&["-o", "ssl_verify_mode=9"][..], "-o ssl_verify_mode"),
        // What comes after the number that is understood.
        (&["-b", "-1", "-t", "0"][..], "greater than 0"),
        (
            &["-o", "worker_logbuf_size=4000000,watcher_logbuf_size=4000000", "-Y", "/nowhere/x"][..],
            "/nowhere/x",
        ),
    ] {
        let output = guira(&[&memcached[..], args].concat());
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains("tip:"), "{args:?}: {}", stderr(&output));
        assert!(matches!(output.status.code(), Some(64 | 1)), "{args:?}: {:?}", output.status);
    }
}

#[test]
fn a_server_with_users_takes_no_datagrams_however_it_is_started() {
    let scratch = Scratch::new();
    let file = scratch.write("users", "foo:bar\n");
    let users = file.to_str().expect("a plain path");
    let memcached = ["memcached", "-u", "root", "-l", "127.0.0.1", "-p", "-1", "-U", "-1", "-Y", users];
    let serve = ["serve", "--listen", "127.0.0.1:0", "--udp", "127.0.0.1:0", "--auth-file", users];
    let with = |more| [&memcached[..], &[more]].concat();
    for (args, code) in [(&memcached[..], 64), (&with("-S"), 64), (&with("-d"), 64), (&serve, 2)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_guira"));
        command.args(args);
        let mut server = ServerProcess::start(Spec::of_service(command)).unwrap();
        let status = server.wait(PATIENCE).expect("it does not serve all the same");
        let message = server.errors();
        assert_eq!(status.code(), Some(code), "{args:?}: {message}");
        assert!(message.contains("datagrams have no login"), "{args:?}: {message}");
    }
}

#[test]
fn a_file_that_never_ends_is_not_read_to_its_end() {
    let serve = ["20", env!("CARGO_BIN_EXE_guira"), "serve", "--listen", "127.0.0.1:0"];
    for (option, message) in [
        ("--config", "cannot read /dev/zero: longer than 1048576 bytes"),
        ("--auth-file", "cannot read the auth file /dev/zero: longer than 16777216 bytes"),
        ("--tls-cert", "cannot speak TLS: cannot read /dev/zero: longer than"),
    ] {
        let output =
            Command::new("timeout").args(serve).args([option, "/dev/zero"]).output().expect("it runs");
        let code = output.status.code();
        assert!(matches!(code, Some(1 | 2)), "{option}: {code:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{option}: {}", stderr(&output));
    }
}

#[test]
fn more_memory_than_there_is_is_warned_of() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guira"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--memory", "900G", "--workers", "1"]);
    let mut server = ServerProcess::start(Spec::of_service(command)).unwrap();
    server.wait_until_ready(PATIENCE).expect("it serves");
    let is_warned = || {
        let message = server.errors();
        let warns = message.contains("memory 900GiB exceeds the ")
            && message.contains("of this machine or container");
        warns.then_some(())
    };
    assert!(Deadline::after(PATIENCE).poll(is_warned).is_some(), "{}", server.errors());
}

#[test]
fn a_server_whose_address_is_taken_leaves_the_pid_file_of_the_one_that_has_it() {
    let scratch = Scratch::new();
    let (file, taken) = (scratch.write("pid", "1\n"), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let port = taken.local_addr().expect("an address").port().to_string();
    let path = file.to_str().expect("a plain path");
    let output = guira(&["memcached", "-u", "root", "-l", "127.0.0.1", "-p", &port, "-P", path]);
    assert!(!output.status.success() && stderr(&output).contains("cannot listen"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "1\n");
}
