//! The laboratory as a person runs it: arguments, exit codes, messages, and the bench on the floor server alone.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Spec};

/// How long is waited for what should happen at once.
const PATIENCE: Duration = Duration::from_secs(20);

const TRACE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/workload/traces/cache2k-orm-busy.trace.zst");

/// `guira`, which is built beside `guira-lab`.
fn guira() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_guira-lab")).with_file_name("guira")
}

fn lab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_guira-lab")).args(args).output().expect("the binary was built")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A cache server with this much memory, and where it listens.
fn serve(memory: &str) -> (ServerProcess, SocketAddr) {
    let mut command = Command::new(guira());
    command.args(["serve", "--listen", "127.0.0.1:0", "--memory", memory, "--workers", "1"]);
    ServerProcess::listening(Spec::new(command), "").unwrap()
}

/// A floor server of this test; it is stopped when this is dropped.
struct Floor {
    process: ServerProcess,
    addr: String,
    udp: String,
}

impl Floor {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_guira-lab"));
        command.args(["floor", "--udp", "127.0.0.1:0"]);
        let (mut process, addr) = ServerProcess::listening(Spec::new(command), "").unwrap();
        let udp = process.wait_for_address("udp", PATIENCE).unwrap();
        Self { process, addr: addr.to_string(), udp: udp.to_string() }
    }
}

