//! What is listened on, and how.

use guira_transport::{Address, AddressError};
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speaks {
    /// Text or binary: the first byte of a connection says which.
    #[default]
    Any,
    Text,
    Binary,
}

impl Speaks {
    /// Memcached's name for it, in `stats settings`.
    pub fn name(self) -> &'static str {
        match self {
            Speaks::Any => "auto-negotiate",
            Speaks::Text => "ascii",
            Speaks::Binary => "binary",
        }
    }
}

/// How connections of a listener are secured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// TLS as configured, if it is configured.
    #[default]
    Default,
    /// Plain (`notls:`).
    Plain,
    /// TLS that asks for no client certificate (`btls:`).
    Basic,
    /// TLS that requires a client certificate (`mtls:`).
    Mutual,
}

/// The name of a listener, of 1 to 8 bytes. It is taken, checked and shown as memcached's, whose proxy knows listeners by it; here nothing
/// else is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag(String);

/// What is said about a listener before its address: `[notls:|btls:|mtls:][proto[ascii|binary|negotiating]:][tag[NAME]:]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenTraits {
    pub security: Security,
    /// Which protocols are spoken, if not those of the server.
    pub speaks: Option<Speaks>,
    pub tag: Option<Tag>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    pub traits: ListenTraits,
    pub address: Address,
    /// Whether the server may do without it if this machine does not have the address.
    pub optional: bool,
}

/// What is wrong with a listener.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenTextError {
    #[error(transparent)]
    Address(#[from] AddressError),
    /// What comes before the address.
    #[error("'{text}': {problem}")]
    Traits { text: String, problem: &'static str },
}

impl ListenTraits {
    /// Reads what comes before an address, and returns what is left.
    ///
    /// # Errors
    /// If it does not follow the form.
    pub fn parse(text: &str) -> Result<(Self, &str), ListenTextError> {
        let fail = |problem| ListenTextError::Traits { text: text.to_owned(), problem };
        let (security, rest) =
            [("notls:", Security::Plain), ("btls:", Security::Basic), ("mtls:", Security::Mutual)]
                .into_iter()
                .find_map(|(prefix, security)| Some((security, text.strip_prefix(prefix)?)))
                .unwrap_or((Security::Default, text));
        let (speaks, rest) = match rest.strip_prefix("proto[") {
            None => (None, rest),
            Some(rest) => {
                let (name, rest) = rest.split_once("]:").ok_or(fail("proto[NAME]: has no end"))?;
                let speaks = match name {
                    "ascii" => Speaks::Text,
                    "binary" => Speaks::Binary,
                    "negotiating" => Speaks::Any,
                    _ => return Err(fail("a protocol is ascii, binary or negotiating")),
                };
                (Some(speaks), rest)
            }
        };
        // memcached takes _ for brackets, because shells do not.
        let tag = rest.strip_prefix("tag[").map(|rest| (rest, "]:"));
        let tag = tag.or_else(|| rest.strip_prefix("tag_").map(|rest| (rest, "_:")));
        let (tag, rest) = match tag {
            None => (None, rest),
            Some((rest, end)) => {
                let (name, rest) = rest.split_once(end).ok_or(fail("tag[NAME]: has no end"))?;
                if !(1..=8).contains(&name.len()) {
                    return Err(fail("a tag has 1 to 8 characters"));
                }
                (Some(Tag(name.to_owned())), rest)
            }
        };
        Ok((ListenTraits { security, speaks, tag }, rest))
    }
}

impl FromStr for Listen {
    type Err = ListenTextError;

    fn from_str(text: &str) -> Result<Self, ListenTextError> {
        let (traits, address) = ListenTraits::parse(text)?;
        Ok(Listen { traits, address: address.parse()?, optional: false })
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.traits.security {
            Security::Default => "",
            Security::Plain => "notls:",
            Security::Basic => "btls:",
            Security::Mutual => "mtls:",
        })?;
        formatter.write_str(match self.traits.speaks {
            None => "",
            Some(Speaks::Any) => "proto[negotiating]:",
            Some(Speaks::Text) => "proto[ascii]:",
            Some(Speaks::Binary) => "proto[binary]:",
        })?;
        if let Some(tag) = &self.traits.tag {
            write!(formatter, "tag[{tag}]:")?;
        }
        self.address.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_read_and_written_alike() {
        for text in [
            "127.0.0.1:11211",
            "notls:127.0.0.1:11211",
            "mtls:proto[binary]:tag[services]:[::1]:0",
            "proto[negotiating]:unix:/tmp/socket",
            "btls:tag[x]:0.0.0.0:1",
        ] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        let listen: Listen = "proto[ascii]:tag_tools_:127.0.0.1:11212".parse().unwrap();
        assert_eq!(listen.to_string(), "proto[ascii]:tag[tools]:127.0.0.1:11212");
    }

    #[test]
    fn what_is_no_listener_is_refused_by_its_part() {
        let error = |text: &str| text.parse::<Listen>().unwrap_err().to_string();
        assert!(error("proto[redis]:127.0.0.1:1").contains("ascii, binary or negotiating"));
        assert!(error("proto[ascii:127.0.0.1:1").contains("has no end"));
        assert!(error("tag[123456789]:127.0.0.1:1").contains("1 to 8"));
        assert!(error("tag[]:127.0.0.1:1").contains("1 to 8"));
        assert!(error("mtls:here").contains("'here' is not an address"));
    }
}
