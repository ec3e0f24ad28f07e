//! The kinds of faults, each of which breaks a part for some time.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use guira_harness::random::Random;
use rustix::process::Signal;

use crate::part::{Part, Role};
use crate::programs::open;
use crate::relay::Flow;
use crate::world::World;

/// The delay of each piece of bytes on a slow connection.
const DELAY: Duration = Duration::from_millis(50);
/// The allowed lengths of a fault.
pub(crate) const LENGTHS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Kill,
    Freeze,
    Slow,
    Cut,
    Empty,
    Fill,
}

#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub verb: &'static str,
    pub about: &'static str,
    state: &'static str,
    roles: &'static [Role],
    does: Does,
}

const ON_A_WAY: &[Role] = &[Role::Etcd, Role::Node, Role::Gutter, Role::Router, Role::Database];

pub const KINDS: &[Kind] = &[
    Kind {
        verb: "kill",
        about: "kills the process (SIGKILL) and restarts it afterwards",
        state: "killed",
        roles: &Role::ALL,
        does: Does::Kill,
    },
    Kind {
        verb: "freeze",
        about: "stops the process (SIGSTOP): its connections stay open without replies",
        state: "frozen",
        roles: &Role::ALL,
        does: Does::Freeze,
    },
    Kind {
        verb: "slow",
        about: "delays all bytes to and from the part by 50 ms",
        state: "slow",
        roles: ON_A_WAY,
        does: Does::Slow,
    },
    Kind {
        verb: "cut",
        about: "stops all bytes to and from the part; connections are neither closed nor refused",
        state: "cut off",
        roles: ON_A_WAY,
        does: Does::Cut,
    },
    Kind {
        verb: "empty",
        about: "empties the cache (flush_all)",
        state: "emptied",
        roles: &[Role::Node, Role::Gutter],
        does: Does::Empty,
    },
    Kind {
        verb: "fill",
        about: "fills the disk of the part, which then cannot log deletes or save its position",
        state: "without disk",
        roles: &[Role::Router, Role::Invalidator],
        does: Does::Fill,
    },
];

impl Kind {
    /// The roles of the parts that this fault can break.
    pub fn roles(&self) -> impl Iterator<Item = &'static str> {
        self.roles.iter().map(|role| role.name())
    }

    pub(crate) fn breaks(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// The kind of fault with this name.
    ///
    /// # Errors
    /// The list of all kinds.
    pub(crate) fn named(verb: &str) -> Result<&'static Self, String> {
        KINDS.iter().find(|kind| kind.verb == verb).ok_or_else(|| {
            let verbs: Vec<&str> = KINDS.iter().map(|kind| kind.verb).collect();
            format!("unknown fault '{verb}'; use one of {}", verbs.join(", "))
        })
    }
}

/// The parts that a role stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Among {
    /// Parts in use. A fault of a spare node would have no effect to watch.
    Serving,
    All,
}

/// Chooses and holds a part for a fault. `what` is the name of a part or a role; `None` is any part
/// that the fault can break.
///
/// # Errors
/// The reason that there is no such part.
pub(crate) fn take<'w>(
    world: &'w World,
    kind: &Kind,
    what: Option<&str>,
    among: Among,
    random: &mut Random,
) -> Result<&'w Part, String> {
    let names = |part: &&Part| what.is_none_or(|what| part.name == what || part.role().name() == what);
    let named: Vec<&Part> = world.parts.iter().filter(names).collect();
    if named.is_empty() {
        let all: Vec<&str> = world.parts.iter().map(|part| part.name.as_str()).collect();
        return Err(format!("unknown part '{}'; use one of {}", what.unwrap_or_default(), all.join(", ")));
    }
    let mut fit: Vec<&Part> = named.into_iter().filter(|part| kind.breaks(part.role())).collect();
    if fit.is_empty() {
        let roles: Vec<&str> = kind.roles().collect();
        let what = what.unwrap_or_default();
        return Err(format!("{} cannot be applied to {what}, only to {}", kind.verb, roles.join(", ")));
    }
    if among == Among::Serving && fit.len() > 1 {
        let snapshot = world.snapshot();
        let serving: Vec<&Part> =
            fit.iter().copied().filter(|part| snapshot.serves(part.role(), &part.name)).collect();
        fit = if serving.is_empty() { fit } else { serving };
    }
    while !fit.is_empty() {
        let part = fit.swap_remove(random.below(fit.len() as u64) as usize);
        if part.hold() {
            return Ok(part);
        }
    }
    Err("the part already has a fault or is starting".to_owned())
}

/// Breaks a held part for this long, and releases it.
pub(crate) fn inflict(world: &World, kind: &Kind, part: &Part, length: Duration) {
    // Faults of databases and their log have no visible effect on readers of a cache.
    let concerns_readers = !matches!(part.role(), Role::Database | Role::Invalidator);
    if concerns_readers {
        world.truth.sight.fault_begins();
    }
    let number = world.events.begins(kind.verb, &part.name, kind.state, world.sums());
    harm(kind.does, part);
    let _ = world.stop.wait(length);
    if world.stop.check().is_ok() {
        if let Err(why) = heal(kind.does, part) {
            world.events.event(why);
        }
        world.events.ends(number, &world.sums());
    }
    if concerns_readers {
        world.truth.sight.fault_ends();
    }
    part.let_go();
}

fn harm(does: Does, part: &Part) {
    match does {
        Does::Kill => part.kill(),
        Does::Freeze => part.signal(Signal::STOP),
        Does::Slow => part.flow(Flow::Slow(DELAY)),
        Does::Cut => part.flow(Flow::Cut),
        Does::Empty => {
            // A cache that does not reply serves no clients, so it need not be flushed.
            let emptied = part.socket().and_then(|socket| open(socket));
            if let Some(mut connection) = emptied {
                let _ = connection.send(b"flush_all\r\n").and_then(|()| connection.line().map(drop));
            }
        }
        Does::Fill => part.limit_files(Some(0)),
    }
}

fn heal(does: Does, part: &Part) -> Result<(), String> {
    match does {
        Does::Kill => part.start()?,
        Does::Freeze => part.signal(Signal::CONT),
        Does::Slow | Does::Cut => part.flow(Flow::Open),
        Does::Empty => {}
        Does::Fill => part.limit_files(None),
    }
    Ok(())
}

/// Breaks a part on a thread of its own. Returns the name of the part, and its duty if parts of its
/// role have different ones.
///
/// # Errors
/// The reason that it cannot be broken.
pub(crate) fn begin(
    world: &Arc<World>,
    verb: &str,
    what: Option<&str>,
    length: Duration,
    random: &mut Random,
) -> Result<(String, String), String> {
    let kind = Kind::named(verb)?;
    if !LENGTHS.contains(&length) {
        return Err(format!("a fault lasts from {:?} to {:?}", LENGTHS.start(), LENGTHS.end()));
    }
    let part = take(world, kind, what, Among::Serving, random)?;
    let duty = world.snapshot().duty(part);
    let (name, world) = (part.name.clone(), world.clone());
    let taken = name.clone();
    let thread = thread::Builder::new().name("fault".to_owned()).spawn({
        let world = world.clone();
        move || {
            if let Some(part) = world.parts.iter().find(|part| part.name == taken) {
                inflict(&world, kind, part, length);
            }
        }
    });
    if let Err(error) = thread {
        world.parts.iter().filter(|part| part.name == name).for_each(Part::let_go);
        return Err(error.to_string());
    }
    Ok((name, duty))
}