#[test]
fn bad_arguments_are_explained_and_exit_with_2() {
    for (args, message) in [
        (&["flor"][..], "unrecognized subcommand 'flor'"),
        (&["load", "--server", "127.0.0.1:1", "--value-size", "3Q"][..], "KiB"),
        (&["load", "--server", "127.0.0.1:1", "--key-size", "2"][..], "use at least 5"),
        (&["load", "--server", "127.0.0.1:1", "--get", "0"][..], "all weights of the mix are 0"),
        (&["load", "--server", "127.0.0.1:1", "--zipf=-1"][..], "at least 0"),
        (&["load", "--server", "127.0.0.1:1", "--tls"][..], "--tls-ca or --tls-insecure"),
        (&["load", "--server", "127.0.0.1:1", "--tls-ca", "x"][..], "--tls"),
        (
            &["load", "--server", "127.0.0.1:1", "--tls", "--tls-insecure", "--protocol", "udp"][..],
            "TLS over UDP",
        ),
        (
            &["load", "--server", "127.0.0.1:1", "--protocol", "udp", "--multiget", "1"][..],
            "100 keys of 16 bytes do not fit",
        ),
        (&["bench", "--only", "get33"][..], "get32"),
        (&["replay", "x", "--format", "xml"][..], "twitter"),
        (&["load", "--server", "127.0.0.1:1", "--workload", "zipff"][..], "use one of: zipf, uniform"),
        (
            &["load", "--server", "127.0.0.1:1", "--workload", "zipf", "--zipf", "1"][..],
            "cannot be used with",
        ),
        (&["sim"][..], "<TRACE>"),
        (&["sim", "x", "--policy", "mru"][..], "use one of: clock, fifo"),
        (&["sim", "x", "--policy", "clock:bits=3"][..], "is not a number from 1 to 2"),
        (&["sim", "x", "--sizes", "1%,64MiB"][..], "all in bytes, or none in bytes"),
        (&["sim", "x", "--sizes", "200%"][..], "64MiB"),
        (&["sim", "x", "--shards", "0%"][..], "1%"),
        (&["sim", "x", "--layouts", "log"][..], "use one of: slab, segments"),
        (&["sim", "x", "--layouts", "segments", "--shards", "1%"][..], "--shards"),
        (
            &["sim", "--workload", "zipf:requests=10", "--layouts", "segments", "--sizes", "100"][..],
            "not a memory size",
        ),
        (&["sim", "--workload", "zipf:requests=10", "--layouts", "slab", "--sizes", "1M"][..], "too little"),
        (&["sim", "--workload", "zipf:alpha=x"][..], "a number from 0 to 10"),
        (&["sim", "--workload", "zipf:requests=0"][..], "no requests"),
    ] {
        let output = lab(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains("floor"), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_server_that_is_not_there_and_a_trace_that_is_not_there_exit_with_1() {
    let output = lab(&["load", "--server", "127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot connect to 127.0.0.1:1"), "{}", stderr(&output));
    let output = lab(&["replay", "/nowhere/x", "--server", "127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/nowhere/x"), "{}", stderr(&output));
}

#[test]
fn a_load_is_told_as_json_with_the_servers_processor_time() {
    let floor = Floor::start();
    let pid = floor.process.id().to_string();
    let run = ["load", "--server", &floor.addr, "--server-pid", &pid, "--pipeline", "8"];
    let brief = ["-d", "200ms", "--warmup", "0s", "--check-every", "0", "--json"];
    for protocol in ["text", "binary", "udp"] {
        let output = lab(&[&run[..], &brief, &["--protocol", protocol, "--udp-server", &floor.udp]].concat());
        assert!(output.status.success(), "{protocol}: {}", stderr(&output));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(json["counts"]["gets"].as_u64().expect("a number") > 0);
        assert!(json["operations_per_server_cpu_s"].as_f64().expect("a number") > 0.0);
    }
}

#[test]
fn a_load_says_that_its_rate_was_not_kept() {
    let floor = Floor::start();
    let run = |rate| {
        let brief = ["-d", "500ms", "--warmup", "0s", "--check-every", "0", "--rate", rate];
        let output = lab(&[&["load", "--server", &floor.addr][..], &brief].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    assert!(run("900M").contains("s behind schedule at the end"));
    assert!(!run("100").contains("behind schedule"));
}

#[test]
fn a_broken_line_is_told_by_its_number_and_skipped_when_asked() {
    let scratch = Scratch::new();
    let trace = scratch.write("broken", "1 a 10\n2 b\n3 a 10\n4 c x\n");
    let trace = trace.to_str().expect("a plain path");
    let sim = ["sim", trace, "--format", "sized", "--sizes", "2", "--policy", "exact-lru", "--json"];
    let refused = lab(&sim);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("line 2: 2 fields instead of the three"), "{}", stderr(&refused));
    let skipped = lab(&[&sim[..], &["--broken", "skip"]].concat());
    assert!(skipped.status.success(), "{}", stderr(&skipped));
    assert!(
        stderr(&skipped).contains("skipped 2 invalid requests; the first: line 2"),
        "{}",
        stderr(&skipped)
    );
    let json: serde_json::Value = serde_json::from_slice(&skipped.stdout).expect("JSON");
    assert_eq!((&json["points"][0]["reads"], &json["points"][0]["hits"]), (&2.into(), &1.into()));
}

#[test]
fn a_simulation_is_told_as_text_json_and_plot() {
    let scratch = Scratch::new();
    let plot = scratch.file("plot.svg");
    let plot_path = plot.to_str().expect("a plain path");
    let common = ["sim", "--workload", "zipf:keys=2k,requests=20k", "--policy", "all", "--curve", "5"];
    let text = lab(&[&common[..], &["--plot", plot_path, "--shards", "500", "--exact"]].concat());
    assert!(text.status.success(), "{}", stderr(&text));
    for message in ["500 keys, a sample of", "±", "all keys", "off by", "w-tinylfu", "requests/s and core"] {
        assert!(stdout(&text).contains(message), "{message}: {}", stdout(&text));
    }
    assert!(fs::read_to_string(&plot).expect("a plot").contains("Miss ratio: zipf"));
    let json = lab(&[&common[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!((&json["simulated"]["requests"], &json["rules"]["on_miss"]), (&20_000.into(), &"fill".into()));
    let ratio = |policy: &str| {
        let points = json["points"].as_array().expect("points");
        points.iter().find(|point| point["policy"] == policy).expect(policy)["hit_ratio"]
            .as_f64()
            .expect("a number")
    };
    assert!(ratio("belady") > ratio("clock") && ratio("clock") > 0.0);
}

#[test]
fn sizes_in_bytes_hold_as_much_as_they_say() {
    // 1,000 keys of 16 bytes with values of 84: 100 and 16 more each.
    let sim = ["sim", "--workload", "uniform:keys=1k,requests=20k,value=84", "--sizes", "58000B,116000B"];
    let output = lab(&[&sim[..], &["--policy", "exact-lru", "--json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&json["points"][0]["held"], &json["points"][1]["held"]), (&58_000.into(), &116_000.into()));
    let ratio = json["points"][0]["hit_ratio"].as_f64().expect("a number");
    assert!((ratio - 0.5).abs() < 0.02, "{ratio}");
}

#[test]
fn everything_that_can_be_simulated_is_listed() {
    let list = stdout(&lab(&["sim", "--list"]));
    for name in ["w-tinylfu", "fb-wildcard", "twitter-026", "cachelib", "msr"] {
        assert!(list.contains(&format!("  {name} ")), "{name}: {list}");
    }
    assert!(stdout(&lab(&["sim", "--help"])).contains("Policies:"));
}

#[test]
fn a_server_that_answers_wrongly_exits_with_3() {
    let floor = Floor::start();
    let output = lab(&["load", "--server", &floor.addr, "-d", "100ms", "--warmup", "0s"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("replies were wrong"), "{}", stderr(&output));
}

#[test]
fn a_bench_prints_its_table_and_files_its_results() {
    let parent = Scratch::new();
    let out = parent.path().to_str().expect("a plain path");
    let run =
        ["bench", "--only", "get32,set32", "--servers", "floor", "--rounds", "2", "--quick", "--out", out];
    let output = lab(&run);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("| get32 | "), "{}", stdout(&output));
    let dir = fs::read_dir(parent.path()).expect("a folder").next().expect("one").expect("one").path();
    let readme = fs::read_to_string(dir.join("README.md")).expect("a README");
    assert!(readme.contains("| set32 | ") && readme.contains("![loads.svg](loads.svg)"), "{readme}");
    let raw = fs::read(dir.join("results.json")).expect("raw data");
    let raw: serde_json::Value = serde_json::from_slice(&raw).expect("JSON");
    assert_eq!(raw["loads"][0]["rounds"].as_array().expect("a list").len(), 2);
    assert!(fs::read_to_string(dir.join("loads.svg")).expect("a plot").starts_with("<svg"));
}

#[test]
fn a_bench_of_routers_prints_its_tables_and_files_them() {
    let parent = Scratch::new();
    let out = parent.path().to_str().expect("a plain path");
    let run = ["bench", "--only", "router-get1,router-mget100,router-latency", "--servers", "guira"];
    let routers = ["--routers", "guira,relay,nutcracker,floor", "--nutcracker-binary", "/nowhere/nutcracker"];
    let output = lab(&[&run[..], &routers, &["--rounds", "1", "--quick", "--out", out]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("skipped nutcracker: not installed"), "{}", stderr(&output));
    let table = stdout(&output);
    let row = |begin: &str| {
        let line = table.lines().find(|line| line.starts_with(begin));
        let line = line.unwrap_or_else(|| panic!("{begin}: {table}"));
        line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    for router in ["guira", "relay"] {
        let cells = row(&format!("| router-mget100 | {router} |"));
        // Every key was found, and the servers behind have worked for it.
        assert_eq!(cells[9], "0", "{table}");
        assert!(cells[6].parse::<f64>().is_ok_and(|us| us > 0.0), "{table}");
    }
    assert_eq!(row("| router-get1 | floor |")[6], "–");
    assert_eq!(row("| directly |")[5], "–");
    assert!(row("| guira | ")[5].starts_with(['+', '-']), "{table}");
    let dir = fs::read_dir(parent.path()).expect("a folder").next().expect("one").expect("one").path();
    let readme = fs::read_to_string(dir.join("README.md")).expect("a README");
    assert!(
        readme.contains("behind routers, guira: ") && readme.contains("How to read the routers"),
        "{readme}"
    );
}

#[test]
fn a_router_that_the_bench_does_not_know_is_refused_by_name() {
    let output = lab(&["bench", "--only", "router-get1", "--routers", "guira,mcrouter"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("unknown router \"mcrouter\""), "{}", stderr(&output));
}

#[test]
fn a_relay_forwards_a_load() {
    let floor = Floor::start();
    let mut command = Command::new(env!("CARGO_BIN_EXE_guira-lab"));
    command.args(["relay", "--to", &floor.addr]);
    let (_relay, addr) = ServerProcess::listening(Spec::new(command), "").unwrap();
    let addr = addr.to_string();
    let brief = ["-d", "200ms", "--warmup", "0s", "--check-every", "0", "--json"];
    let output = lab(&[&["load", "--server", &addr, "--pipeline", "8"][..], &brief].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(json["counts"]["gets"].as_u64().is_some_and(|gets| gets > 0), "{json}");
    let without = lab(&["relay"]);
    assert_eq!(without.status.code(), Some(2));
    assert!(stderr(&without).contains("--to <ADDRS>"), "{}", stderr(&without));
}

#[test]
fn a_bench_starts_servers_for_udp_and_tls() {
    let run = ["bench", "--only", "bget32,uget1,tget32", "--servers", "floor", "--rounds", "1", "--quick"];
    let output = lab(&run);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("floor agreed on TLSv1_3, TLS13_AES_128_GCM_SHA256"));
    for load in ["bget32", "uget1", "tget32"] {
        assert!(stdout(&output).contains(&format!("| {load} | ")), "{load}: {}", stdout(&output));
    }
}

#[test]
fn the_parts_of_the_bench_are_listed() {
    let list = stdout(&lab(&["bench", "--list"]));
    for part in ["get1", "mixed", "open", "memory-sizes", "items", "uget1", "idle-connections", "metadump"] {
        assert!(list.lines().any(|line| line.split_whitespace().next() == Some(part)), "{part}: {list}");
    }
}

#[test]
fn a_replay_compares_at_equal_resident_size() {
    if Command::new("memcached").arg("-V").output().is_err() {
        eprintln!("skipped: memcached is not installed");
        return;
    }
    let run = ["replay", TRACE, "--limit", "20k", "--memory", "16M", "--servers", "memcached", "--json"];
    let output = lab(&run);
    assert!(output.status.success(), "{}", stderr(&output));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(rows[0]["record"]["counts"]["gets"], 20_000);
    let allowed = rows[0]["memory"].as_u64().expect("a number");
    assert!(allowed < 16 << 20, "the process is larger than its items: {allowed}");
    assert!(rows[0]["cpu_us_per_request"].as_f64().expect("a number") > 0.0);
}

#[test]
fn a_replay_says_what_is_missing_before_it_starts_anything() {
    let output = lab(&["replay", "/nowhere/x"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "guira-lab: cannot use /nowhere/x: No such file or directory (os error 2)\n");
    let output = lab(&["replay", TRACE, "--servers", "guira,other=/nowhere/memcached"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("/nowhere/memcached does not exist"), "{}", stderr(&output));
    // Without memcached the others are compared.
    let mut command = Command::new(env!("CARGO_BIN_EXE_guira-lab"));
    command.args(["replay", TRACE, "--limit", "5k", "--memory", "16M"]).env("PATH", "/nowhere");
    let output = command.output().expect("the binary was built");
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("skipped memcached: it is not installed (Debian package memcached)"), "{said}");
    assert!(stdout(&output).contains("| guira |"), "{}", stdout(&output));
}

#[test]
fn a_replay_of_a_pipe_is_of_all_of_it() {
    let keys: String = (0..20_000).map(|number| format!("a-key-of-a-trace-{number}\n")).collect();
    let replay = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_guira-lab"));
        command.args(["replay", "/dev/stdin", "--json"]).args(more);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary was built");
        let (mut stdin, keys) = (child.stdin.take().expect("a pipe"), keys.clone());
        let writer = std::thread::spawn(move || drop(stdin.write_all(keys.as_bytes())));
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("it writes");
        output
    };
    let (_server, address) = serve("64M");
    let output = replay(&["--server", &address.to_string()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told["counts"]["gets"], 20_000, "{told}");
    let output = replay(&["--servers", "guira"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("/dev/stdin is not a file and can be read only once"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn what_was_measured_before_a_replay_fails_is_printed() {
    let servers = ["--servers", "guira,other=/bin/false"];
    let output = lab(&[&["replay", TRACE, "--limit", "5k", "--memory", "16M"][..], &servers].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("| guira |"), "{}", stdout(&output));
}

#[test]
fn a_replay_on_a_server_that_is_not_empty_says_so() {
    let (_server, address) = serve("16M");
    let scratch = Scratch::new();
    let trace = scratch.write("trace", "a\nb\n");
    let mut client = TcpStream::connect(address).expect("it listens");
    client.write_all(b"set a 0 0 2\r\nxy\r\n").expect("it is sent");
    client.read_exact(&mut [0; 8]).expect("an answer");
    let output = lab(&["replay", trace.to_str().expect("a plain path"), "--server", &address.to_string()]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("the server was not empty (1 items"), "{}", stderr(&output));
}

#[test]
fn a_recommendation_is_told_as_text_and_json_and_starts_a_server() {
    let sim = ["sim", "--workload", "zipf:keys=100k,requests=400k,value=200", "--recommend"];
    let text = lab(&sim);
    assert!(text.status.success(), "{}", stderr(&text));
    for message in
        ["a sample of", "Use --memory ", " of 100 reads miss", "Twice as much, ", "the best fixed policy, "]
    {
        assert!(stdout(&text).contains(message), "{message}: {}", stdout(&text));
    }
    let json = lab(&[&sim[..], &["--size", "20M", "--json"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!((&json["memory"], &json["twice"]["memory"]), (&(20 << 20).into(), &(40 << 20).into()));
    assert!(json["miss_ratio"].as_f64() > json["twice"]["miss_ratio"].as_f64(), "{json}");
    let arguments: Vec<&str> = json["arguments"].as_str().expect("a text").split(' ').collect();
    let config = Command::new(guira()).args(["serve", "--print-config"]).args(&arguments).output();
    let config = config.expect("guira was built");
    assert!(config.status.success() && stdout(&config).contains("memory = \"20MiB\""), "{}", stdout(&config));
}

#[test]
fn what_nothing_can_be_recommended_for_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    let trace = |name, text| scratch.write(name, text).to_str().expect("a plain path").to_owned();
    let (empty, keys) = (trace("empty", ""), trace("keys", "a\nb\na\n"));
    let writes = trace("writes", "0,a,1,9,1,set,0\n1,b,1,9,1,set,0\n");
    for (args, message) in [
        (&[&empty[..]][..], "empty: no requests"),
        (&[&writes], "writes: no request reads"),
        (&[&keys, "--size", "4GiB"], "set --value-size"),
        (
            &[&keys, "--size", "4MiB", "--value-size", "9"],
            "4MiB is less memory than a server takes without items",
        ),
        (&[&keys, "--sizes", "4,5"], "needs at most one size"),
        (&[&keys, "--policy", "clock"], "cannot be used with"),
    ] {
        let refused = lab(&[&["sim", "--recommend"], args].concat());
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(message), "{args:?}: {}", stderr(&refused));
    }
    let objects = stdout(&lab(&["sim", "--recommend", &keys]));
    assert!(objects.starts_with("Use room for 2 objects"), "{objects}");
}
