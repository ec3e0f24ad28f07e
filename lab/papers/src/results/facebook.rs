//! Facebook's claims.

use super::{Row, row};

pub(super) const ROWS: &[Row] = &[row(
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
)];
