//! `profile`: a server that refuses what a service refuses, so that tests of an application find it before the service
//! does. docs/guide/from-elasticache.md has the sources.

use guira_protocol::{
    AdminVerb, BAD_FORMAT, Command, Exptime, Fault, GetForm, Noreply, ServerCommand, UNKNOWN, Verb,
};
use std::fmt;
use std::str::FromStr;

/// The service whose limits a server has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    #[default]
    None,
    /// Nodes of ElastiCache for Memcached, from engine 1.6.17 on.
    Elasticache,
    /// ElastiCache Serverless for Memcached.
    ElasticacheServerless,
}

const WORDS: [(&str, Profile); 3] = [
    ("none", Profile::None),
    ("elasticache", Profile::Elasticache),
    ("elasticache-serverless", Profile::ElasticacheServerless),
];

/// A text names no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be none, elasticache or elasticache-serverless, not {0}")]
pub struct ProfileError(String);

impl FromStr for Profile {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        let found = WORDS.iter().find(|(word, _)| *word == text);
        found.map(|(_, profile)| *profile).ok_or_else(|| ProfileError(text.to_owned()))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(WORDS.iter().find(|(_, profile)| profile == self).map_or("", |(word, _)| word))
    }
}

/// The longest line of a serverless get.
const GET_MAX: usize = 16 << 10;

/// The sub-commands of `stats` that memcached does not have.
const OWN_STATS: [&str; 4] = ["bursts", "latency", "mrc", "topkeys"];

impl Profile {
    pub(crate) fn names() -> Vec<&'static str> {
        WORDS.iter().map(|(word, _)| *word).collect()
    }

    /// The fault that the profile makes of a command, if it refuses it. `length` is that of the line.
    #[cold]
    #[inline(never)]
    pub(crate) fn refusal(self, command: &Command<'_>, length: usize) -> Option<Fault> {
        if self == Profile::None {
            return None;
        }
        own_command(command).or_else(|| match self {
            Profile::None => None,
            Profile::Elasticache => match command {
                Command::Server(ServerCommand::Admin(
                    verb @ (AdminVerb::Lru | AdminVerb::LruCrawler | AdminVerb::Slabs),
                    rest,
                )) => Some(unknown_verb(*verb, rest)),
                _ => None,
            },
            Profile::ElasticacheServerless => serverless(command, length),
        })
    }

    /// Whether `stats` with these words is a command of the profile.
    pub(crate) fn shows(self, words: &[&str]) -> bool {
        match (self, words) {
            (Profile::None, _) | (_, [] | ["reset", ..]) => true,
            (Profile::Elasticache, [first, ..]) => !OWN_STATS.contains(first),
            (Profile::ElasticacheServerless, _) => false,
        }
    }
}

/// The fault of a command that memcached does not have.
fn own_command(command: &Command<'_>) -> Option<Fault> {
    match command {
        Command::Get(get) if get.form == GetForm::Lease => Some(Fault::Answer(UNKNOWN)),
        Command::Store(store) if matches!(store.verb, Verb::Lease(_)) => Some(Fault::Swallow {
            answer: UNKNOWN,
            noreply: store.noreply,
            bytes: u64::from(store.length) + 2,
        }),
        Command::Server(ServerCommand::FlushPrefixes { noreply, .. }) => Some(fault(UNKNOWN, *noreply)),
        Command::Server(ServerCommand::MetaFlushPrefix(_)) => Some(Fault::Answer(BAD_FORMAT)),
        Command::Server(ServerCommand::Admin(verb @ AdminVerb::Policy, rest)) => {
            Some(unknown_verb(*verb, rest))
        }
        _ => None,
    }
}

/// The fault of a command that memcached has and ElastiCache Serverless has not.
fn serverless(command: &Command<'_>, length: usize) -> Option<Fault> {
    match command {
        Command::Get(get) if matches!(get.form, GetForm::Plain(_)) && length > GET_MAX => {
            Some(Fault::Answer("CLIENT_ERROR get of more than 16 KiB not allowed"))
        }
        Command::MetaDebug(_) => Some(Fault::Answer(UNKNOWN)),
        Command::Server(ServerCommand::FlushAll { delay: Some(delay), noreply }) if *delay != Exptime(0) => {
            Some(fault("CLIENT_ERROR delayed flush_all not allowed", *noreply))
        }
        Command::Server(ServerCommand::Verbosity { noreply, .. }) => Some(fault(UNKNOWN, *noreply)),
        Command::Server(ServerCommand::Admin(verb, rest)) => Some(unknown_verb(*verb, rest)),
        _ => None,
    }
}

fn unknown_verb(verb: AdminVerb, rest: &[u8]) -> Fault {
    fault(UNKNOWN, if verb.takes_noreply() { guira_protocol::noreply(rest) } else { Noreply::No })
}

fn fault(answer: &'static str, noreply: Noreply) -> Fault {
    match noreply {
        Noreply::No => Fault::Answer(answer),
        Noreply::Yes => Fault::Silent,
    }
}
