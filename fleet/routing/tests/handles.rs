//! The examples of docs/reference/router-handles.md.

use std::fmt::Write;
use std::time::Duration;

use guira_routing::config::{Globals, Sources, load};
use guira_routing::{
    Answer, DestinationId, Destinations, Facts, LogName, Op, Origin, Outcome, Request, Settings, Sink, Walks,
    build,
};

const PAGE: &str = "../../docs/reference/router-handles.md";

struct NoFiles;

impl Sources for NoFiles {
    fn read(&self, _name: &str) -> Result<String, String> {
        Err("no such file".into())
    }
}

/// A route, and requests with what servers are sent.
#[derive(Default)]
struct Example {
    heading: String,
    route: String,
    runs: Vec<String>,
}

fn examples() -> Vec<Example> {
    let text = std::fs::read_to_string(PAGE).unwrap();
    let mut examples: Vec<Example> = Vec::new();
    let (mut heading, mut block) = ("", "");
    for line in text.lines() {
        match line {
            "```json" => {
                block = "json";
                examples.push(Example { heading: heading.to_owned(), ..Example::default() });
            }
            "```text" => block = "text",
            "```" => block = "",
            _ if block == "json" => examples.last_mut().unwrap().route.push_str(line),
            _ if block == "text" => examples.last_mut().unwrap().runs.push(line.to_owned()),
            _ => heading = line.strip_prefix("## ").unwrap_or(heading),
        }
    }
    examples
}

/// Servers that miss, or are down.
#[derive(Default)]
struct Servers {
    names: Vec<String>,
    down: String,
    sent: Vec<String>,
    open: Vec<Origin<()>>,
    answers: usize,
}

impl Sink for Servers {
    type Ticket = ();

    fn send(
        &mut self,
        to: DestinationId,
        request: &Request<'_>,
        _log: Option<LogName>,
        origin: Origin<()>,
    ) -> Result<(), Outcome> {
        let name = &self.names[to.0 as usize];
        let mut text = format!("{name} {} {}", request.op.name(), String::from_utf8_lossy(request.key));
        if request.exptime != 0 {
            write!(text, " t{}", request.exptime).unwrap();
        }
        if request.flags != 0 {
            write!(text, " f{}", request.flags).unwrap();
        }
        self.sent.push(text);
        if self.down.split(' ').any(|down| down == name) {
            return Err(Outcome::Tko);
        }
        self.open.push(origin);
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        0
    }

    fn wait(&mut self, _ms: u32, origin: Origin<()>) -> Result<(), Outcome> {
        self.open.push(origin);
        Ok(())
    }

    fn answer(&mut self, (): (), _answer: &Answer<'_>) {
        self.answers += 1;
    }
}

fn settings() -> Settings {
    Settings::plain("/here/own/", Duration::from_secs(1))
}

