//! Readers: of a few keys at once, in every protocol.

use guira_workload::Rng;

use super::{Clients, counted};
use crate::client::Client;
use crate::field::{Counters, Field};
use crate::history::{Claim, History, Kind, Missed};
use crate::speech::{Answer, Hit, Request, Seen, SeenAll, Verb};

/// The name under which reads are counted that had no memory for a cas unique.
pub(crate) const REFUSED: &str = "refused reads: no memory";

const KEYS_MAX: u64 = 60;

/// Reads until the run ends.
pub(crate) fn run(field: &Field, history: &History, mut random: Rng) {
    let Some(mut clients) = Clients::open(field, &mut random) else { return };
    let mut counters = field.counters();
    while field.goes_on() {
        let index = clients.pick(&mut random);
        let keys = some_keys(history, &mut random);
        let claims = keys.iter().map(|key| history.claim(*key, field.now())).collect::<Vec<_>>();
        let names = claims.iter().map(|claim| history.name(claim.owner)).collect::<Vec<_>>();
        let client = clients.get(index);
        let found = if random.below(2) == 0 { client.many(&names) } else { one_by_one(client, names) };
        match found {
            Err(error) => {
                if clients.replace(index, &error).is_none() {
                    return;
                }
            }
            Ok(Err(what)) => field.fail(format!("{:?}: {what}", client.speech)),
            Ok(Ok(all)) => {
                counters.add(counted(client.speech), all.len() as u64);
                for (claim, seen) in claims.into_iter().zip(all) {
                    judge(field, history, claim, &seen, &mut counters);
                }
            }
        }
    }
}

fn some_keys(history: &History, random: &mut Rng) -> Vec<usize> {
    let most = [1, 8, KEYS_MAX][random.below(3) as usize];
    let count = 1 + random.below(most) as usize;
    let all = history.len() as u64;
    // The first keys are warm, and read most often. No key is read twice, so that answers can be
    // matched in any order.
    let mut keys = (0..count)
        .map(|_| if random.below(2) == 0 { random.below(all.div_ceil(10)) } else { random.below(all) } as usize)
        .collect::<Vec<_>>();
    keys.sort_unstable();
    keys.dedup();
    keys
}

type Found = std::io::Result<SeenAll>;

fn one_by_one(client: &mut Client, names: Vec<Vec<u8>>) -> Found {
    let request = |name| Request { verb: Verb::Gets, name, value: Vec::new(), flags: 0, ttl: 0 };
    let requests = names.into_iter().map(request).collect::<Vec<_>>();
    let answers = client.call(&requests).map_err(|(_, error)| error)?;
    let hits = answers.into_iter().map(|answer| match answer {
        Answer::Hit(hit) => Ok(Seen::Hit(hit)),
        Answer::NotFound => Ok(Seen::Nothing),
        Answer::Refused(what) if !what.contains("large") => Ok(Seen::Refused),
        other => Err(format!("{other:?} to a get")),
    });
    Ok(hits.collect())
}

/// Checks a reply about a key against the values that may be read.
fn judge(field: &Field, history: &History, claim: Claim, seen: &Seen, counters: &mut Counters<'_>) {
    let warm = history.kind(claim.owner.key as usize) == Kind::Warm;
    match seen {
        Seen::Hit(hit) => judge_hit(field, history, claim, hit, counters),
        Seen::Refused => counters.one(REFUSED),
        Seen::Nothing => match history.missed(claim) {
            Missed::AsKnown => counters.one("misses as known"),
            Missed::Evicted if warm => counters.one("evicted: few short values"),
            Missed::Evicted => counters.one("evicted: others"),
        },
    }
}

/// Checks a value against what could be read.
pub(crate) fn judge_hit(
    field: &Field,
    history: &History,
    claim: Claim,
    hit: &Hit,
    counters: &mut Counters<'_>,
) {
    let warm = history.kind(claim.owner.key as usize) == Kind::Warm;
    counters.one(if warm { "hits of few short values" } else { "hits of others" });
    if let Err(what) = history.found(claim, &hit.value, hit.flags) {
        counters.one("wrong answers");
        field.fail(what);
    }
}
