//! Shares of keys by slot, computed by hashing a sample as routers do.

use guira_cli::failure::Failure;
use guira_control::Slot;
use guira_routing::hash::{HashKind, Selector, ServerIdentity};

/// Keys of the sample: a share of 10 % has an error of about 1 % of itself.
const SAMPLE: usize = 100_000;

/// The hash of the routers, which etcd does not record.
#[derive(Debug, clap::Args)]
pub(super) struct Hashing {
    /// The routers' hash of the pool, by its name in their configurations. Without it: Ch3, or WeightedCh3 if the slots
    /// have weights.
    #[arg(long, value_name = "NAME")]
    hash: Option<String>,
    /// The salt of this hash.
    #[arg(long, value_name = "TEXT", default_value = "")]
    salt: String,
}

impl Hashing {
    /// The selector of these slots.
    pub(super) fn selector(&self, pool: &str, slots: &[Slot]) -> Result<Selector, Failure> {
        let names: Vec<String> = (0..slots.len()).map(|number| format!("{pool}-{number}")).collect();
        let identities = names.iter().zip(slots).map(|(name, slot)| {
            let identity = ServerIdentity::named(name);
            slot.weight.map_or(identity, |weight| identity.weighing(weight))
        });
        let usage = |error: guira_routing::hash::HashError| Failure::usage(error.to_string());
        let kind = HashKind::from_name(self.name(slots)).map_err(usage)?;
        Selector::new(kind, &identities.collect::<Vec<_>>(), &self.salt).map_err(usage)
    }

    /// The name of the hash for these slots.
    pub(super) fn name(&self, slots: &[Slot]) -> &str {
        // As a router chooses for a route that names no hash.
        let usual = if slots.iter().any(|slot| slot.weight.is_some()) { "WeightedCh3" } else { "Ch3" };
        self.hash.as_deref().unwrap_or(usual)
    }
}

fn sample() -> impl Iterator<Item = String> {
    (0..SAMPLE).map(|number| format!("sample:{number}"))
}

/// The share of the keys that belong to a slot.
pub(super) fn of_slot(selector: &Selector, slot: usize) -> f64 {
    sample().filter(|key| selector.pick(key.as_bytes()) == slot).count() as f64 / SAMPLE as f64
}

/// The keys of the sample that change their slot, as pairs of slots.
pub(super) fn moves(before: &Selector, after: &Selector) -> Vec<(usize, usize)> {
    let slots = sample().map(|key| (before.pick(key.as_bytes()), after.pick(key.as_bytes())));
    slots.filter(|(before, after)| before != after).collect()
}

/// The share of this number of keys in the sample.
pub(super) fn share(keys: usize) -> f64 {
    keys as f64 / SAMPLE as f64
}

/// A share in percent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(hash: &str, slots: usize) -> Selector {
        let hashing = Hashing { hash: Some(hash.to_owned()), salt: String::new() };
        hashing.selector("cache", &vec![Slot::default(); slots]).unwrap()
    }

    #[test]
    fn slots_with_weights_have_the_hash_that_routers_use_for_weights() {
        let hashing = Hashing { hash: None, salt: String::new() };
        let weighing = |weight| Slot { weight, ..Slot::default() };
        let share = |weights: [Option<f64>; 2]| {
            of_slot(&hashing.selector("cache", &weights.map(weighing)).unwrap(), 1)
        };
        assert!((0.49..0.51).contains(&share([None, None])), "{}", share([None, None]));
        assert_eq!(share([Some(1.0), Some(0.0)]), 0.0);
        assert_eq!(hashing.name(&[weighing(Some(1.0))]), "WeightedCh3");
    }

    #[test]
    fn one_slot_less_moves_the_keys_of_that_slot_and_no_others() {
        // A ketama has some hundred points per slot, so its shares vary.
        let hashes = [("Ch3", 1.1), ("Jump", 1.1), ("Rendezvous", 1.1), ("KetamaLibmemcachedWeighted", 1.4)];
        for slots in [2, 3, 4, 5, 8, 10, 20] {
            for (hash, most) in hashes {
                let (before, after) = (selector(hash, slots), selector(hash, slots - 1));
                let moved = moves(&before, &after);
                let (share, bound) = (share(moved.len()), most / slots as f64);
                assert!(
                    share <= bound,
                    "{hash}: {share} of the keys move from {slots} slots, at most {bound}"
                );
                assert!(
                    moved.iter().all(|(from, _)| *from == slots - 1),
                    "{hash}: keys of slots that stay move"
                );
            }
        }
    }

    #[test]
    fn shares_of_slots_come_to_all_keys() {
        let selector = selector("Ch3", 4);
        let shares: Vec<f64> = (0..4).map(|slot| of_slot(&selector, slot)).collect();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
        assert!(shares.iter().all(|share| (0.24..0.26).contains(share)), "{shares:?}");
    }
}
