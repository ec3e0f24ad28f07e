//! Shares and nines as they are printed.

/// A share in percent.
pub(crate) fn share(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.4}%", share * 100.0))
}

/// A number of nines. Without a failure, the number of samples gives only a lower bound.
pub(crate) fn nines(nines: Option<f64>, failed: u64) -> String {
    let at_least = if failed == 0 { ">" } else { "" };
    nines.map_or("-".to_owned(), |nines| format!("{at_least}{nines:.1}"))
}
