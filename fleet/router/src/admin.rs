//! The answers of a router to `get __mcrouter__.…`, in mcrouter's words.

use crate::config::Source;
use crate::explain::HandleLine;
use crate::route_names;
use crate::shared::Shared;
use crate::sources_info;
use guira_routing::config::Json;
use guira_routing::{Answer, Dialect, Facts, Item, Line, Op, Outcome, Request, Tree};
use guira_sync::clock::wall_clock;
use guira_upstream::host_id;

const PREFIX: &[u8] = b"__mcrouter__.";

/// The question about the router, if a request is not for a server.
#[inline]
pub(crate) fn question<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    let is_get = request.dialect == Dialect::Classic && matches!(request.op, Op::Get | Op::Gets);
    let may_be = is_get && request.key.first() == PREFIX.first();
    if may_be { request.key.strip_prefix(PREFIX) } else { None }
}

pub(crate) fn found(text: &str) -> Answer<'_> {
    let item = Item { flags: 0, value: text.as_bytes() };
    Answer { item: Some(item), ..Answer::of(Outcome::Found) }
}

/// A question, and the reply to its arguments.
struct Question {
    name: &'static str,
    answer: fn(&[&str], &Shared, &Tree) -> Result<String, String>,
}

const QUESTIONS: &[Question] = &[
    Question { name: "version", answer: |_, shared, _| Ok(shared.about.version.clone()) },
    Question {
        name: "config_age",
        answer: |_, shared, _| Ok(shared.config.report().since.age().to_string()),
    },
    Question {
        name: "config_file",
        answer: |_, shared, _| match &shared.about.source {
            Source::File(path) => Ok(path.display().to_string()),
            Source::Text(_) => Err("no config file found!".to_owned()),
        },
    },
    Question { name: "config_md5_digest", answer: |_, shared, _| Ok(shared.config.plan().digest.clone()) },
    Question { name: "preprocessed_config", answer: |_, shared, _| Ok(pretty(&shared.config.plan().json)) },
    Question {
        name: "config_sources_info",
        answer: |_, shared, _| Ok(sources_info::text(&shared.about.source, &shared.config.plan().texts)),
    },
    Question { name: "hostid", answer: |_, _, _| Ok(host_id().to_string()) },
    Question { name: "options", answer: |names, shared, _| options(names, shared) },
    Question {
        name: "config_error",
        answer: |_, shared, _| Ok(shared.config.report().error.unwrap_or_default()),
    },
    Question { name: "route", answer: servers_of },
    Question {
        name: "route_handles",
        answer: |arguments, shared, tree| {
            Ok(route_names::path(&path("route_handles", arguments, tree)?, &shared.config.plan()))
        },
    },
    // As `guira router explain`: mcrouter does not have it.
    Question {
        name: "explain",
        answer: |arguments, shared, tree| {
            let plan = shared.config.plan();
            let (lines, servers) = (path("explain", arguments, tree)?, plan.named().specs());
            Ok(lines.iter().map(|line| format!("{}\n", HandleLine { line, servers })).collect())
        },
    },
];

/// The handles that a request would come to: an operation and a key are given.
fn path(question: &str, arguments: &[&str], tree: &Tree) -> Result<Vec<Line>, String> {
    let [op, key] = arguments else {
        return Err(format!("{question}: 2 args expected"));
    };
    let op = Op::from_name(op).ok_or_else(|| format!("route: unknown request {op}"))?;
    Ok(tree.explain(op, key.as_bytes(), facts()))
}

/// The facts of a request that no client has sent.
pub(crate) fn facts() -> Facts {
    Facts { host: host_id().into(), now_s: wall_clock(), ..Facts::default() }
}

/// The servers that may receive a request, in the order of the attempts.
fn servers_of(arguments: &[&str], shared: &Shared, tree: &Tree) -> Result<String, String> {
    let names: Vec<String> = shared.config.plan().names().map(|(address, _)| address).collect();
    let numbers = path("route", arguments, tree)?.into_iter().filter_map(|line| line.destination);
    Ok(numbers.map(|number| names[number.0 as usize].clone()).collect::<Vec<_>>().join("\r\n"))
}

/// The answer to `name` or `name(argument,…)`. One newline at its end is left out.
pub(crate) fn answer(question: &[u8], shared: &Shared, tree: &Tree) -> String {
    let text = String::from_utf8_lossy(question);
    let (name, arguments) = split(&text);
    let question = QUESTIONS.iter().find(|question| question.name == name);
    let answer = match question {
        None => Err(format!("unknown command: {name}")),
        Some(question) => (question.answer)(&arguments, shared, tree),
    };
    let mut answer = answer.unwrap_or_else(|error| format!("ERROR: {error}"));
    if answer.ends_with('\n') {
        answer.pop();
    }
    answer
}

/// The name of a question, and its arguments. A key is the last argument of a route, and may have commas.
fn split(text: &str) -> (&str, Vec<&str>) {
    let Some((name, rest)) = text.split_once('(').filter(|_| text.ends_with(')')) else {
        return (text, Vec::new());
    };
    let list = &rest[..rest.len() - 1];
    let arguments = match name.starts_with("route") || name == "explain" {
        true => list.split_once(',').map(|(op, key)| vec![op, key]).unwrap_or_default(),
        false if list.is_empty() => Vec::new(),
        false => list.split(',').collect(),
    };
    (name, arguments)
}

/// JSON with an indent and sorted members.
fn pretty(json: &Json) -> String {
    let text = json.to_string();
    let value: Result<serde_json::Value, _> = serde_json::from_str(&text);
    value.and_then(|value| serde_json::to_string_pretty(&value)).unwrap_or(text)
}

fn options(names: &[&str], shared: &Shared) -> Result<String, String> {
    match names {
        [] => Ok(shared.about.options.iter().map(|(name, value)| format!("{name} {value}\n")).collect()),
        [name] => {
            let wanted = name.replace('-', "_");
            let found = shared.about.options.iter().find(|(known, _)| *known == wanted);
            found.map(|(_, value)| value.clone()).ok_or_else(|| format!("options: option {name} not found"))
        }
        _ => Err("options: 0 or 1 args expected".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_route_may_have_commas() {
        assert_eq!(split("version"), ("version", vec![]));
        assert_eq!(split("options(num_proxies)"), ("options", vec!["num_proxies"]));
        assert_eq!(split("options()"), ("options", vec![]));
        assert_eq!(split("options(a,b)"), ("options", vec!["a", "b"]));
        assert_eq!(split("route(set,abc,def)"), ("route", vec!["set", "abc,def"]));
        assert_eq!(split("route_handles(get, a)b)"), ("route_handles", vec!["get", " a)b"]));
        assert_eq!(split("route(set)"), ("route", vec![]));
        assert_eq!(split("options("), ("options(", vec![]));
    }
}
