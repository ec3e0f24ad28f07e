//! `make soak`: what takes too long, or needs too much from elsewhere, for every change.

use super::tools::cargo;
use super::{Step, Work, clients};

/// All steps.
pub(crate) fn steps() -> Vec<Step> {
    vec![
        Step { name: "build", work: |_| Work::Commands(vec![cargo(&["build", "--package", "guira-cli"])]) },
        Step { name: "clients", work: clients::others },
    ]
}
