//! Steps that all parts share: servers are started and filled, take turns in rounds, and each step
//! is reported.

use guira_harness::rounds::turns;

use super::loads::LoadSpec;
use super::parameters::{Parameters, Scale};
use super::{Options, preloaded};
use crate::error::LoadError;
use crate::server::{Kind, Server, Wire};

/// The share of the keys set that an engine must hold: mica's index may lose some.
pub(super) const HELD_MIN: f64 = 0.99;

/// A bench that is running.
pub(super) struct Bench<'a> {
    pub(super) parameters: &'a Parameters,
    pub(super) options: &'a Options,
    pub(super) log: &'a mut dyn FnMut(&str),
}

impl<'a> Bench<'a> {
    pub(super) fn log(&mut self, line: &str) {
        (self.log)(line);
    }

    pub(super) const fn scale(&self) -> Scale {
        self.parameters.scale
    }

    /// The servers that can be reached by `wire`; the others are reported.
    pub(super) fn servers(&mut self, part: &str, wire: Wire) -> Vec<&'a Kind> {
        self.reached(part, wire, |_| true)
    }

    /// The caches among them.
    pub(super) fn caches(&mut self, part: &str, wire: Wire) -> Vec<&'a Kind> {
        self.reached(part, wire, Kind::is_cache)
    }

    fn reached(&mut self, part: &str, wire: Wire, is_wanted: fn(&Kind) -> bool) -> Vec<&'a Kind> {
        let mut reached = Vec::new();
        for kind in self.options.servers.iter().filter(|kind| is_wanted(kind)) {
            if kind.can(wire) {
                reached.push(kind);
            } else {
                self.log(&format!("{part}: skipped {}: no {}", kind.name(), wire.name()));
            }
        }
        reached
    }

    /// Guira with each of the engines; other caches are reported.
    pub(super) fn engines(&mut self, part: &str) -> Vec<(&'a str, Kind)> {
        let mut engines = Vec::new();
        for kind in self.options.servers.iter().filter(|kind| kind.is_cache()) {
            let Kind::Guira { binary, args } = kind else {
                self.log(&format!("{part}: skipped {}: {part} is not supported", kind.name()));
                continue;
            };
            engines.extend(self.parameters.engines.iter().map(|engine| {
                let args = [args.clone(), vec!["--engine".to_owned(), engine.clone()]].concat();
                (engine.as_str(), Kind::Guira { binary: binary.clone(), args })
            }));
        }
        engines
    }

    /// Starts servers and gives the caches among them the keys of `spec`.
    pub(super) fn start(
        &mut self,
        part: &str,
        spec: &LoadSpec,
        kinds: &[&Kind],
    ) -> Result<Vec<Server>, LoadError> {
        let mut servers = Vec::new();
        for kind in kinds {
            self.log(&format!("{part}: starting {} and setting {} keys", kind.name(), spec.data.keys));
            let server = preloaded(spec, kind, self.options)?;
            if let Some(agreed) = server.agreed()? {
                self.log(&format!("{part}: {} agreed on {agreed}", kind.name()));
            }
            servers.push(server);
        }
        Ok(servers)
    }

    /// Measures all contestants in each round, in turns; returns each with its rounds. `measure` also returns a line for the log.
    pub(super) fn alternate<C, R>(
        &mut self,
        part: &str,
        contestants: &mut [C],
        name: impl Fn(&C) -> &str,
        mut measure: impl FnMut(&mut C, usize) -> Result<(R, String), LoadError>,
    ) -> Result<Vec<(String, Vec<R>)>, LoadError> {
        let mut rounds: Vec<_> =
            contestants.iter().map(|contestant| (name(contestant).to_owned(), Vec::new())).collect();
        let count = self.options.rounds;
        for round in 0..count {
            for index in turns(round, contestants.len()) {
                let (measured, line) = measure(&mut contestants[index], round)?;
                let (name, rounds) = &mut rounds[index];
                (self.log)(&format!("{part}: round {} of {count}: {name:<9} {line}", round + 1));
                rounds.push(measured);
            }
        }
        Ok(rounds)
    }

    /// The rounds of a single contestant.
    pub(super) fn repeat<R>(
        &mut self,
        part: &str,
        name: &str,
        mut measure: impl FnMut(usize) -> Result<(R, String), LoadError>,
    ) -> Result<Vec<R>, LoadError> {
        let rounds = self.alternate(part, &mut [name], |name| name, |_, round| measure(round))?;
        Ok(rounds.into_iter().flat_map(|(_, rounds)| rounds).collect())
    }
}

/// An error unless nearly all `keys` that were set are held.
pub(super) fn require_held(engine: &str, items: u64, keys: u64) -> Result<(), LoadError> {
    if (items as f64) < HELD_MIN * keys as f64 {
        return Err(LoadError::Options(format!("{engine}: only {items} items of {keys} fit")));
    }
    Ok(())
}
