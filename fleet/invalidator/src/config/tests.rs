//! Configurations that are right, and others.

use super::*;
use crate::deliver::Dialect;
use crate::source::binlog::{Product, Reads};
use crate::source::postgres::{self, SlotCreation};
use guira_harness::scratch::Scratch;
use guira_sql::Security;
use guira_sql::mariadb::PasswordKey;

const GOOD: &str = r#"
position = "/var/lib/guira/position"
admin = "127.0.0.1:9160"

[source.mariadb]
address = "db.example:3306"
user = "guira"
server-id = 4242

[[template]]
database = "shop"
table = "users"
keys = ["user:{id}", "mail:{mail}"]

[[target]]
name = "east"
address = "10.0.0.1:11211"
prefix = "/*/*/"

[[target]]
name = "west"
address = "unix:/run/router"
protocol = "classic"
timeout-ms = 250
hold-off-s = 2
"#;

#[test]
fn a_target_is_flushed_itself_or_others_are_or_nothing_is() {
    let flushed = |line: &str| {
        let text = GOOD.replace("prefix = \"/*/*/\"", line);
        let config = Config::from_toml(&text).unwrap();
        let ways = config.targets[0].ways().unwrap();
        ways.flushes.iter().map(|server| server.endpoint().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(flushed(""), ["10.0.0.1:11211"]);
    assert_eq!(flushed("flush = [\"b:1\", \"c:1\"]"), ["b:1", "c:1"]);
    assert_eq!(flushed("flush = []"), [""; 0]);
}

#[test]
fn a_configuration_is_read_with_its_defaults() {
    let config = Config::from_toml(GOOD).unwrap();
    assert_eq!((config.batch_keys, config.queue_batches), (BATCH_KEYS, QUEUE));
    assert_eq!(config.on_gap, OnGap::Stop);
    let Source::Binlog(source) = config.source().unwrap() else { panic!("a MariaDB") };
    assert_eq!((source.server.endpoint.to_string().as_str(), source.server_id), ("db.example:3306", 4242));
    assert_eq!(source.reads, Reads::StatementsAndRows);
    let [east, west] = &config.targets[..] else { panic!("two targets") };
    assert_eq!(
        (east.dialect, &*east.how().prefix, east.timeout()),
        (Dialect::Meta, "/*/*/", Duration::from_secs(5))
    );
    assert_eq!(
        (west.dialect, &*west.how().prefix, west.timeout()),
        (Dialect::Classic, "", Duration::from_millis(250))
    );
    let ways = [east, west].map(|target| target.ways().unwrap());
    assert_eq!(ways.map(|ways| ways.flushes[0].endpoint() == ways.deletes.endpoint()), [true; 2]);
    assert_eq!((east.how().hold_off_s, west.how().hold_off_s), (None, Some(2)));
    let limits = [east, west].map(|target| config.limits(target));
    assert_eq!(limits.map(|limits| limits.again_after), [Some(Duration::from_millis(500)), None]);
    assert_eq!(limits.map(|limits| limits.linger.as_millis()), [10, 10]);
    assert_eq!(limits.map(|limits| (limits.queue_weight, limits.spool_after.as_secs())), [(16_000, 1); 2]);
    let again = GOOD.replace("hold-off-s = 2", "hold-off-s = 2\nagain-after-ms = 70\nlinger-ms = 0");
    let config = Config::from_toml(&again).unwrap();
    let limits = config.limits(&config.targets[1]);
    assert_eq!((limits.again_after, limits.linger), (Some(Duration::from_millis(70)), Duration::ZERO));
    let never = GOOD.replace("prefix =", "again-after-ms = 0\nprefix =");
    let config = Config::from_toml(&never).unwrap();
    assert_eq!(config.limits(&config.targets[0]).again_after, None);
    let tables = config.tables();
    assert!(matches!(&tables[..], [TableKeys { rule: Rule::Templates(keys), .. }] if keys.len() == 2));
    let outbox = "[[outbox]]\ndatabase = \"shop\"\ntable = \"outbox\"\ncolumn = \"keys\"\n[[target]]";
    let (start, end) = (GOOD.find("[[template]]").unwrap(), GOOD.find("[[target]]").unwrap());
    let text = [&GOOD[..start], &GOOD[end..]].concat().replacen("[[target]]", outbox, 1);
    let config = Config::from_toml(&text).unwrap();
    assert!(matches!(&config.tables()[0].rule, Rule::Outbox(column) if column == "keys"));
    let Source::Binlog(source) = config.source().unwrap() else { panic!("a MariaDB") };
    assert_eq!(source.reads, Reads::StatementsAndRows);
    let error = Config::from_toml(&text.replace("database = \"shop\"", "")).unwrap_err();
    assert!(error.contains("the outbox outbox needs a database"), "{error}");
}

/// The same with the other database.
const POSTGRES: &str = r#"
[source.postgres]
address = "db.example:5432"
database = "shop"
user = "guira"
slot = "guira_1"
publication = "guira"
"#;

fn with_postgres() -> String {
    let (start, end) = (GOOD.find("[source.mariadb]").unwrap(), GOOD.find("[[template]]").unwrap());
    [&GOOD[..start], POSTGRES, &GOOD[end..]].concat().replacen("database = \"shop\"\ntable", "table", 1)
}

fn options(text: &str) -> Result<postgres::Options, String> {
    match Config::from_toml(text)?.source().map_err(|error| error.to_string())? {
        Source::Postgres(options) => Ok(options),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_postgresql_is_read_with_its_defaults() {
    let read = options(&with_postgres()).unwrap();
    assert_eq!(read.server.endpoint.to_string(), "db.example:5432");
    assert_eq!((&*read.database, &*read.slot, &*read.publication), ("shop", "guira_1", "guira"));
    assert_eq!(read.tables, [("public".to_owned(), "users".to_owned())]);
    assert_eq!(read.slot_creation, SlotCreation::Allowed);
    assert!(matches!(read.server.security, Security::Plain));
    let text = with_postgres()
        .replace("table = \"users\"", "schema = \"s\"\ntable = \"users\"")
        .replace("slot =", "tls = { mode = \"require\" }\ncreate-slot = false\nslot =");
    let read = options(&text).unwrap();
    assert_eq!(read.tables, [("s".to_owned(), "users".to_owned())]);
    assert_eq!(read.slot_creation, SlotCreation::Forbidden);
    assert!(matches!(read.server.security, Security::Tls(..)));
}

#[test]
fn a_postgresql_that_makes_no_sense_is_refused() {
    let good = with_postgres();
    for (from, to, expected) in [
        ("slot =", "slott =", "unknown field `slott`"),
        ("guira_1", "Guira", "lower-case letters"),
        ("slot =", "tls = {}\nslot =", "tls needs ca"),
        ("slot =", "tls = { mode = \"require\", ca = \"x\" }\nslot =", "ca of tls needs mode"),
        ("slot =", "tls = { ca = \"x\", key = \"x\" }\nslot =", "key of tls needs cert"),
        ("slot =", "tls = { mode = \"allow\" }\nslot =", "unknown variant"),
        ("table =", "database = \"shop\"\ntable =", "only a schema: the database is shop"),
    ] {
        let error = options(&good.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(expected), "{to}: {error}");
    }
    let on_unix = good.replace("db.example:5432", "unix:/run/db");
    assert!(options(&on_unix).is_ok());
    let error = options(&on_unix.replace("slot =", "tls = { ca = \"x\" }\nslot =")).unwrap_err();
    assert!(error.contains("tls cannot be used with a UNIX socket"), "{error}");
    let unread = "tls = { ca = \"/nowhere\" }\nslot =";
    let config = Config::from_toml(&good.replacen("slot =", unread, 1)).unwrap();
    assert!(matches!(config.check_files(), Err(ConfigError::Server(ServerError::Tls(_)))));
}

#[test]
fn mysql_may_be_sent_the_password_encrypted_by_a_key() {
    let mysql = GOOD.replace("[source.mariadb]", "[source.mysql]");
    let options = |text: &str| -> Result<_, String> {
        match Config::from_toml(text)?.source().map_err(|error| error.to_string())? {
            Source::Binlog(options) => Ok(options),
            other => panic!("{other:?}"),
        }
    };
    let plain = options(&mysql).unwrap();
    assert_eq!((plain.product, plain.key), (Product::MySql, PasswordKey::Missing));
    let with = |key: &str| mysql.replacen("server-id", &format!("{key}\nserver-id"), 1);
    assert_eq!(options(&with("ask-public-key = true")).unwrap().key, PasswordKey::OfServer);
    let error = options(&with("public-key-file = \"/nowhere\"")).unwrap_err();
    assert!(error.contains("the public key of the database: cannot read /nowhere"), "{error}");
    let both = with("public-key-file = \"/nowhere\"\nask-public-key = true");
    assert!(options(&both).unwrap_err().contains("not both"));
    for (key, name) in
        [("ask-public-key = true", "ask-public-key"), ("public-key-file = \"/x\"", "public-key-file")]
    {
        let error = options(&with(key).replace("[source.mysql]", "[source.mariadb]")).unwrap_err();
        assert!(error.contains(&format!("{name} is not allowed in [source.mariadb]")), "{error}");
    }
}

#[test]
fn there_is_one_database() {
    let without = GOOD.replace("[source.mariadb]", "[source.oracle]");
    assert!(Config::from_toml(&without).unwrap_err().contains("unknown variant `oracle`"));
    let (start, end) = (GOOD.find("[source.mariadb]").unwrap(), GOOD.find("[[template]]").unwrap());
    let without = [&GOOD[..start], &GOOD[end..]].concat();
    assert!(Config::from_toml(&without).unwrap_err().contains("missing field `source`"));
    let both = GOOD.replace("[[template]]", &format!("{POSTGRES}\n[[template]]"));
    let error = Config::from_toml(&both).unwrap_err();
    assert!(error.contains("more than 1"), "{error}");
    let schema = GOOD.replace("database = \"shop\"", "schema = \"shop\"");
    assert!(Config::from_toml(&schema).unwrap_err().contains("needs a database"));
}

#[test]
fn change_events_have_no_position_and_tables_of_any_database() {
    let (start, end) = (GOOD.find("[source.mariadb]").unwrap(), GOOD.find("[[template]]").unwrap());
    let text = [&GOOD[..start], "[source.debezium]\nlisten = \"unix:/run/events\"\n", &GOOD[end..]].concat();
    let error = Config::from_toml(&text).unwrap_err();
    assert!(error.contains("position is not allowed"), "{error}");
    let text = text.replacen("position = ", "spool = ", 1);
    let Source::Debezium(options) = Config::from_toml(&text).unwrap().source().unwrap() else {
        panic!("events")
    };
    assert_eq!(options.listen.to_string(), "unix:/run/events");
    assert!(Config::from_toml(&text.replace("database = ", "schema = ")).is_ok());
    for database in ["", "database = \"a\"\nschema = \"b\"\n"] {
        let error = Config::from_toml(&text.replace("database = \"shop\"\n", database)).unwrap_err();
        assert!(error.contains("either a database"), "{error}");
    }
    let without = GOOD.replacen("position = ", "spool = ", 1);
    assert!(Config::from_toml(&without).unwrap_err().contains("position is missing"));
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    for (from, to, line, expected) in [
        ("admin =", "admim =", 3, "unknown field `admim`"),
        ("db.example:3306", "db.example", 6, "is not an address"),
        ("user =", "usr =", 7, "unknown field `usr`"),
        ("prefix =", "prefiks =", 18, "unknown field `prefiks`"),
        ("server-id = 4242", "server-id = 0", 8, "nonzero"),
        ("user:{id}", "user:{id", 13, "literal braces as"),
        ("user:{id}", "users", 13, "has no column"),
        ("10.0.0.1:11211", "10.0.0.1", 17, "is not an address"),
        ("/*/*/", "a b", 18, "must not have blanks"),
        ("\"classic\"", "\"binary\"", 23, "unknown variant"),
        ("timeout-ms = 250", "timeout-ms = 0", 24, "nonzero"),
        ("timeout-ms = 250", "flush = [\"a:1\", \"b\"]", 24, "'b' is not an address"),
        ("table = \"users\"", "", 10, "missing field `table`"),
    ] {
        let error = Config::from_toml(&GOOD.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(&format!("line {line},")) && error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn what_a_line_alone_does_not_tell_is_checked_too() {
    let without_targets = &GOOD[..GOOD.find("[[target]]").unwrap()];
    for (text, expected) in [
        (format!("target = []\n{without_targets}"), "there is no target"),
        (without_targets.to_owned(), "missing field `target`"),
        (GOOD.replace("\"west\"", "\"east\""), "two targets are called east"),
        (GOOD.replacen("admin =", "batch-keys = 5001\nadmin =", 1), "at most 5000"),
        (GOOD.replacen("admin =", "queue-batches = 10001\nadmin =", 1), "at most 10000"),
        (GOOD.replace("\"west\"", "\"\""), "a target has no name"),
        (
            GOOD.replacen("admin =", "spool = \"s\"\nspool-max-mb = 36\nadmin =", 1),
            "spool-max-mb must be at least 37",
        ),
        (GOOD.replace("127.0.0.1:9160", "localhost"), "admin must be IP:PORT"),
        (GOOD.replace("hold-off-s = 2", "again-after-ms = 60001"), "of west must be at most 60000"),
        (GOOD.replace("prefix =", "tls = {}\nprefix ="), "of east: tls needs ca"),
        (GOOD.replace("server-id", "tls = {}\nserver-id"), "database: tls needs ca"),
        (GOOD.replace("hold-off-s = 2", "linger-ms = 1001"), "of west must be at most 1000"),
        (GOOD.replace("[\"user:{id}\", \"mail:{mail}\"]", "[]"), "shop.users has no keys"),
    ] {
        let error = Config::from_toml(&text).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn each_target_has_a_spool_of_its_own() {
    let scratch = Scratch::new();
    let folder = scratch.file("spool");
    let text = GOOD.replacen("admin =", &format!("spool = {folder:?}\nspool-max-mb = 64\nadmin ="), 1);
    let config = Config::from_toml(&text.replace("\"east\"", "\"../e ast\"")).unwrap();
    for target in &config.targets {
        config.open_spool(target).unwrap().expect("there is one");
    }
    assert!(folder.join("%2e%2e%2fe%20ast").is_dir() && folder.join("west").is_dir());
    assert!(config.forgotten_spools().is_empty());
    assert_eq!(Config::from_toml(&text).unwrap().forgotten_spools(), [folder.join("%2e%2e%2fe%20ast")]);
    let without = Config::from_toml(GOOD).unwrap();
    assert!(without.open_spool(&without.targets[0]).unwrap().is_none());
}

#[test]
fn a_password_is_the_first_line_of_its_file_and_not_shown() {
    let scratch = Scratch::new();
    let password = scratch.write("password", "top secret\nmore\n");
    let setting = format!("user = \"guira\"\npassword-file = {:?}", password);
    let text = GOOD.replace("user = \"guira\"", &setting);
    let source = Config::load(&scratch.write("config", &text)).unwrap().source().unwrap();
    let Source::Binlog(source) = source else { panic!("a MariaDB") };
    assert_eq!(source.server.credentials.read().unwrap().password, b"top secret");
    assert!(!format!("{source:?}").contains("secret"));
    guira_disk::remove_file(password).unwrap();
    let config = Config::load(&scratch.file("config")).unwrap();
    assert!(matches!(config.check_files(), Err(ConfigError::Server(ServerError::Login(_)))));
}

#[test]
fn the_whole_example_of_the_documentation_is_right() {
    let text = include_str!("../../../../docs/guide/invalidator.md");
    let (_, text) = text.split_once("```toml\n").unwrap();
    let (text, _) = text.split_once("```").unwrap();
    assert!(text.contains("[source.mariadb]"), "{text}");
    Config::from_toml(text).unwrap();
}

#[test]
fn the_shipped_example_has_a_target_for_each_cluster() {
    let config = Config::from_toml(include_str!("../../../../deploy/systemd/invalidator.toml")).unwrap();
    assert!(config.targets.len() > 1);
    assert_eq!(config.longest_key(), (250, None), "none of them stands for all clusters by its prefix");
}

#[test]
fn the_longest_key_is_what_the_longest_prefix_leaves() {
    let targets = |prefixes: &[&str]| {
        let head = &GOOD[..GOOD.find("[[target]]").unwrap()];
        let mut text = head.to_owned();
        for (number, prefix) in prefixes.iter().enumerate() {
            text += &format!(
                "[[target]]\nname = \"t{number}\"\naddress = \"unix:/nowhere\"\nprefix = {prefix:?}\n"
            );
        }
        Config::from_toml(&text)
    };
    let config = targets(&["", "/*/*/", "/a/"]).unwrap();
    assert_eq!((config.longest_key(), config.key_max()), ((245, Some("t1")), 250));
    let config = targets(&["/*/*/", "/a/"]).unwrap();
    assert_eq!((config.longest_key(), config.key_max()), ((245, Some("t0")), 247));
    assert_eq!(targets(&[""]).unwrap().longest_key(), (250, None));
    assert!(targets(&["", &"p".repeat(233)]).is_ok());
    let error = targets(&["", &"p".repeat(234)]).unwrap_err();
    assert!(error.contains("prefix of t1 is too long"), "{error}");
}

impl Config {
    /// One of these targets, for tests of others.
    pub(crate) fn of_targets(names: &[&str]) -> Self {
        let head = &GOOD[..GOOD.find("[[target]]").unwrap()];
        let target = |name: &&str| format!("[[target]]\nname = {name:?}\naddress = \"unix:/nowhere\"\n");
        Self::from_toml(&(head.to_owned() + &names.iter().map(target).collect::<String>())).unwrap()
    }

    /// A configuration of change events whose sender may be silent for so long.
    pub(crate) fn of_silent_sender(seconds: u32) -> Self {
        let text = format!(
            "[source.debezium]\nlisten = \"unix:/nowhere\"\nsilence-max-s = {seconds}\n[[target]]\nname = \"east\"\naddress = \"unix:/nowhere\"\n"
        );
        Self::from_toml(&text).unwrap()
    }
}
