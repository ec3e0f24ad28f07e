//! Writers and readers whose every answer is checked.

pub(crate) mod reader;
pub(crate) mod writer;

use guira_workload::Rng;

use crate::client::{Client, is_stall};
use crate::field::{Field, Losses};
use crate::link::{Carrier, PATIENCE};
use crate::speech::Speech;

const CLIENTS: usize = 6;

#[derive(Debug)]
pub(crate) struct Clients<'f> {
    field: &'f Field,
    clients: Vec<Client>,
}

impl<'f> Clients<'f> {
    /// Connects them; `None` if the run ends before.
    pub(crate) fn open(field: &'f Field, random: &mut Rng) -> Option<Self> {
        let clients = (0..CLIENTS).map(|_| Client::random(field, random)).collect::<Option<_>>()?;
        Some(Clients { field, clients })
    }

    /// The number of one of them.
    pub(crate) fn pick(&self, random: &mut Rng) -> usize {
        random.below(self.clients.len() as u64) as usize
    }

    pub(crate) fn get(&mut self, index: usize) -> &mut Client {
        &mut self.clients[index]
    }

    /// Replaces the broken connection of a client, if that was no failure and the run continues.
    pub(crate) fn replace(&mut self, index: usize, error: &std::io::Error) -> Option<()> {
        let (field, client) = (self.field, &self.clients[index]);
        let which = format!("{:?} over {:?}", client.speech, client.carrier);
        if field.losses == Losses::Expected {
            if !field.goes_on() {
                return None;
            }
        } else if is_stall(error) {
            field.fail(format!("{which}: no answer for {PATIENCE:?}"));
            return None;
        } else {
            let room = crowded_out(field).unwrap_or_else(|error| error.to_string());
            field.fail(format!("{which}: a connection was closed: {error} ({room})"));
            return None;
        }
        self.clients[index] = Client::open(field, client.carrier, client.speech)?;
        Some(())
    }
}

/// How many connections the server says that it has closed for want of room.
fn crowded_out(field: &Field) -> std::io::Result<String> {
    let mut client = Client::try_open(field, Carrier::Unix, Speech::Text)?;
    client.wire().send(b"stats\r\n")?;
    let mut counts = Vec::new();
    loop {
        match client.wire().line()? {
            line if line.contains("_oom ") => counts.push(line),
            line if line == "END" => return Ok(counts.join(", ")),
            _ => {}
        }
    }
}

/// The name of a read in the report.
fn counted(speech: Speech) -> &'static str {
    match speech {
        Speech::Text => "checked reads, text",
        Speech::Meta => "checked reads, meta",
        Speech::Binary => "checked reads, binary",
    }
}
