//! One snapshot as plain text.

use guira_sync::thread;

use guira_sync::clock::Stopwatch;

use crate::Options;
use crate::app::{App, Panel};
use crate::block::Block;
use crate::node::{Link, Node};
use crate::panels;
use crate::reading::Group;
use crate::watch::look;

/// The width of lines that are not cut: keys are shown whole.
const WIDTH: usize = 4096;

/// Looks at all nodes twice, an interval apart, and says what it saw. The second value is the number of nodes that did
/// not answer.
pub fn once(options: &Options) -> (String, usize) {
    let clock = Stopwatch::start();
    let names: Vec<String> = options.targets.iter().map(|target| target.endpoint().to_string()).collect();
    let mut app = App::new(&names, options.interval, options.sort);
    // At once, so that all nodes are seen at the same time, and one that does not answer holds up no other.
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = options
            .targets
            .iter()
            .map(|target| {
                scope.spawn(move || {
                    let mut connection = None;
                    let first = look(&mut connection, target, Group::ALL, clock);
                    if first.is_err() {
                        return [first, Err(String::new())];
                    }
                    thread::sleep(options.interval);
                    [first, look(&mut connection, target, Group::ALL, clock)]
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    for (index, outcome) in outcomes.into_iter().enumerate() {
        let Ok([first, second]) = outcome else { continue };
        let is_reached = first.is_ok();
        app.update(index, first, clock.elapsed());
        if is_reached {
            app.update(index, second, clock.elapsed());
        }
    }
    let silent = app.nodes().iter().filter(|node| *node.link() != Link::Up).count();
    (text(&app), silent)
}

pub(crate) fn text(app: &App) -> String {
    let mut out = String::new();
    if app.panels().contains(&Panel::Nodes) {
        push(&mut out, &panels::nodes(app.nodes()));
    }
    for node in app.nodes() {
        push_node(&mut out, app, node);
    }
    out
}

fn push_node(out: &mut String, app: &App, node: &Node) {
    let state = match (node.link(), node.last()) {
        (Link::Up, Some(reading)) => panels::header(reading),
        (Link::Down { why, .. }, _) => format!("DOWN: {why}"),
        _ => "no answer".to_owned(),
    };
    out.push_str(&format!("== {}  {state}\n", node.name()));
    if *node.link() != Link::Up {
        return;
    }
    let blocks = [
        panels::rates(node),
        panels::ratio(node),
        panels::memory(node),
        panels::server(node),
        panels::commands(node),
        panels::latency(node),
        panels::classes(node),
    ];
    blocks.iter().for_each(|block| push(out, block));
    panels::connections(node).iter().for_each(|block| push(out, block));
    push(out, &panels::keys(node, app.listing));
    if node.last().is_some_and(|reading| reading.servers.received().is_some()) {
        push(out, &panels::servers(node));
    }
}

fn push(out: &mut String, block: &Block) {
    let lines = block.lines(WIDTH);
    out.push_str(&format!("{}\n", block.title));
    for line in lines.head.iter().chain(&lines.rows).chain(&block.note) {
        out.push_str(&format!("  {line}\n"));
    }
    out.push('\n');
}
