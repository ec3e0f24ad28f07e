//! `stats topkeys`, and `/topkeys` of the admin listener. docs/guide/tune.md describes both.

use super::Admin;
use super::text::Lines;
use crate::background::push_encoded;
use crate::top_keys::{List, MEASURES, Top, TopReport, Window};
use guira_sync::clock::Seconds;
use guira_web::object;
use serde_json::{Value, json};

impl Admin {
    /// Answers `stats topkeys` with these arguments, without the final line.
    ///
    /// # Errors
    /// The error line for the client.
    pub(super) fn top_keys(&self, now: Seconds, which: &[&str], out: &mut Lines<'_>) -> Result<(), String> {
        let Some(top_keys) = &self.observers.top_keys else {
            return Err("CLIENT_ERROR stats topkeys not allowed".to_owned());
        };
        let TopReport { sampling, dropped, windows } = top_keys.report(&lists(which)?, now);
        out.stat("topkeys:sampling", sampling);
        out.stat("topkeys:dropped", dropped);
        windows.iter().for_each(|window| show(window, out));
        Ok(())
    }

    /// All lists as JSON; null if keys are not shown.
    pub(crate) fn top_keys_json(&self) -> Value {
        let Some(top_keys) = &self.observers.top_keys else {
            return Value::Null;
        };
        let report = top_keys.report(&List::ALL, self.clock.now());
        let windows = report.windows.iter().map(|window| (window.name.to_owned(), window_json(window)));
        json!({
            "sampling": report.sampling,
            "dropped": report.dropped,
            "windows": object(windows),
        })
    }
}

/// The lists that are requested.
fn lists(which: &[&str]) -> Result<Vec<List>, String> {
    let found = match which {
        [] => Some(List::ALL.to_vec()),
        ["keys"] => Some(List::KEYS.to_vec()),
        ["prefixes"] => Some(List::PREFIXES.to_vec()),
        [name] => List::ALL.into_iter().find(|list| list.name() == *name).map(|list| vec![list]),
        _ => None,
    };
    found.ok_or_else(|| {
        let names = List::ALL.map(List::name).join("|");
        format!("CLIENT_ERROR usage: stats topkeys [{names}|keys|prefixes]")
    })
}

fn show(window: &Window, out: &mut Lines<'_>) {
    let name = window.name;
    out.stat(&format!("topkeys:{name}:seconds"), window.seconds);
    for (measure, all) in MEASURES.into_iter().zip(window.all) {
        out.stat(&format!("topkeys:{name}:{measure}"), all);
    }
    for (list, keys) in &window.lists {
        for (rank, top) in (1..).zip(keys) {
            let about = format!("topkeys:{name}:{}:{rank}", list.name());
            out.stat(&format!("{about}:key"), shown(top));
            out.stat(&format!("{about}:count"), top.count);
            out.stat(&format!("{about}:error"), top.error);
        }
    }
}

fn window_json(window: &Window) -> Value {
    let all = MEASURES.into_iter().zip(window.all).map(|(measure, all)| (measure.to_owned(), all.into()));
    let top = |top: &Top| json!({ "key": shown(top), "count": top.count, "error": top.error });
    let lists = window
        .lists
        .iter()
        .map(|(list, keys)| (list.name().to_owned(), keys.iter().map(top).collect::<Vec<_>>().into()));
    json!({
        "seconds": window.seconds,
        "all": object(all),
        "lists": object(lists),
    })
}

/// A key, or a prefix, as in a URI. That of all keys without one is `*`, which is no text in a URI's letters.
fn shown(top: &Top) -> String {
    if top.key.is_empty() {
        return "*".to_owned();
    }
    let mut text = Vec::new();
    push_encoded(&top.key, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
