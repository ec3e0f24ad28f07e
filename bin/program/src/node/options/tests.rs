use super::*;

fn from(text: &str) -> CliOptions {
    CliOptions::from_toml(text).unwrap()
}

fn read(text: &str) -> Result<Options, String> {
    let given = CliOptions::from_toml(text)?;
    given.read().map_err(|error| error.to_string())
}

#[test]
fn what_is_printed_can_be_read_again() {
    for text in
        ["", "engine = \"mica\"", "engine = \"mica-store\"", "engine = \"fleec\"", "region = \"main\""]
    {
        let options = read(text).unwrap();
        let again = read(&to_toml(&options)).unwrap();
        assert_eq!(format!("{options:?}"), format!("{again:?}"));
    }
    assert_eq!(read("").unwrap().listen[0].to_string(), "127.0.0.1:11211");
}

#[test]
fn every_option_is_printed_with_its_value_or_what_holds_without_one() {
    let printed = to_toml(&read("").unwrap());
    for row in OPTIONS {
        let (value, comment) = (format!("{} = ", row.name), format!("# {}: ", row.name));
        let lines = printed.lines().filter(|line| line.starts_with(&value) || line.starts_with(&comment));
        assert_eq!(lines.count(), 1, "{} in {printed}", row.name);
    }
    for line in [
        "growth-factor = 1.06",
        "smallest-item = 16",
        "policy = \"auto\"",
        "udp = []",
        "# region: none",
        "# reserve: four times the memory and at least 8GiB, at most the machine's",
    ] {
        assert!(printed.lines().any(|other| other == line), "{line} in {printed}");
    }
    let printed = to_toml(&read("engine = \"mica\"").unwrap());
    let line = "# growth-factor: not with the engine mica: it has no slab classes";
    assert!(printed.lines().any(|other| other == line), "{printed}");
}

#[test]
fn the_example_of_every_option_is_one_of_its_values() {
    for row in OPTIONS {
        let example = row.example();
        assert!(!example.is_empty(), "{} needs an example", row.name);
        assert_eq!(row.check(&example), Ok(()), "{}", row.name);
    }
}

#[test]
fn sizes_that_could_not_be_meant_are_refused() {
    for (text, problem) in [
        ("memory = \"1GiB\"\nreserve = \"512MiB\"", "reserve: must be no less than the memory, not 512MiB"),
        ("connection-memory = 0", "connection-memory: must be at least 64KiB, not 0"),
        ("connection-memory = \"1\"", "connection-memory: must be at least 64KiB, not 1"),
        ("worker-log-buffer = \"100GiB\"", "worker-log-buffer: must be no more than the memory, not 100GiB"),
        ("watcher-buffer = \"100GiB\"", "watcher-buffer: must be no more than the memory, not 100GiB"),
        ("growth-factor = inf", "growth-factor: must be above 1 and at most 1024, not inf"),
        ("growth-factor = 1", "growth-factor: must be above 1 and at most 1024, not 1"),
    ] {
        let error = read(&format!("{text}\n")).unwrap_err();
        assert!(error.contains(problem), "{error}");
    }
    read("memory = \"64MiB\"\nreserve = \"64MiB\"\nconnection-memory = \"64KiB\"").unwrap();
}

#[test]
fn the_command_line_goes_before_the_file() {
    let flags = CliOptions::of([("workers", "3")]);
    let options = flags.or(from("workers = 1\nmemory = \"64MiB\"")).read().unwrap();
    assert_eq!((options.workers, options.memory.0), (3, 64 << 20));
}

#[test]
fn unknown_names_and_bad_values_are_refused_by_name() {
    for (text, problem) in [
        ("memroy = \"1G\"", "unknown option memroy"),
        ("memory = \"1X\"", "'1X' is not a size"),
        ("workers = 0", "workers: must be 1 to 1024"),
        ("listen = []", "at least one address"),
        ("listen = [\"here\"]", "'here' is not an address"),
        ("udp = [\"here\"]", "udp: must be IP:PORT"),
        ("engine = \"x\"", "use one of: memc3, classic"),
        ("max-item-size = \"2GiB\"", "1KiB to 1GiB"),
        ("unix-mode = \"799\"", "in octal"),
        ("protocol = \"redis\"", "auto or ascii or binary"),
        ("beyond-max = \"drop\"", "refuse or wait"),
        ("xdp = \"eth0\"", "xdp: needs mica"),
        ("tls-key = \"key.pem\"", "tls-key: needs a certificate: tls-cert"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(problem), "{text}: {error}");
    }
}

#[test]
fn permissions_are_given_one_by_one() {
    let permissions = |text: &str| {
        let options = read(text).unwrap();
        let refusals = [options.disable_flush_all, options.disable_dumping, options.disable_watch];
        (options.enable_shutdown, refusals, options.test_commands)
    };
    assert_eq!(permissions(""), (false, [false; 3], false));
    let all = "enable-shutdown = true\ndisable-flush-all = true\ndisable-dumping = true\ndisable-watch = true\ntest-commands = true";
    assert_eq!(permissions(all), (true, [true; 3], true));
}

#[test]
fn one_address_needs_no_brackets() {
    let options = read("listen = \"127.0.0.1:0\"\nudp = [\"127.0.0.1:1\"]").unwrap();
    assert_eq!(options.listen[0].to_string(), "127.0.0.1:0");
    assert_eq!(options.udp[0].to_string(), "127.0.0.1:1");
}

#[test]
fn errors_in_a_file_have_a_line_and_plain_words() {
    for (text, problem) in [
        ("listen = 7", "expected text in quotes, or a list of them in brackets"),
        ("listen = [7]", "expected text in quotes"),
        ("workers = \"4\"", "expected a whole number, 0 or more"),
        ("workers = -1", "must be a whole number, 0 or more"),
        ("backlog = 1.5", "expected a whole number, 0 or more"),
        ("backlog = 4294967296", "must be a whole number, 0 or more and below 4294967296"),
        ("max-connections = true", "expected a whole number, 0 or more"),
        ("growth-factor = \"1.2\"", "expected a number"),
        ("unix-mode = 0o700", "expected text in quotes"),
        ("unix-mode = [\"700\"]", "expected text in quotes"),
        ("pin-workers = 1", "expected true or false"),
        ("prefix-delimiter = 1", "expected text in quotes"),
        ("prefix-delimiter = \"ab\"", "must be one character of ASCII"),
        ("memory = true", "expected a size in quotes, such as \"64MiB\", or a number of bytes"),
        ("memory = -1", "'-1' is not a size"),
        ("memroy = 1", "unknown option"),
    ] {
        let error = CliOptions::from_toml(&format!("\n{text}")).unwrap_err();
        assert!(error.contains(problem), "{text}: {error}");
        assert!(error.contains("line 2"), "{text}: {error}");
        let rust = ["usize", "u64", "u32", "f64", "sequence", "boolean"];
        let after = error.rsplit("expected").next().unwrap();
        assert!(rust.iter().all(|word| !after.contains(word)), "{text}: {error}");
    }
    assert_eq!(read("memory = 67108864").unwrap().memory.0, 64 << 20);
}
