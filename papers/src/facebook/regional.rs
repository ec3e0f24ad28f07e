//! A copy in every cluster or one in a region: what either costs, by a model of the two families of items of the paper.

use guira_workload::{Rng, Zipf};

use crate::experiment::{Context, Experiment, Failure, failed};
use crate::figure::Figure;
use crate::outcome::{Outcome, answer, percent, table, verdict};
use crate::simulate::{Misses, Replacement};
use crate::traces::numbered;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-regional",
    claims: &["S12"],
    about: "Memory that one copy in a region saves over one in every cluster, and bytes between clusters that it costs, for two families of items",
    run,
};

/// A family of items as the paper's table 1 has it; A comes first.
struct Family {
    /// Users of an item, in the median.
    users: u32,
    gets_per_s: f64,
    value: f64,
}

const FAMILIES: [Family; 2] = [
    Family { users: 30, gets_per_s: 3.26e6, value: 10.7e3 },
    Family { users: 1, gets_per_s: 458e3, value: 4.34e3 },
];

/// The part of a cluster's wildcard pool that B takes.
const PART: f64 = 0.25;

/// Between clusters there is so much less bandwidth than within one.
const LESS: f64 = 0.4;

/// Clusters of a region; the paper does not tell.
const CLUSTERS: [usize; 3] = [2, 4, 8];

/// Items of a family in the simulation, of which a pool holds a part, and the exponent of their popularity.
const ITEMS: u64 = 50_000;
const HELD: u64 = 20_000;
const THETA: f64 = 0.9;

/// In how many of `clusters` an item of so many users is asked for, if each user stays with one of them.
fn clusters_of(users: u32, clusters: usize) -> f64 {
    let clusters = clusters as f64;
    clusters * (1.0 - (1.0 - 1.0 / clusters).powf(f64::from(users)))
}

/// Misses of a pool in each cluster, to which requests go at random, and of one pool of `room` items for all.
fn misses(clusters: usize, room: u64, requests: usize, seed: u64) -> Result<(f64, f64), Failure> {
    let (zipf, mut rng) = (Zipf::new(ITEMS, THETA).map_err(failed)?, Rng::new(seed));
    let mut by_cluster = vec![Vec::new(); clusters];
    let mut all = Vec::with_capacity(requests);
    for _ in 0..requests {
        let id = zipf.draw(&mut rng) as u32;
        all.push(id);
        by_cluster[rng.below(clusters as u64) as usize].push(id);
    }
    let of = |ids: &[u32], room| {
        let stream = numbered(ids);
        Replacement::Clock.with(&stream, room, seed, Misses(stream.ids()))
    };
    let own = by_cluster.iter().map(|ids| of(ids, HELD)).sum::<f64>() / clusters as f64;
    Ok((own, of(&all, room)))
}

/// What a region of so many clusters comes to.
struct Region {
    clusters: usize,
    /// Misses with a pool in each cluster, and with one of the size of one of these.
    own: Figure,
    shared: Figure,
    /// Bytes between clusters a second, of each family, if it has one copy.
    between: [f64; 2],
    /// The part of all wildcard pools that is free when B has one copy.
    freed: f64,
}

fn region(context: &Context, clusters: usize) -> Result<Region, Failure> {
    let requests = context.scale.pick(8_000_000, 200_000);
    let (mut own, mut shared) = (Vec::new(), Vec::new());
    for number in 0..context.runs {
        let found = misses(clusters, HELD, requests, context.seed + u64::from(number))?;
        own.push(found.0);
        shared.push(found.1);
    }
    let others = (clusters - 1) as f64 / clusters as f64;
    Ok(Region {
        clusters,
        own: Figure::of(&own),
        shared: Figure::of(&shared),
        between: FAMILIES.map(|family| family.gets_per_s * family.value * others),
        freed: PART * others,
    })
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let regions =
        CLUSTERS.iter().map(|clusters| region(context, *clusters)).collect::<Result<Vec<_>, _>>()?;
    let [_, four, _] = &regions[..] else { return Err(failed("three regions are modelled")) };
    let [a, b] = four.between.map(|bytes| bytes / 1e9);
    let rows = regions.iter().map(|region| {
        let [a, b] = region.between.map(|bytes| bytes / 1e9);
        vec![
            region.clusters.to_string(),
            percent(region.freed),
            format!("{a:.1}"),
            format!("{b:.2}"),
            format!("{:.2}", region.own.scaled(100.0)),
            format!("{:.2}", region.shared.scaled(100.0)),
            FAMILIES.map(|family| format!("{:.2}", clusters_of(family.users, region.clusters))).join(", "),
        ]
    });
    let is_no_worse = regions.iter().all(|region| region.shared.mean <= region.own.mean);
    Ok(Outcome {
        how: format!(
            "A model. The families' gets a second, sizes and users are the paper's, and so is that B takes {:.0} % of each cluster's wildcard pool; the \
             number of clusters is not. A request goes to any cluster, as in the paper, so that with C clusters (C - 1) / C of the gets of a regional copy \
             leave their cluster. Misses are simulated: {ITEMS} items by Zipf's law with {THETA}, a pool for {HELD} of them in each cluster, or one such pool for all, CLOCK, {} requests. \
             In how many clusters an item is asked for is computed for users who stay with one cluster.",
            100.0 * PART,
            context.scale.pick(8_000_000, 200_000)
        ),
        answers: vec![answer(
            "S12",
            format!(
                "four clusters: a regional copy of B frees {} % of the wildcard pools and sends {b:.2} GB/s between clusters, of A {a:.1} GB/s, {:.1} ×; misses {:.2} % with a pool in each cluster, \
                 {:.2} % with one as large as one of these",
                percent(four.freed),
                a / b,
                100.0 * four.own.mean,
                100.0 * four.shared.mean
            ),
            verdict(&[
                ("B costs an order of magnitude less bandwidth than A", a / b >= 10.0),
                ("one pool of the size of a cluster's misses no more than the clusters' own", is_no_worse),
            ]) + &format!(
                "With {:.0} % less bandwidth between clusters, {b:.2} GB/s there take as much of it as {:.2} GB/s within one.",
                100.0 * LESS,
                b / (1.0 - LESS)
            ),
        )],
        tables: vec![table(
            "A regional pool, by the number of clusters:",
            &[
                "clusters",
                "B frees, % of the wildcard pools",
                "A between clusters, GB/s",
                "B",
                "misses, own pools, %",
                "one pool, %",
                "clusters that want an item of A, of B, if users stay",
            ],
            rows.collect(),
        )],
        charts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::{clusters_of, misses};

    #[test]
    fn an_item_of_one_user_is_wanted_in_one_cluster_and_of_many_in_all() {
        assert!((clusters_of(1, 4) - 1.0).abs() < 1e-9);
        assert!((clusters_of(2, 4) - 1.75).abs() < 1e-9);
        assert!(clusters_of(30, 4) > 3.99);
    }

    #[test]
    fn one_pool_for_all_clusters_misses_less_than_their_own_of_its_size_while_they_fill() {
        let (own, shared) = misses(4, super::HELD, 100_000, 1).unwrap();
        assert!(shared < own, "{shared} {own}");
        let (_, smaller) = misses(4, super::HELD / 4, 100_000, 1).unwrap();
        assert!(smaller > shared, "{smaller} {shared}");
    }
}
