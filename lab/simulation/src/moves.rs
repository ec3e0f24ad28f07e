//! Keys that move between servers, in the steps of `guira fleet resize` and `drain` (docs/guide/membership.md).

use crate::programs::server;
use crate::tasks::call;
use guira_client::pools::Texts;
use guira_world::scheduler::draw;
use guira_world::thread::sleep;
use guira_world::time;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The last node gets a slot.
    Grow,
    /// The last node loses its slot.
    Shrink,
    /// The slot of the first node moves to the last one.
    Drain,
}

/// The longest time for which keys are copied.
const COPY_MAX_MS: u64 = 3_000;
/// What `--settle` is longer than three timeouts.
const MORE: Duration = Duration::from_millis(200);

/// A change of a pool. Each step is a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    kind: Kind,
    nodes: Vec<u8>,
    settle: Duration,
}

fn servers(nodes: &[u8]) -> String {
    let servers: Vec<String> = nodes.iter().map(|number| format!("\"{}\"", server(*number))).collect();
    servers.join(", ")
}

fn config(nodes: &[u8], change: &str) -> Texts {
    let servers = servers(nodes);
    let text =
        format!(r#"{{"pools": {{"all": {{"servers": [{servers}]{change}}}}}, "route": "PoolRoute|all"}}"#);
    Texts::from(text.as_str())
}

impl Move {
    /// A change that these nodes take part in, of clients with this timeout.
    pub(crate) fn draw(nodes: &[u8], timeout: Duration) -> Self {
        let kind = [Kind::Grow, Kind::Shrink, Kind::Drain][draw(3) as usize];
        Move { kind, nodes: nodes.to_vec(), settle: timeout * 3 + MORE }
    }

    fn last(&self) -> u8 {
        self.nodes[self.nodes.len() - 1]
    }

    /// The nodes of the pool before the change.
    pub(crate) fn before(&self) -> Vec<u8> {
        let all = self.nodes.len();
        if self.kind == Kind::Shrink { self.nodes.clone() } else { self.nodes[..all - 1].to_vec() }
    }

    /// The nodes of the pool after the change.
    pub(crate) fn after(&self) -> Vec<u8> {
        let all = self.nodes.len();
        match self.kind {
            Kind::Grow => self.nodes.clone(),
            Kind::Shrink => self.nodes[..all - 1].to_vec(),
            Kind::Drain => [self.last()].into_iter().chain(self.nodes[1..all - 1].iter().copied()).collect(),
        }
    }

    fn step(&self, stage: &str) -> Texts {
        if self.kind != Kind::Drain {
            let (from, to) = (self.before().len(), self.after().len());
            let change = format!(r#", "resize": {{"from": {from}, "to": {to}, "stage": "{stage}"}}"#);
            return config(&self.nodes, &change);
        }
        let (present, other) = match stage {
            "announced" => (self.before(), self.last()),
            _ => (self.after(), self.nodes[0]),
        };
        let others = vec!["null"; present.len() - 1].join(", ");
        let handover = format!(r#"{{"other": "{}", "stage": "{stage}"}}"#, server(other));
        // A slot keeps its name, so that its keys stay in it.
        let names: Vec<String> = (0..present.len()).map(|slot| format!("\"slot-{slot}\"")).collect();
        let change = format!(r#", "names": [{}], "handovers": [{handover}, {others}]"#, names.join(", "));
        config(&present, &change)
    }

    /// A configuration in which nothing moves.
    pub(crate) fn still(&self, nodes: &[u8]) -> Texts {
        if self.kind != Kind::Drain {
            return config(nodes, "");
        }
        let names: Vec<String> = (0..nodes.len()).map(|slot| format!("\"slot-{slot}\"")).collect();
        config(nodes, &format!(r#", "names": [{}]"#, names.join(", ")))
    }

    /// Carries the change out. `apply` gives one of the clients a configuration.
    pub(crate) fn run(&self, clients: usize, apply: &dyn Fn(usize, &Texts)) {
        tracing::info!("{:?} of {:?}", self.kind, self.nodes);
        let all = |config: Texts| {
            let end = time::now() + self.settle;
            for client in 0..clients {
                sleep(Duration::from_millis(draw(self.settle.as_millis() as u64 / 4)));
                apply(client, &config);
            }
            // Requests of the step before have ended by then.
            sleep(end.saturating_sub(time::now()) + self.settle);
        };
        if self.kind != Kind::Shrink {
            flush(self.last());
        }
        all(self.step("announced"));
        all(self.step("warming"));
        sleep(Duration::from_millis(draw(COPY_MAX_MS)));
        all(self.step("ending"));
        self.before().into_iter().filter(|node| !self.after().contains(node)).for_each(flush);
        all(self.still(&self.after()));
        tracing::info!("{:?} has ended", self.kind);
    }
}

fn flush(node: u8) {
    // A node that does not reply has been lost: the seed has faults then, and its clients expect no value.
    drop(call(server(node), "flush_all\r\nquit\r\n"));
}
