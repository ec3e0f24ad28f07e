//! What a router says of itself to `get __mcrouter__.…`, in mcrouter's words.

use crate::config::Source;
use crate::explain::Told;
use crate::shared::Shared;
use guira_routing::{Answer, Dialect, Facts, Item, Line, Op, Outcome, Request, Tree};
use guira_sync::clock::wall_clock;
use guira_upstream::host_id;

const PREFIX: &[u8] = b"__mcrouter__.";

/// What is asked about the router, if a request is not for a server.
#[inline]
pub(crate) fn asked<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    let is_get = request.dialect == Dialect::Classic && matches!(request.op, Op::Get | Op::Gets);
    let may_be = is_get && request.key.first() == PREFIX.first();
    if may_be { request.key.strip_prefix(PREFIX) } else { None }
}

/// A text as a hit.
pub(crate) fn found(text: &str) -> Answer<'_> {
    let item = Item { flags: 0, value: text.as_bytes() };
    Answer { item: Some(item), ..Answer::of(Outcome::Found) }
}

/// A question, and what is answered to its arguments.
struct Question {
    name: &'static str,
    answer: fn(&[&str], &Shared, &Tree) -> Result<String, String>,
}

const QUESTIONS: &[Question] = &[
    Question { name: "version", answer: |_, shared, _| Ok(shared.version.clone()) },
    Question {
        name: "config_age",
        answer: |_, shared, _| Ok(shared.config_report().since.age().to_string()),
    },
    Question {
        name: "config_file",
        answer: |_, shared, _| match &shared.source {
            Source::File(path) => Ok(path.display().to_string()),
            Source::Text(_) => Err("no config file found!".to_owned()),
        },
    },
    Question { name: "config_md5_digest", answer: |_, shared, _| Ok(shared.plan().digest.clone()) },
    Question { name: "preprocessed_config", answer: |_, shared, _| Ok(shared.plan().json.to_string()) },
    Question { name: "hostid", answer: |_, _, _| Ok(host_id().to_string()) },
    Question { name: "options", answer: |names, shared, _| options(names, shared) },
    Question {
        name: "config_error",
        answer: |_, shared, _| Ok(shared.config_report().error.unwrap_or_default()),
    },
    Question { name: "route", answer: servers_of },
    Question {
        name: "route_handles",
        answer: |arguments, shared, tree| {
            let plan = shared.plan();
            let servers = plan.named().specs();
            Ok(path(arguments, tree)?.iter().map(|line| format!("{}\n", Told { line, servers })).collect())
        },
    },
];

/// The handles that a request would come to: an operation and a key are given.
fn path(arguments: &[&str], tree: &Tree) -> Result<Vec<Line>, String> {
    let [op, key] = arguments else {
        return Err("route: 2 args expected".to_owned());
    };
    let op = Op::from_name(op).ok_or_else(|| format!("route: unknown op {op}"))?;
    Ok(tree.explain(op, key.as_bytes(), facts()))
}

/// What is known of a request that nobody has sent.
pub(crate) fn facts() -> Facts {
    Facts { host: host_id().into(), now_s: wall_clock(), ..Facts::default() }
}

/// The servers that a request may come to, in the order in which they are asked.
fn servers_of(arguments: &[&str], shared: &Shared, tree: &Tree) -> Result<String, String> {
    let names: Vec<String> = shared.plan().names().map(|(address, _)| address).collect();
    let numbers = path(arguments, tree)?.into_iter().filter_map(|line| line.destination);
    Ok(numbers.map(|number| names[number.0 as usize].clone()).collect::<Vec<_>>().join("\r\n"))
}

/// The answer to `name` or `name(argument,…)`.
pub(crate) fn answer(asked: &[u8], shared: &Shared, tree: &Tree) -> String {
    let text = String::from_utf8_lossy(asked);
    let (name, arguments) = match text.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')')),
        None => (&*text, Some("")),
    };
    let arguments: Option<Vec<&str>> =
        arguments.map(|list| list.split(',').map(str::trim).filter(|text| !text.is_empty()).collect());
    let question = QUESTIONS.iter().find(|question| question.name == name);
    let answer = match (question, arguments) {
        (None, _) => Err(format!("unknown command: {name}")),
        (_, None) => Err("a closing parenthesis is missing".to_owned()),
        (Some(question), Some(arguments)) => (question.answer)(&arguments, shared, tree),
    };
    answer.unwrap_or_else(|error| format!("ERROR: {error}"))
}

fn options(names: &[&str], shared: &Shared) -> Result<String, String> {
    match names {
        [] => Ok(shared.options.iter().map(|(name, value)| format!("{name} {value}\n")).collect()),
        [name] => {
            let wanted = name.replace('-', "_");
            let found = shared.options.iter().find(|(known, _)| *known == wanted);
            found.map(|(_, value)| value.clone()).ok_or_else(|| format!("options: option {name} not found"))
        }
        _ => Err("options: 0 or 1 args expected".to_owned()),
    }
}
