//! Another replacement policy while the server runs.

use super::{Admin, Answer, Lines};
use guira_contract::{PolicyError, Spec};

impl Admin {
    /// What the engine is made of, for `stats settings`.
    pub(super) fn show_engine(&self, out: &mut Lines<'_>) {
        let (policy, next) = self.control.policy();
        out.stat("policy", policy);
        out.stat("policy_item_bytes", self.control.stats().policy_item_bytes);
        out.stat("policy_next", next.map_or("NULL".to_owned(), |next| next.to_string()));
        for (name, value) in self.settings.choice.settings() {
            out.stat(&name, value);
        }
    }

    /// `policy` shows the policy, `policy NAME key=value …` switches to another.
    pub(super) fn policy(&self, words: &[&str]) -> Answer {
        let [name, options @ ..] = words else {
            let (policy, next) = self.control.policy();
            let next = next.map_or(String::new(), |next| format!(", and {next} is taking over"));
            return Answer::Line(format!("POLICY {policy}{next}"));
        };
        match Spec::of_words(name, options) {
            Ok(policy) => self.switch_policy(&policy),
            Err(error) => Answer::Line(format!("CLIENT_ERROR {error}")),
        }
    }

    /// Switches to another policy, or to the same with other options.
    pub(super) fn switch_policy(&self, policy: &Spec) -> Answer {
        match self.control.change_policy(policy) {
            Ok(()) => {
                if self.log_limit.is_due(self.shared.clock.now()) {
                    tracing::info!(%policy, "another replacement policy takes over");
                }
                "OK".into()
            }
            Err(PolicyError::Busy) => "BUSY another policy is taking over".into(),
            Err(error @ PolicyError::NoRoom) => Answer::Line(format!("SERVER_ERROR {error}")),
            Err(PolicyError::Option(error)) => Answer::Line(format!("CLIENT_ERROR {error}")),
        }
    }
}
