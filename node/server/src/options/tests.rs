use super::*;
use guira_contract::Engine;
use guira_roster::{Host, Opened, Setup};

/// Options that the system or other processes have a say in: they are read here, and no engine is opened with them.
const NOT_OPENED: [&str; 2] = ["region", "lock-memory"];

/// The engines that do not honour an option, and a value that they refuse.
const REFUSALS: [(&str, &[&str], &str); 4] = [
    ("growth-factor", &["mica", "mica-store"], "1.5"),
    ("smallest-item", &["mica", "mica-store"], "48"),
    ("access", &["memc3", "classic", "fleec", "memclock"], "erew"),
    ("disable-evictions", &["mica-store"], "false"),
];

/// Values of index and policy depend on the engine: another test has them.
const OF_ENGINE: [&str; 3] = ["engine", "index", "policy"];

struct Opens;

impl Host for Opens {
    type Output = u64;

    fn run<E: Engine + Clone>(self, opened: Opened<E>) -> u64 {
        opened.engine.stats().memory_limit
    }
}

fn read(engine: &str, option: &OptionRow, value: &str) -> Result<Options, String> {
    let mut given = GivenOptions::from([("engine", vec![engine.to_owned()])]);
    // What some options need.
    given.insert("tls-cert", vec!["cert.pem".to_owned()]);
    if option.name != "takeover" {
        given.insert("mica", vec!["127.0.0.1:11311".to_owned()]);
    }
    given.insert("admin", vec!["9150".to_owned()]);
    given.insert(option.name, vec![value.to_owned()]);
    Options::read(&given).map_err(|error| error.to_string())
}

#[test]
fn every_engine_honours_an_option_or_refuses_it_clearly() {
    const MEMORY: usize = 16 << 20;
    for engine in Choice::names() {
        for row in OPTIONS.iter().filter(|row| !OF_ENGINE.contains(&row.name)) {
            let refusal =
                REFUSALS.iter().find(|(name, engines, _)| *name == row.name && engines.contains(&engine));
            let value = refusal.map_or_else(|| row.example(), |(_, _, value)| (*value).to_owned());
            let read = read(engine, row, &value);
            if refusal.is_some() {
                let error = read.unwrap_err();
                let begin = format!("{}: the engine {engine} does not support this option: ", row.name);
                assert!(error.starts_with(&begin), "{error}");
                continue;
            }
            let options = read.unwrap_or_else(|error| panic!("{engine} with {}: {error}", row.name));
            if NOT_OPENED.contains(&row.name) {
                continue;
            }
            let setup: Setup = crate::start::setup(&options, MEMORY);
            let limit = options.choice().unwrap().open(&setup, Opens);
            assert_eq!(limit.unwrap(), MEMORY as u64, "{engine} with {}", row.name);
        }
    }
}

#[test]
fn an_engine_refuses_the_index_and_policy_of_another() {
    let error = |engine: &str, option: &str, value: &str| {
        let row = OPTIONS.iter().find(|row| row.name == option).unwrap();
        read(engine, row, value).unwrap_err()
    };
    assert_eq!(error("fleec", "policy", "lru"), "unknown policy 'lru'; use one of: bucket-clock");
    assert_eq!(error("mica-store", "policy", "lru"), "unknown policy 'lru'; use one of: none");
    assert_eq!(error("mica-store", "index", "cuckoo"), "unknown index 'cuckoo'; use one of: bulk-chained");
    assert!(error("mica", "policy", "clock").starts_with("unknown policy 'clock'; use one of: "));
}

#[test]
fn the_help_names_every_engine() {
    let row = OPTIONS.iter().find(|row| row.name == "engine").unwrap();
    for engine in Choice::names() {
        assert!(row.help().contains(engine), "{engine}");
    }
}

#[test]
fn every_option_has_a_name_of_its_own() {
    for (index, row) in OPTIONS.iter().enumerate() {
        assert!(OPTIONS[..index].iter().all(|other| other.name != row.name), "{}", row.name);
        assert!(row.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", row.name);
    }
}
