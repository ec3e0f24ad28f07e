//! The files of deploy/, as far as they can be tried without the systems that they are for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use guira_harness::scratch::Scratch;

const GUIRA: &str = env!("CARGO_BIN_EXE_guira");

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(file(path)).expect("the file is there")
}

/// An example with all that is commented out in it. A comment that is an option begins without a blank.
fn uncommented(text: &str) -> String {
    let all = text.lines().map(|line| match line.strip_prefix('#') {
        Some(option) if !option.starts_with(' ') => option,
        _ => line,
    });
    all.collect::<Vec<_>>().join("\n")
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
    let said = |words: &[&str]| {
        let output = Command::new(GUIRA).arg("container").args(words).output().expect("the binary was built");
        (self::words(&output).concat(), output.status.success())
    };
    assert_eq!(said(&["-V"]), ("memcached 1.6.45".to_owned(), true));
    assert_eq!(said(&["memcached", "-V"]), ("memcached 1.6.45".to_owned(), true));
    let (version, is_right) = said(&["guira", "--version"]);
    assert!(is_right && version.starts_with(concat!("guira ", env!("CARGO_PKG_VERSION"))), "{version}");
    assert_eq!(said(&["sh", "-c", "true"]), (String::new(), false));
}

#[test]
fn every_option_is_in_the_man_pages_and_in_the_completions() {
    let folder = Scratch::new();
    let status =
        Command::new(GUIRA).args(["man", "--all"]).arg(folder.path()).status().expect("the binary was built");
    assert!(status.success());
    let read = |name: &str| fs::read_to_string(folder.file(name)).expect(name).replace("\\-", "-");
    let places = [
        "bash-completion/completions/guira",
        "zsh/vendor-completions/_guira",
        "fish/vendor_completions.d/guira.fish",
    ];
    let completions = places.map(read);
    let page = read("man/man1/guira-serve.1");
    for row in guira_server::OPTIONS {
        assert!(page.contains(&format!("--{}", row.name)), "{} in the man page", row.name);
        for (text, place) in completions.iter().zip(places) {
            assert!(text.contains(row.name), "{} in {place}", row.name);
        }
    }
    assert!(read("man/man1/guira-memcached.1").contains("--memory-limit"));
    assert!(read("man/man1/guira.1").contains("guira-bench"));
    let everything = completions.concat() + &read("man/man1/guira.1");
    assert!(!everything.contains("used by"), "what is hidden is in none of them");
}

#[test]
fn the_example_of_a_configuration_is_understood_with_all_that_is_commented_out() {
    let folder = Scratch::new();
    let configuration = folder.write("guira.toml", &uncommented(&read("deploy/systemd/guira.toml")));
    let output =
        Command::new(GUIRA).args(["serve", "--print-config", "--config"]).arg(&configuration).output();
    let output = output.expect("the binary was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = words(&output);
    for option in ["memory = \"1GiB\"", "max-connections = 16384", "auth-file = \"/etc/guira/users\""] {
        assert!(printed.iter().any(|line| line == option), "{option}: {printed:?}");
    }
}

fn start_of(unit: &str) -> String {
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/guira "));
    line.expect("a command").to_owned()
}

/// What a file of variables says.
fn variable<'a>(text: &'a str, name: &str) -> &'a str {
    let mut said =
        text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(name)?.strip_prefix('='));
    said.next_back().unwrap_or_default()
}

