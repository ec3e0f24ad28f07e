//! `guira router explain`: prints where a configuration sends a request.

use super::flags::{self, Flags};
use guira_cli::failure::Failure;
use guira_cli::output;
use guira_router::{ExplainError, Source};

/// The subcommand of `guira router`; mcrouter has no option of this form.
pub(super) const WORD: &str = "explain";

/// Prints the path of a request.
pub(super) fn main(flags: &Flags) -> Result<(), Failure> {
    if flags.wants("help") {
        return output::print(&flags::explain_command().render_help().to_string());
    }
    for note in flags.notes()? {
        eprintln!("note: {note}");
    }
    let value = |name| flags.text(name).unwrap_or_default();
    let options = super::options(flags, super::Manner::Guira, Source::named(value("CONFIG")), "")?;
    let explained = guira_router::explain(&options, value("OP"), value("KEY"));
    let explanation = explained.map_err(|error| match error {
        ExplainError::Op { .. } | ExplainError::Key => Failure::usage(error.to_string()),
        ExplainError::Load(error) => error.into(),
        ExplainError::NoRoute { .. } => error.into(),
    })?;
    for warning in explanation.warnings() {
        eprintln!("warning: {warning}");
    }
    output::print(&explanation.to_string())
}
