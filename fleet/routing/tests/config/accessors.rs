//! How handles read what they are configured with.

use std::time::Duration;

use guira_routing::config::{ConfigError, Json};

use crate::{expanded, read};

#[test]
fn values_of_the_kind_that_is_wanted_are_read() {
    let json = |text: &str| expanded(text).unwrap();
    assert_eq!(json("\"x\"").text("m"), Ok("x"));
    assert_eq!(json("[1, 2]").list("m").unwrap().len(), 2);
    assert_eq!(json("true").boolean("m"), Ok(true));
    assert_eq!(json("5").integer("m", 5..=5), Ok(5));
    assert_eq!(json("5").number("m", 0.0..=9.0), Ok(5.0));
    assert_eq!(json("0.5").number("m", 0.0..=1.0), Ok(0.5));
    assert_eq!([json("0").seconds("m"), json("2147483647").seconds("m")], [Ok(0), Ok(2_147_483_647)]);
    assert_eq!(json("1000000").milliseconds("m"), Ok(Duration::from_secs(1000)));
}

#[test]
fn values_of_other_kinds_are_refused_with_line_and_name() {
    fn reason<T: std::fmt::Debug>(text: &str, read: impl Fn(&Json) -> Result<T, ConfigError>) -> String {
        read(&expanded(text).unwrap()).unwrap_err().to_string()
    }
    assert_eq!(
        reason("1", |json| json.text("m").map(str::len)),
        "main:2: 'm' is an integer, a string expected"
    );
    assert_eq!(
        reason("{}", |json| json.list("m").map(<[Json]>::len)),
        "main:2: 'm' is an object, an array expected"
    );
    assert_eq!(
        reason("null", |json| json.object("m").map(|_| ())),
        "main:2: 'm' is null, an object expected"
    );
    assert_eq!(reason("1", |json| json.boolean("m")), "main:2: 'm' is an integer, true or false expected");
    assert_eq!(
        reason("1.0", |json| json.integer("m", 0..=9)),
        "main:2: 'm' is a number, an integer expected"
    );
    assert_eq!(reason("10", |json| json.integer("m", 0..=9)), "main:2: 'm' is 10, 0 to 9 expected");
    assert_eq!(reason("1.5", |json| json.number("m", 0.0..=1.0)), "main:2: 'm' is 1.5, 0.0 to 1.0 expected");
    assert_eq!(reason("-1", |json| json.seconds("m")), "main:2: 'm' is -1, 0 to 2147483647 expected");
    assert_eq!(reason("0", |json| json.milliseconds("m")), "main:2: 'm' is 0, 1 to 1000000 expected");
}

#[test]
fn members_that_nobody_reads_warn() {
    let loaded = read("{\"a\": 1,\n\"b\": \"x\",\n\"c\": 2, \"d\": 3}").unwrap();
    let mut object = loaded.json.object("AnyRoute").unwrap();
    assert_eq!(object.required_as("b", Json::text), Ok("x"));
    assert_eq!(object.optional_as("c", Json::seconds), Ok(Some(2)));
    assert_eq!(object.optional_as("e", Json::seconds), Ok(None));
    assert_eq!(object.required("e").map(|_| ()).unwrap_err().to_string(), "main:1: 'AnyRoute' has no 'e'");
    assert_eq!(object.json().to_string(), r#"{"a":1,"b":"x","c":2,"d":3}"#);
    let mut warnings = Vec::new();
    object.finish(&mut warnings);
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "main:1: \"a\" is not known in 'AnyRoute' and has no effect",
            "main:3: \"d\" is not known in 'AnyRoute' and has no effect"
        ]
    );
    // Names that are the user's are all read.
    let mut object = loaded.json.object("policies").unwrap();
    assert_eq!(object.members().len(), 4);
    let mut warnings = Vec::new();
    object.finish(&mut warnings);
    assert!(warnings.is_empty());
}
