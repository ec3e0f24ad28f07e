use std::io;
use std::path::Path;

use super::{Recipe, RecipeError, list};
use crate::trace::{Action, Request};

fn recipe(text: &str) -> Result<Recipe, RecipeError> {
    Recipe::parse(text, &|_: &Path| Err(io::Error::from(io::ErrorKind::NotFound)))
}

fn requests(text: &str) -> Vec<Request> {
    recipe(text).unwrap().requests().map(|Ok(request)| request).collect()
}

fn share(requests: &[Request], wanted: impl Fn(&Request) -> bool) -> f64 {
    requests.iter().filter(|request| wanted(request)).count() as f64 / requests.len() as f64
}

#[test]
fn every_workload_of_the_list_can_be_made_and_ends() {
    for (name, options, about) in list() {
        let made = requests(&format!("{name}:requests=1000,keys=10k"));
        assert_eq!(made.len(), 1000, "{name}: {about}");
        assert!(options.contains("requests") && options.contains("seed"));
        assert_eq!(made, requests(&format!("{name}:requests=1000,keys=10k")), "{name}: the same each time");
        assert_ne!(made, requests(&format!("{name}:requests=1000,keys=10k,seed=2")), "{name}");
    }
}

#[test]
fn what_is_not_known_is_refused_with_what_there_is() {
    let error = |text: &str| recipe(text).unwrap_err().to_string();
    assert!(error("zipff").contains("zipf, uniform"), "{}", error("zipff"));
    assert!(
        error("twitter-034:value=3").contains("use one of: alpha, keys"),
        "{}",
        error("twitter-034:value=3")
    );
    assert!(error("zipf:alpha=much").contains("alpha=much: not a number"));
    assert!(error("zipf:keys").contains("key=value"));
    assert!(error("zipf:keys=0").contains("at least one key"));
    assert!(error("zipf:value=9-3").contains("smaller first"));
    assert!(error("cachelib:dir=nowhere").contains("nowhere/config.json"));
}

#[test]
fn options_are_obeyed() {
    let made =
        requests("zipf:keys=1k,alpha=1.2,requests=5k,set=1,get=3,value=100-200,key=20,ttl=60,seconds=100");
    assert_eq!(made.len(), 5000);
    assert!((share(&made, |request| request.action == Action::Set) - 0.25).abs() < 0.03);
    assert!(made.iter().all(|request| (100..=200).contains(&request.value_len.unwrap())));
    assert!(made.iter().all(|request| request.key_len == Some(20) && request.ttl == 60));
    assert_eq!((made[0].time, made[2500].time, made[4999].time), (0, 50, 99));
}

#[test]
fn twitters_clusters_have_their_mixes_and_their_share_of_first_requests() {
    for (name, gets, first) in
        [("034", 0.94, 0.0203), ("026", 0.71, 0.0772), ("041", 0.5, 0.085), ("032", 0.02, 0.9762)]
    {
        let made = requests(&format!("twitter-{name}:requests=300k"));
        let read = share(&made, |request| request.action == Action::Get);
        assert!((read - gets).abs() < 0.01, "{name}: {read}");
        let keys: std::collections::HashSet<u64> = made.iter().map(|request| request.key.id()).collect();
        let distinct = keys.len() as f64 / made.len() as f64;
        assert!((distinct / first - 1.0).abs() < 0.05, "{name}: {distinct}");
        assert_eq!(made[299_999].time, 604_797);
    }
}

#[test]
fn cluster_32_has_as_many_keys_with_one_request_as_was_measured() {
    // Nothing was set to make it so: the measurement says 97.56 % of the keys.
    let mut counts = std::collections::HashMap::new();
    for request in requests("twitter-032:requests=300k") {
        *counts.entry(request.key.id()).or_insert(0) += 1;
    }
    let once = counts.values().filter(|&&count| count == 1).count() as f64 / counts.len() as f64;
    assert!((once - 0.9756).abs() < 0.005, "{once}");
}

