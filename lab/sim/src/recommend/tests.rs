use guira_workload::OnMiss;
use guira_workload::rng::Rng;
use guira_workload::trace::{Action, Request};

use super::{AUTO_WITHIN, Amount, Answer, NoAnswer, Question, Server, Why, recommend};
use crate::run::{Measure, Rules};
use crate::sample::Sample;
use crate::size::Size;
use crate::stream::{Reading, Stream, Writes};

const MIB: u64 = 1 << 20;
/// What the server of these tests needs for itself.
const BESIDE: u64 = 4 * MIB;
const LEAST: u64 = 6 * MIB;
const OBJECT: u32 = 1000;

fn sampled(requests: impl Iterator<Item = Request>, sample: Sample) -> Stream {
    let reading = Reading { writes: Writes::Store, sample, limit: u64::MAX };
    Stream::read(requests.map(Ok::<_, ()>), reading).unwrap()
}

fn stream(keys: impl Iterator<Item = u64>) -> Stream {
    sampled(keys.map(Request::number), Sample::All)
}

fn ask_for(stream: &Stream, measure: Measure, given: Option<Size>) -> Result<Answer, NoAnswer> {
    let server = Server {
        least: LEAST,
        items: &|memory| memory.saturating_sub(BESIDE),
        memory: &|items| (items + BESIDE).next_multiple_of(MIB).max(LEAST),
    };
    let rules = Rules { on_miss: OnMiss::Fill, measure };
    recommend(&Question { stream, rules, given, server, threads: 2, progress: &|_| () })
}

/// In bytes.
fn answer(stream: &Stream, given: Option<Size>) -> Answer {
    ask_for(stream, Measure::Bytes { size: OBJECT, overhead: 0 }, given).unwrap()
}

fn bytes(amount: Amount) -> u64 {
    match amount {
        Amount::Memory(bytes) => bytes,
        Amount::Objects(_) => panic!("{amount} and no memory"),
    }
}

fn zipf(seed: u64, keys: f64, requests: usize) -> impl Iterator<Item = u64> {
    let mut rng = Rng::new(seed);
    (0..requests).map(move |_| keys.powf(rng.unit()) as u64)
}

#[test]
fn a_loop_needs_all_of_it_and_the_size_that_holds_it_is_found() {
    const KEYS: u64 = 40_000;
    let answer = answer(&stream((0..20 * KEYS).map(|number| number % KEYS)), None);
    let memory = bytes(answer.at.amount);
    let objects = KEYS * u64::from(OBJECT);
    assert!(memory > objects + BESIDE && memory < objects * 12 / 10 + BESIDE, "{answer:?}");
    assert_eq!((answer.policy.as_str(), answer.why), ("auto", Why::Found));
    // Each key's first request of 20.
    assert!((answer.unavoidable - 0.05).abs() < 1e-9 && (answer.at.miss_ratio - 0.05).abs() < 1e-9);
    assert!(answer.half.unwrap().miss_ratio > 0.3, "{answer:?}");
    let text = answer.text();
    assert!(text.contains("saves no miss") && text.contains(", 5.00 of 100 reads miss"), "{text}");
}

#[test]
fn from_the_answer_on_no_doubling_is_worth_it_and_to_it_one_is() {
    let answer = answer(&stream(zipf(1, 3_000_000.0, 1_000_000)), None);
    let saves = |from: f64, to: f64| (from - to) / from;
    let half = answer.half.unwrap();
    assert_eq!(answer.why, Why::Found);
    // Sizes are judged by the best fixed policy of each (below). `auto`, if it is recommended, may miss a hundredth more than that.
    let more = if answer.policy == "auto" { AUTO_WITHIN } else { 1.0 };
    assert!(saves(answer.at.miss_ratio / more, answer.twice.miss_ratio) < 0.1, "{answer:?}");
    assert!(saves(half.miss_ratio, answer.at.miss_ratio) >= 0.1, "{answer:?}");
    let at = answer.sizes.iter().position(|tried| tried.at.amount == answer.at.amount).unwrap();
    let ratios: Vec<f64> = answer.sizes.iter().map(|tried| tried.at.miss_ratio).collect();
    assert!(at > 0, "{answer:?}");
    assert!((0..=at).all(|index| saves(ratios[index], ratios[index.saturating_sub(2)]) < 0.1), "{answer:?}");
    assert!(saves(ratios[at + 1], ratios[at - 1]) >= 0.1, "{answer:?}");
}

#[test]
fn a_fixed_policy_is_recommended_where_auto_misses_clearly_more() {
    const KEYS: u64 = 40_000;
    let given = Size::Bytes(KEYS * u64::from(OBJECT) * 8 / 10 + BESIDE);
    let answer = answer(&stream((0..20 * KEYS).map(|number| number % KEYS)), Some(given));
    assert!(
        answer.auto_miss_ratio > 1.01 * answer.best_fixed_miss_ratio && answer.policy == answer.best_fixed,
        "{answer:?}"
    );
    assert!(answer.text().contains("the limit is 1 %"), "{}", answer.text());
}

