//! Facebook's claims.

use super::{Row, row};

pub(super) const ROWS: &[Row] = &[
    row(
        "S5",
        "facebook-herd",
        "leases against herds: peak queries of the database",
        "17 K/s → 1.3 K/s, 13 ×",
        |answer| {
            let [plain, leases, ratio, outdated, with] = answer.after("peak")?;
            let text = format!(
                "{plain:.0} → {leases:.0} a second, {ratio:.1} ×; {outdated} outdated values without leases, {with} with"
            );
            Some((text, vec![ratio >= 13.0, with == 0.0]))
        },
    ),
    row(
        "S17",
        "facebook-balance",
        "balance of ages: near one LRU over all memory after a shift of sizes",
        "no figure",
        |answer| {
            let [paper, ours, one] = answer.after("four shifts")?;
            let [behind, behind_ours] = answer.after("points")?;
            let text = format!(
                "recovered after {paper:.2} fills (ours {ours:.2}, one LRU {one:.2}), {behind:.2} points behind one LRU (ours {behind_ours:.2})"
            );
            Some((text, vec![paper < 1.2 * one, behind < 1.0]))
        },
    ),
];