fn walks(route: &str) -> Result<(Walks<()>, Servers), String> {
    let pools: Vec<_> = ('a'..='f')
        .map(|name| format!(r#""{}": {{"servers": ["{name}:1"]}}"#, name.to_ascii_uppercase()))
        .collect();
    let servers: Vec<_> = (0..8).map(|number| format!("\"p{number}:1\"")).collect();
    let config = format!(
        r#"{{"pools": {{{}, "P": {{"servers": [{}]}}}}, "route": {route}}}"#,
        pools.join(", "),
        servers.join(", ")
    );
    let loaded = load("page", &config, &NoFiles, &Globals::new()).map_err(|error| error.to_string())?;
    let mut destinations = Destinations::default();
    let built =
        build(&loaded.json, &NoFiles, &settings(), &mut destinations).map_err(|error| error.to_string())?;
    assert!(built.warnings.is_empty(), "{route}: {:?}", built.warnings);
    let names = destinations.specs().iter().map(|spec| spec.address.to_string());
    let names = names.map(|name| name.trim_end_matches(":1").to_owned()).collect();
    Ok((Walks::new(built.tree, 1), Servers { names, ..Servers::default() }))
}

#[test]
fn requests_go_where_the_page_says() {
    let examples = examples();
    assert!(examples.len() > 30, "{}", examples.len());
    let mut wrong = Vec::new();
    for example in &examples {
        assert!(!example.runs.is_empty(), "{}", example.heading);
        for run in &example.runs {
            let (mut walks, mut servers) =
                walks(&example.route).unwrap_or_else(|error| panic!("{}: {error}", example.heading));
            let (request, expected) = run.split_once("->").unwrap();
            let (request, down) = request.trim().split_once(", ").unwrap_or((request.trim(), ""));
            servers.down = down.to_owned();
            let (op, key) = request.split_once(' ').unwrap();
            let request = Request::classic(Op::from_name(op).unwrap(), key.as_bytes());
            let facts = Facts { host: 1, now_s: 1_800_000_000, ..Facts::default() };
            walks.start(&request, &facts, (), &mut servers);
            while !servers.open.is_empty() {
                let origin = servers.open.remove(0);
                walks.answer(origin, &Answer::of(Outcome::NotFound), &mut servers);
            }
            assert_eq!((servers.answers, walks.frames()), (1, 0), "{}: {run}", example.heading);
            if servers.sent.join(", ") != expected.trim() {
                wrong.push(format!("{}: {run}, but is {}", example.heading, servers.sent.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The columns of the table of operations.
const OPERATIONS: [Op; 8] =
    [Op::Get, Op::Gat, Op::LeaseGet, Op::Set, Op::LeaseSet, Op::Delete, Op::Incr, Op::Touch];

/// The servers that receive a request, in order, each once; after the third their number.
fn receivers(sent: &[String]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in sent.iter().filter_map(|request| request.split(' ').next()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match names[..] {
        [] => "-".to_owned(),
        [first, _, _, _, ..] => format!("{first} and {} more", names.len() - 1),
        _ => names.join(" "),
    }
}

/// The row of an example: what becomes of each operation on its key if all servers miss, and of some if one is down.
fn row(example: &Example) -> String {
    let key = example.runs[0].split([' ', ',']).nth(1).unwrap();
    let cell = |op: &Op, down: &str| {
        let (mut walks, mut servers) = walks(&example.route).unwrap();
        servers.down = down.to_owned();
        let facts = Facts { host: 1, now_s: 1_800_000_000, ..Facts::default() };
        let request = Request { value: b"v", number: 3, ..Request::classic(*op, key.as_bytes()) };
        walks.start(&request, &facts, (), &mut servers);
        while !servers.open.is_empty() {
            let origin = servers.open.remove(0);
            walks.answer(origin, &Answer::of(Outcome::NotFound), &mut servers);
        }
        receivers(&servers.sent)
    };
    let misses = OPERATIONS.iter().map(|op| cell(op, ""));
    let failures = [Op::Get, Op::Set, Op::Delete].map(|op| cell(&op, "a"));
    let cells: Vec<String> = misses.chain(failures).collect();
    format!("| {} | {} |", example.heading, cells.join(" | "))
}

#[test]
fn the_table_of_operations_is_what_routes_do() {
    let text = std::fs::read_to_string(PAGE).unwrap();
    let mut examples = examples();
    examples.dedup_by(|later, first| later.heading == first.heading);
    let rows: Vec<String> = examples.iter().map(row).collect();
    let columns = |line: &str| line.matches('|').count();
    // With a column of notes, after the heading and the line below it.
    let wanted = columns(&rows[0]) + 1;
    let page: Vec<&str> = text.lines().filter(|line| columns(line) == wanted).skip(2).collect();
    let is_row = |line: &str| rows.iter().any(|row| line.starts_with(row));
    let stale: Vec<&str> = page.iter().copied().filter(|line| !is_row(line)).collect();
    let is_missing = |row: &&String| !page.iter().any(|line| line.starts_with(*row));
    let missing: Vec<String> = rows.iter().filter(is_missing).cloned().collect();
    assert!(missing.is_empty(), "these rows are missing:\n{}", missing.join("\n"));
    assert!(stale.is_empty(), "these rows are of no route:\n{}", stale.join("\n"));
}

#[test]
fn every_route_is_on_the_page() {
    let error = walks("\"Roundabout\"").map(|_| ()).unwrap_err();
    let names: Vec<_> = error.split("use one of ").nth(1).unwrap().split(", ").map(str::to_owned).collect();
    assert!(names.len() > 35, "{error}");
    let text = std::fs::read_to_string(PAGE).unwrap();
    let missing: Vec<_> = names.iter().filter(|name| !text.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
