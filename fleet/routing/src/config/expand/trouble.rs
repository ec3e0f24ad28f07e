//! An error on its way out of macros and imports: where it is, and how the expansion got there.

use super::super::json::{ConfigError, Place};

pub(crate) type Outcome<T> = Result<T, Trouble>;

/// More macros than these around an error are only counted.
const VIA_MAX: usize = 5;

#[derive(Debug)]
pub(crate) struct Trouble(Box<Inner>);

#[derive(Debug)]
struct Inner {
    error: ConfigError,
    member: Option<String>,
    via: Vec<String>,
    left_out: usize,
    is_limit: bool,
}

impl Trouble {
    pub(crate) fn at(place: &Place, reason: impl Into<String>) -> Self {
        place.error(reason).into()
    }

    /// A limit is exceeded, which nothing makes up for.
    pub(crate) fn limit(place: &Place, reason: impl Into<String>) -> Self {
        let mut trouble = Self::at(place, reason);
        trouble.0.is_limit = true;
        trouble
    }

    pub(crate) fn is_limit(&self) -> bool {
        self.0.is_limit
    }

    /// Records the member that contains the error.
    pub(crate) fn in_member(mut self, name: &str) -> Self {
        self.0.member.get_or_insert_with(|| name.into());
        self
    }

    /// Records the macro or import, used elsewhere, that contains the error.
    pub(crate) fn via(mut self, what: impl FnOnce() -> String) -> Self {
        if self.0.via.len() < VIA_MAX {
            self.0.via.push(what());
        } else {
            self.0.left_out += 1;
        }
        self
    }

    pub(crate) fn finish(self) -> ConfigError {
        let Inner { error: ConfigError { place, mut reason }, member, mut via, left_out, .. } = *self.0;
        if let Some(member) = member {
            reason = format!("{member:?}: {reason}");
        }
        if left_out > 0 {
            via.push(format!("{left_out} more"));
        }
        if !via.is_empty() {
            reason = format!("{reason} (in {})", via.join(", in "));
        }
        place.error(reason)
    }
}

impl From<ConfigError> for Trouble {
    fn from(error: ConfigError) -> Self {
        Self(Box::new(Inner { error, member: None, via: Vec::new(), left_out: 0, is_limit: false }))
    }
}
