//! A router's configuration. What must hold: reading ends; it comes to the same twice; an error has a line of the text; what comes of it, with
//! the characters escaped that have a meaning, comes to itself.

use guira_routing::config::{ConfigError, Globals, Loaded, Pools, Sources, Value, load};

/// Every file that is imported is the configuration itself, but for one that is missing.
struct Itself<'t>(&'t str);

impl Sources for Itself<'_> {
    fn read(&self, name: &str) -> Result<String, String> {
        if name == "none" { Err("no such file".into()) } else { Ok(self.0.into()) }
    }
}

fn read(text: &str) -> Result<Loaded, ConfigError> {
    let globals =
        Globals::new().with("hostid", Value::Integer(17)).with("default-route", Value::Text("/a/b/".into()));
    load("main", text, &Itself(text), &globals)
}

fn check_error(error: &ConfigError, text: &str) {
    let lines = text.matches('\n').count() + 1;
    assert!(!error.reason.is_empty() && (1..=lines).contains(&(error.place.line as usize)), "{error}");
}

/// Checks that the laws hold for `input`.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let loaded = match read(text) {
        Ok(loaded) => loaded,
        Err(error) => {
            assert_eq!(read(text).map(|loaded| loaded.imports), Err(error.clone()));
            return check_error(&error, text);
        }
    };
    let shown = loaded.json.to_string();
    assert_eq!(read(text).map(|loaded| loaded.json.to_string()).as_deref(), Ok(&*shown));
    loaded.warnings.iter().for_each(|warning| check_error(warning, text));

    // `macros` has gone, `vars` and calls as well, but a string may say so again, and a name may come to one of these.
    let plain = ["macros", "vars", "type"].iter().all(|name| !shown.contains(name));
    let escaped = shown.replace("\\\\", "\\\\\\\\").replace('@', "\\\\@").replace('%', "\\\\%");
    if plain && let Ok(again) = read(&escaped) {
        assert_eq!(again.json.to_string(), shown);
    }

    let sources = Itself(text);
    match Pools::new(&loaded.json, &sources) {
        Ok(pools) => pools.finish().warnings.iter().for_each(|warning| check_error(warning, text)),
        Err(error) => check_error(&error, text),
    }
}