#[test]
fn a_sample_has_the_answer_of_all_requests_and_says_how_uncertain_it_is() {
    let requests = || zipf(2, 200_000.0, 1_000_000).map(Request::number);
    let all = answer(&sampled(requests(), Sample::All), Some(Size::Bytes(40 * MIB)));
    let sample = answer(&sampled(requests(), Sample::Keys(8_000)), Some(Size::Bytes(40 * MIB)));
    let error = (all.at.miss_ratio - sample.at.miss_ratio).abs();
    let uncertainty = sample.uncertainty.unwrap();
    assert!(error < 3.0 * uncertainty && uncertainty < 0.01, "{all:?} {sample:?}");
    assert!(all.uncertainty.is_none() && (all.unavoidable / sample.unavoidable - 1.0).abs() < 0.05);
    let ratio = bytes(all.holds_all) as f64 / bytes(sample.holds_all) as f64;
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
    assert!(sample.text().contains(" ± "), "{}", sample.text());
}

#[test]
fn what_fits_into_the_least_server_needs_no_more() {
    let answer = answer(&stream((0..3000).map(|number| number % 100)), None);
    assert_eq!((answer.at.amount, answer.why, answer.half), (Amount::Memory(LEAST), Why::Least, None));
    let text = answer.text();
    assert!(text.starts_with("Use --memory 6MiB --policy auto.\n"), "{text}");
    assert!(
        text.contains("With half as much a server does not start")
            && text.contains("A server does not start with less"),
        "{text}"
    );
}

#[test]
fn a_single_request_has_an_answer() {
    let answer = answer(&stream(std::iter::once(5)), None);
    assert_eq!((answer.at.miss_ratio, answer.unavoidable), (1.0, 1.0));
    let objects = ask_for(&stream(std::iter::once(5)), Measure::Objects, None).unwrap();
    assert_eq!(objects.at.amount, Amount::Objects(1));
}

#[test]
fn a_size_that_is_given_is_answered_for_and_judged() {
    let stream = stream(zipf(3, 100_000.0, 500_000));
    let little = answer(&stream, Some(Size::Bytes(8 * MIB)));
    assert_eq!((bytes(little.at.amount), bytes(little.twice.amount)), (8 * MIB, 16 * MIB));
    assert!(little.half.is_none(), "{little:?}");
    let text = little.text();
    assert!(
        text.starts_with("8MiB are too little: twice as much pays. With 8MiB use --memory 8MiB"),
        "{text}"
    );
    let much = answer(&stream, Some(Size::Bytes(1 << 30)));
    assert_eq!(bytes(much.half.unwrap().amount), 512 * MIB);
    let (text, holds_all) = (much.text(), much.holds_all);
    assert!(
        text.starts_with(&format!("Use --memory {holds_all} --policy auto: that holds all items")),
        "{text}"
    );
    assert!(text.contains("Half as much, 512MiB, costs no miss"), "{text}");
}

#[test]
fn without_lengths_the_answer_is_in_objects() {
    let answer = ask_for(&stream(zipf(4, 10_000.0, 200_000)), Measure::Objects, None).unwrap();
    assert!(matches!(answer.at.amount, Amount::Objects(100..=10_000)), "{answer:?}");
    assert_eq!(answer.arguments(), None);
    assert!(answer.text().contains("set --value-size BYTES"), "{}", answer.text());
    let share = ask_for(&stream(0..1000), Measure::Objects, Some(Size::Percent(10.0))).unwrap();
    assert_eq!(share.at.amount, Amount::Objects(100));
}

#[test]
fn a_policy_pays_for_its_notes_with_memory() {
    // Items of 20 bytes: a list would hold 20 of 32 bytes' worth of them.
    let stream = stream(zipf(5, 2_000_000.0, 800_000));
    let small =
        |size| ask_for(&stream, Measure::Bytes { size, overhead: 0 }, Some(Size::Bytes(LEAST))).unwrap();
    assert_eq!(small(20).best_fixed, "clock");
    assert_ne!(small(2000).best_fixed, "clock");
}

#[test]
fn what_no_memory_avoids_are_first_reads_and_those_after_a_delete() {
    let delete = |key| Request { action: Action::Delete, ..Request::number(key) };
    let requests =
        [Request::number(1), Request::number(1), delete(1), Request::number(1), Request::number(1)];
    let answer = answer(&sampled(requests.into_iter(), Sample::All), None);
    assert_eq!(answer.unavoidable, 0.5);
}

#[test]
fn requests_without_misses_to_judge_by_have_no_answer() {
    let set = |key| Request { action: Action::Set, ..Request::number(key) };
    let lone = |key| Request { action: Action::LoneGet, ..Request::number(key) };
    let refusal = |requests: Vec<Request>, given| {
        let stream = sampled(requests.into_iter(), Sample::All);
        ask_for(&stream, Measure::Bytes { size: 100, overhead: 0 }, given).unwrap_err().to_string()
    };
    assert!(refusal(vec![set(1), set(2)], None).contains("no request reads"));
    assert!(refusal(vec![lone(1)], None).contains("nothing is ever stored"));
    let little = refusal(vec![Request::number(1)], Some(Size::Bytes(MIB)));
    assert!(little.contains("1MiB is less memory") && little.contains("6MiB"), "{little}");
}
