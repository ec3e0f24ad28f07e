//! How the values of options are read from text and written.

use crate::direct::Interface;
use crate::profile::Profile;
use crate::size::Size;
use guira_advice::Worth;
use guira_roster::RegionPlace;
use guira_sandbox::SystemCalls;
use guira_serving::{AtLimit, ClusterNode, Listen, Speaks};
use guira_transport::{CipherList, MinVersion, VerifyMode};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The form of a value in a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    /// In quotes with a unit, or a number of bytes.
    Size,
    Whole,
    /// A number with or without a fraction.
    Number,
    Switch,
}

pub(super) trait Value: Sized {
    const FORM: Form = Form::Text;

    /// # Errors
    /// What the value must be, as a sentence.
    fn read(text: &str) -> Result<Self, String>;

    /// The text that [`Value::read`] reads.
    fn write(&self) -> String;

    /// The value in `stats settings`.
    fn show(&self) -> String {
        self.write()
    }
}

/// A single value, one that may be absent, or a list.
pub(super) trait Field: Sized {
    const FORM: Form;
    const IS_LIST: bool = false;

    /// # Errors
    /// What the value must be, as a sentence.
    fn read_all(texts: &[String]) -> Result<Self, String>;

    /// The texts that [`Field::read_all`] reads; none if the value is absent.
    fn write_all(&self) -> Vec<String>;

    /// The value in `stats settings`.
    fn show(&self) -> String;
}

impl<T: Value> Field for T {
    const FORM: Form = T::FORM;

    fn read_all(texts: &[String]) -> Result<Self, String> {
        T::read(texts.last().map_or("", String::as_str))
    }

    fn write_all(&self) -> Vec<String> {
        vec![self.write()]
    }

    fn show(&self) -> String {
        Value::show(self)
    }
}

impl<T: Value> Field for Option<T> {
    const FORM: Form = T::FORM;

    fn read_all(texts: &[String]) -> Result<Self, String> {
        texts.last().map(|text| T::read(text)).transpose()
    }

    fn write_all(&self) -> Vec<String> {
        self.iter().map(T::write).collect()
    }

    fn show(&self) -> String {
        self.as_ref().map_or("NULL".to_owned(), T::show)
    }
}

impl<T: Value> Field for Vec<T> {
    const FORM: Form = T::FORM;
    const IS_LIST: bool = true;

    fn read_all(texts: &[String]) -> Result<Self, String> {
        texts.iter().map(|text| T::read(text)).collect()
    }

    fn write_all(&self) -> Vec<String> {
        self.iter().map(T::write).collect()
    }

    fn show(&self) -> String {
        self.write_all().join(",")
    }
}

/// memcached's words for a switch in `stats settings`.
pub(crate) fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

/// Values that are read by their `FromStr` and written by their `Display`.
macro_rules! parsed {
    ($($type:ty: $form:ident, $expected:expr;)+) => {
        $(impl Value for $type {
            const FORM: Form = Form::$form;

            fn read(text: &str) -> Result<Self, String> {
                let expected: Option<&str> = $expected;
                text.parse().map_err(|error| match expected {
                    Some(expected) => format!("must be {expected}, not {text}"),
                    None => format!("{error}"),
                })
            }

            fn write(&self) -> String {
                self.to_string()
            }
        })+
    };
}

const WHOLE: Option<&str> = Some("a whole number, 0 or more");

parsed! {
    u32: Whole, Some("a whole number, 0 or more and below 4294967296");
    u64: Whole, WHOLE;
    usize: Whole, WHOLE;
    f64: Number, Some("a number");
    String: Text, None;
    Listen: Text, None;
    ClusterNode: Text, None;
    Profile: Text, None;
    SocketAddr: Text, Some("IP:PORT or [v6]:PORT");
    Interface: Text, None;
    RegionPlace: Text, Some("a path, or a name of letters, digits, '.', '_' and '-'");
    MinVersion: Text, None;
    CipherList: Text, None;
    Worth: Text, None;
}

impl Value for Size {
    const FORM: Form = Form::Size;

    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: crate::SizeError| error.to_string())
    }

    fn write(&self) -> String {
        self.to_string()
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl Value for bool {
    const FORM: Form = Form::Switch;

    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("must be true or false, not {text}"))
    }

    fn write(&self) -> String {
        self.to_string()
    }

    fn show(&self) -> String {
        yes(*self)
    }
}

impl Value for PathBuf {
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }

    fn write(&self) -> String {
        Path::display(self).to_string()
    }
}

impl Value for VerifyMode {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: guira_transport::TlsOptionError| error.to_string())
    }

    fn write(&self) -> String {
        self.number().to_string()
    }
}

/// The address of the admin listener: a listener without a protocol or a tag, on this host if no
/// address is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminAddress(pub Listen);

impl Value for AdminAddress {
    fn read(text: &str) -> Result<Self, String> {
        guira_web::place(text).map(AdminAddress)
    }

    fn write(&self) -> String {
        self.0.to_string()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMode(pub u32);

impl Value for FileMode {
    fn read(text: &str) -> Result<Self, String> {
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
        mode.map(FileMode).ok_or_else(|| format!("must be permissions in octal, such as 700, not {text}"))
    }

    fn write(&self) -> String {
        format!("{:o}", self.0)
    }
}

/// The character at which the prefix of a key ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delimiter(pub u8);

impl Value for Delimiter {
    fn read(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            [byte] if byte.is_ascii_graphic() => Ok(Delimiter(*byte)),
            _ => Err(format!("must be one character of ASCII, not {text}")),
        }
    }

    fn write(&self) -> String {
        char::from(self.0).to_string()
    }
}

/// Values that are written as one of a few words.
fn word<T: Copy>(words: &[(&str, T)], text: &str) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("must be {}, not {text}", all.join(" or "))
    })
}

fn name<T: PartialEq + fmt::Debug>(words: &[(&str, T)], value: &T) -> String {
    words.iter().find(|(_, other)| other == value).map_or_else(String::new, |(word, _)| (*word).to_owned())
}

const SPEAKS: [(&str, Speaks); 3] =
    [("auto", Speaks::Any), ("ascii", Speaks::Text), ("binary", Speaks::Binary)];

impl Value for Speaks {
    fn read(text: &str) -> Result<Self, String> {
        word(&SPEAKS, text)
    }

    fn write(&self) -> String {
        name(&SPEAKS, self)
    }
}

const AT_LIMIT: [(&str, AtLimit); 2] = [("refuse", AtLimit::Refused), ("wait", AtLimit::Waits)];

impl Value for AtLimit {
    fn read(text: &str) -> Result<Self, String> {
        word(&AT_LIMIT, text)
    }

    fn write(&self) -> String {
        name(&AT_LIMIT, self)
    }
}

impl Value for SystemCalls {
    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn write(&self) -> String {
        self.to_string()
    }
}