/// Runs the binary with a command line that has to be right.
fn accepts(start: &str, and: &[&str]) -> Output {
    let words = start.split(' ').filter(|word| !word.is_empty());
    let output = Command::new(GUIRA).args(words).args(and).output().expect("the binary was built");
    assert!(output.status.success(), "{start}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A unit that runs a command with a configuration, of which there is an example, with all that is commented out in it.
fn starts_with_its_example(unit: &str, example: &str, secrets: &[&str]) {
    let folder = Scratch::new();
    let own = folder.write("secret", "secret\n");
    let mut text = uncommented(&read(&format!("deploy/systemd/{example}")));
    for secret in secrets {
        text = text.replace(secret, &own.to_string_lossy());
    }
    let configuration = folder.write(example, &text);
    let start = start_of(&read(&format!("deploy/systemd/{unit}")));
    accepts(&start.replace(&format!("/etc/guira/{example}"), &configuration.to_string_lossy()), &["--check"]);
}

#[test]
fn the_unit_of_the_checker_starts_it_with_its_example() {
    starts_with_its_example(
        "guira-checker.service",
        "checker.toml",
        &["/etc/guira/check-password", "/etc/guira/admin-token"],
    );
}

#[test]
fn the_unit_of_the_router_starts_it_with_its_examples_and_without_options() {
    let unit = read("deploy/systemd/guira-router.service");
    let configuration = file("deploy/systemd/router.json");
    let start = start_of(&unit).replace("/etc/guira/router.json", &configuration.to_string_lossy());
    let by_default =
        unit.lines().find_map(|line| line.strip_prefix("Environment=\"OPTIONS=")?.strip_suffix('"'));
    let example = read("deploy/systemd/router.env");
    for options in [by_default.expect("what holds without a file"), variable(&example, "OPTIONS")] {
        assert!(options.contains("--listen 127.0.0.1:"), "{options}: nobody else is let in");
        accepts(&start.replace("$OPTIONS", options), &["--validate-config"]);
    }
    let made = unit.lines().find_map(|line| line.strip_prefix("StateDirectory=")).expect("folders");
    for option in ["--config-dump-root", "--async-dir"] {
        let folder = start.split(' ').skip_while(|word| *word != option).nth(1).expect(option);
        assert!(made.split(' ').any(|made| folder == format!("/var/lib/{made}")), "{folder} is not made");
    }
}

#[test]
fn the_unit_of_a_member_joins_with_its_example() {
    let start = start_of(&read("deploy/systemd/guira-member.service"));
    let example = read("deploy/systemd/member.env");
    let mut line = start.replace("${ETCD}", variable(&example, "ETCD"));
    for name in ["POOL", "SERVER"] {
        line = line.replace(&format!("${{{name}}}"), variable(&example, name));
    }
    // The longer name first.
    for name in ["ETCD_OPTIONS", "OPTIONS"] {
        assert!(!variable(&example, name).is_empty(), "{name} has no example");
        line = line.replace(&format!("${name}"), variable(&example, name));
    }
    assert!(!line.contains('$'), "{line}: a variable is not in the example");
    accepts(&line, &["--help"]);
}

/// What one unit restricts the others do, but for what the line before says.
#[test]
fn units_are_restricted_alike() {
    let restricted = |name: &str| -> Vec<String> {
        let unit = read(&format!("deploy/systemd/{name}"));
        let from = unit.split_once("NoNewPrivileges=yes\n").expect("the first of them").1;
        let lines = from.lines().take_while(|line| !line.starts_with("[Install]"));
        // Some have no option `system-calls`.
        let own = ["ProcSubset=pid", "SystemCallFilter=seccomp"];
        lines.filter(|line| !line.starts_with('#') && !own.contains(line)).map(str::to_owned).collect()
    };
    let server = restricted("guira.service");
    assert!(server.len() > 20, "{server:?}");
    for other in
        ["guira-router.service", "guira-member.service", "guira-invalidator.service", "guira-checker.service"]
    {
        assert_eq!(restricted(other), server, "{other}");
    }
}

#[test]
fn the_unit_of_the_invalidator_starts_it_with_its_example() {
    starts_with_its_example("guira-invalidator.service", "invalidator.toml", &["/etc/guira/db-password"]);
    let unit = read("deploy/systemd/guira-invalidator.service");
    let text = read("deploy/systemd/invalidator.toml");
    let state = unit.lines().find_map(|line| line.strip_prefix("StateDirectory=")).expect("a folder");
    for setting in ["position", "spool"] {
        let place = format!("{setting} = \"/var/lib/{state}/");
        assert!(text.lines().any(|line| line.starts_with(&place)), "{setting} is elsewhere than {place}");
    }
}

#[test]
fn the_manifest_starts_a_server_with_options_that_there_are() {
    let manifest = read("deploy/kubernetes/guira.yaml");
    let after = manifest.split("          args:\n").nth(1).expect("arguments");
    let arguments: Vec<&str> = after.lines().map_while(|line| line.trim().strip_prefix("- ")).collect();
    assert_eq!(arguments[..2], ["guira", "serve"]);
    let output = Command::new(GUIRA).arg("container").args(&arguments).arg("--print-config").output();
    let output = output.expect("the binary was built");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(words(&output).iter().any(|line| line == "memory = \"1GiB\""), "{output:?}");
}

/// Those of the manifest are tried above; the others depend on values.
#[test]
fn the_chart_names_options_that_there_are() {
    let named = |template: &str| -> Vec<String> {
        let text = read(&format!("deploy/helm/guira/templates/{template}"));
        text.split("\"--")
            .skip(1)
            .filter_map(|after| Some(after.split(['=', '"']).next()?.to_owned()))
            .collect()
    };
    let servers = named("_servers.tpl");
    assert!(servers.len() > 9, "{servers:?}");
    for name in servers {
        assert!(guira_server::OPTIONS.iter().any(|row| row.name == name), "--{name}");
    }
    let help = Command::new(GUIRA).args(["router", "--help"]).output().expect("the binary was built");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let router = named("_router.tpl");
    assert!(router.len() > 14, "{router:?}");
    for name in router {
        // A switch may have a value in brackets.
        let is_there = [' ', '\n', '['].iter().any(|end| help.contains(&format!("--{name}{end}")));
        assert!(is_there, "--{name}");
    }
}

#[test]
fn the_chart_runs_the_image_of_this_version() {
    let line = concat!("appVersion: ", env!("CARGO_PKG_VERSION"));
    assert!(read("deploy/helm/guira/Chart.yaml").lines().any(|found| found == line), "no {line}");
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
