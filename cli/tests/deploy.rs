//! The files of deploy/, as far as they can be tried without the systems that they are for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use guira_harness::scratch::Scratch;

const GUIRA: &str = env!("CARGO_BIN_EXE_guira");

/// A file of the repository.
fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(file(path)).expect("the file is there")
}

fn words(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// The command line that `memcached-options` makes of a file of these contents.
fn options(folder: &Scratch, contents: &str) -> String {
    let configuration = folder.write("memcached.conf", contents);
    let mut command = Command::new(file("deploy/systemd/memcached-options"));
    let output = command.arg(&configuration).env("GUIRA", "/bin/echo").output().expect("a shell");
    assert!(output.status.success(), "{output:?}");
    words(&output).concat()
}

#[test]
fn debians_configuration_is_read_as_debian_reads_it() {
    let folder = Scratch::new();
    let contents = "# a comment\n-d\nlogfile /var/log/x\n\n-m 64 # more\n\t-p 11211 \n-u memcache\n-D \\#\n-h\nword\n-s \"/tmp/a  b\"";
    // Two blanks within quotes stay two.
    let expected = "memcached -m 64 -p 11211 -u memcache -D # word -s /tmp/a  b";
    assert_eq!(options(&folder, contents), expected);
    assert_eq!(options(&folder, "# nothing\n"), "memcached -u root");
}

#[test]
fn the_image_is_started_as_memcacheds_is() {
    let folder = Scratch::new();
    for name in ["guira", "memcached"] {
        std::os::unix::fs::symlink(GUIRA, folder.file(name)).expect("a link");
    }
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let entry = |arguments: &[&str]| {
        let mut command = Command::new(file("deploy/docker/docker-entrypoint.sh"));
        words(&command.args(arguments).env("PATH", &path).output().expect("a shell")).concat()
    };
    assert_eq!(entry(&["-V"]), "memcached 1.6.45");
    assert_eq!(entry(&["memcached", "-V"]), "memcached 1.6.45");
    assert_eq!(entry(&["guira", "--version"]), concat!("guira ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_example_of_a_configuration_is_understood_with_all_that_is_commented_out() {
    let folder = Scratch::new();
    let text = read("deploy/systemd/guira.toml");
    // A comment that is an option begins without a blank.
    let all = text.lines().map(|line| match line.strip_prefix('#') {
        Some(option) if !option.starts_with(' ') => option,
        _ => line,
    });
    let configuration = folder.write("guira.toml", &all.collect::<Vec<_>>().join("\n"));
    let output =
        Command::new(GUIRA).args(["serve", "--print-config", "--config"]).arg(&configuration).output();
    let output = output.expect("the binary was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = words(&output);
    for option in ["memory = \"1GiB\"", "max-connections = 16384", "auth-file = \"/etc/guira/users\""] {
        assert!(printed.iter().any(|line| line == option), "{option}: {printed:?}");
    }
}

#[test]
fn the_unit_allows_the_descriptors_that_its_configuration_needs() {
    let number = |text: &str, name: &str| -> u64 {
        let value = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        value.trim().parse().expect("a number")
    };
    let connections = number(&read("deploy/systemd/guira.toml"), "max-connections = ");
    let allowed = number(&read("deploy/systemd/guira.service"), "LimitNOFILE=");
    assert!(allowed >= connections + 256, "{allowed} for {connections}");
}

#[test]
fn the_image_is_built_by_the_compiler_that_the_project_names() {
    let toolchain: toml::Table = read("rust-toolchain.toml").parse().expect("TOML");
    let channel = toolchain["toolchain"]["channel"].as_str().expect("a version");
    let line = format!("ARG RUST={channel}");
    assert!(read("deploy/docker/Dockerfile").lines().any(|found| found == line), "no {line}");
}