#[test]
fn facebooks_pools_have_the_sizes_of_table_3() {
    // Mean, standard deviation, and the percentiles 5, 25, 50, 75, 95, 99.
    let table = [
        ("wildcard", 1110.0, 8280.0, [77, 102, 169, 363, 3650, 18_300]),
        ("app", 881.0, 7700.0, [103, 247, 269, 337, 1680, 10_400]),
        ("replicated", 66.0, 2.0, [62, 68, 68, 68, 68, 68]),
        ("regional", 31_800.0, 75_400.0, [231, 824, 5310, 24_000, 158_000, 381_000]),
    ];
    for (pool, mean, deviation, percentiles) in table {
        let model = recipe(&format!("fb-{pool}")).unwrap().model;
        let mut sizes: Vec<u32> = (0..1_000_000).map(|id| model.sizes.of(id)).collect();
        sizes.sort_unstable();
        let count = sizes.len() as f64;
        let drawn_mean = sizes.iter().map(|&size| f64::from(size)).sum::<f64>() / count;
        let variance = sizes.iter().map(|&size| (f64::from(size) - drawn_mean).powi(2)).sum::<f64>() / count;
        assert!((drawn_mean / mean - 1.0).abs() < 0.03, "{pool}: mean {drawn_mean}");
        assert!((variance.sqrt() / deviation - 1.0).abs() < 0.15, "{pool}: deviation {}", variance.sqrt());
        for (percent, size) in [0.05, 0.25, 0.5, 0.75, 0.95, 0.99].into_iter().zip(percentiles) {
            let drawn = f64::from(sizes[(percent * count) as usize]);
            assert!((drawn / f64::from(size) - 1.0).abs() < 0.04, "{pool}: {percent}: {drawn} beside {size}");
        }
    }
}

#[test]
fn facebooks_pools_have_the_rates_of_table_2() {
    let made = requests("fb-regional:requests=200k");
    let total = 9.1 + 0.79 + 35.9;
    assert!((share(&made, |request| request.action == Action::Get) - 9.1 / total).abs() < 0.005);
    assert!((share(&made, |request| request.action == Action::Delete) - 0.04 * 35.9 / total).abs() < 0.005);
    assert!(
        (share(&made, |request| request.action == Action::LoneDelete) - 0.96 * 35.9 / total).abs() < 0.005
    );
}

#[test]
fn pages_fan_out_as_figure_9_says() {
    let model = recipe("fb-page").unwrap().model;
    let crate::Popularity::Pages(pages) = &model.popularity else { panic!("pages") };
    let mut rng = crate::Rng::new(9);
    let mut loads: Vec<u32> = (0..200_000).map(|_| pages.draw_load(&mut rng).count() as u32).collect();
    loads.sort_unstable();
    let below_20 = loads.partition_point(|&items| items < 20) as f64 / loads.len() as f64;
    assert!((below_20 - 0.56).abs() < 0.01, "{below_20}");
    let popular = &loads[(0.56 * loads.len() as f64) as usize..];
    let mean = popular.iter().map(|&items| f64::from(items)).sum::<f64>() / popular.len() as f64;
    let p95 = popular[(0.95 * popular.len() as f64) as usize];
    assert!((mean / 521.0 - 1.0).abs() < 0.06 && (1650..1830).contains(&p95), "{mean} {p95}");
}

#[test]
fn tiny_items_are_tiny() {
    let made = requests("fb-tiny:requests=10k");
    assert!(
        made.iter().all(|request| matches!(request.key_len, Some(16 | 21)) && request.value_len == Some(2))
    );
    assert!(share(&made, |request| request.action == Action::Set) < 0.01);
}

#[test]
fn cachelibs_distributions_are_built_in() {
    let made = requests("cachelib:keys=100k,requests=100k");
    let lone = share(&made, |request| request.action == Action::LoneGet);
    assert!((lone - 0.1368).abs() < 0.005, "{lone}");
    assert!(made.iter().all(|request| request.key_len.is_some_and(|len| (16..=250).contains(&len))));
}
