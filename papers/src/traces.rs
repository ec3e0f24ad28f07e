//! The requests whose misses are counted: recorded traces, and workloads that are made up.

use std::convert::Infallible;
use std::fs::File;
use std::path::PathBuf;

use guira_sim::{Reading, Sample, Stream, Writes};
use guira_workload::Recipe;
use guira_workload::trace::{Format, Request, Trace};

use crate::experiment::failed;
use crate::experiment::{Context, Failure};

/// Every request is one that reads, as studies of miss ratios have it.
pub(crate) const ASKING: Reading = Reading { writes: Writes::Ask, sample: Sample::All, limit: u64::MAX };

#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    /// As it is called in tables.
    pub(crate) name: &'static str,
    /// What it is, and what it stands in for.
    pub(crate) about: &'static str,
    from: From,
}

#[derive(Debug, Clone, Copy)]
enum From {
    Kept(&'static str),
    /// A file in the folder of the traces that are not.
    File(&'static str),
    Made(&'static str),
}

impl Source {
    const fn file(name: &'static str, path: &'static str, about: &'static str) -> Self {
        Self { name, about, from: From::File(path) }
    }

    const fn made(name: &'static str, recipe: &'static str, about: &'static str) -> Self {
        Self { name, about, from: From::Made(recipe) }
    }

    /// Whether each run has requests of its own.
    pub(crate) const fn is_made(&self) -> bool {
        matches!(self.from, From::Made(_))
    }

    /// The requests of each run, at most `limit`: of a recorded trace there is one, whatever the runs. None for a file that is not there.
    pub(crate) fn read_all(&self, context: &Context, limit: u64) -> Result<Option<Vec<Stream>>, Failure> {
        let runs = if self.is_made() { context.runs } else { 1 };
        (0..runs).map(|run| self.read(context, limit, context.seed + u64::from(run))).collect()
    }

    /// Its requests, at most `limit`; those of a workload follow from `seed`. None for a file that is not there.
    pub(crate) fn read(&self, context: &Context, limit: u64, seed: u64) -> Result<Option<Stream>, Failure> {
        let path = match self.from {
            From::Made(recipe) => return made(recipe, limit, seed).map(Some),
            From::Kept(path) => PathBuf::from(path),
            From::File(path) => match &context.traces {
                Some(folder) => folder.join(path),
                None => return Ok(None),
            },
        };
        let file = File::open(&path).map_err(|source| Failure::File { path, source })?;
        let trace = Trace::new(file, None::<Format>).map_err(failed)?;
        Stream::read(trace, Reading { limit, ..ASKING }).map(Some).map_err(failed)
    }
}

fn made(text: &str, limit: u64, seed: u64) -> Result<Stream, Failure> {
    let mut recipe = recipe(text)?;
    recipe.seed = seed;
    recipe.requests = limit.min(recipe.requests);
    // Nothing expires: what is compared is who is evicted.
    let requests = recipe.requests().map(|request| request.map(|request| Request { ttl: 0, ..request }));
    Ok(infallible(Stream::read(requests, ASKING)))
}

/// The workload with such a recipe.
pub(crate) fn recipe(text: &str) -> Result<Recipe, Failure> {
    Recipe::parse(text, &|path| std::fs::read_to_string(path)).map_err(failed)
}

/// Reads of keys with these numbers.
pub(crate) fn numbered(ids: &[u32]) -> Stream {
    infallible(Stream::read(ids.iter().map(|&id| Ok(Request::number(u64::from(id)))), ASKING))
}

pub(crate) fn infallible<T>(result: Result<T, Infallible>) -> T {
    let Ok(made) = result;
    made
}

/// A shop's database objects: the trace that is in the repository.
pub(crate) const SHOP: Source = Source {
    name: "cache2k-orm-busy",
    about: "a shop's database objects",
    from: From::Kept("lab/workload/traces/cache2k-orm-busy.trace.zst"),
};
pub(crate) const OLTP: Source = Source::file("OLTP", "arc/OLTP.lis.zst", "a database (ARC paper)");
pub(crate) const PAGES: Source =
    Source::file("cache2k-web12", "caffeine/cache2k-web12.trace.zst", "a shop's product pages");
pub(crate) const DISK: Source = Source::file(
    "CloudPhysics",
    "libcachesim/cloudPhysicsIO.csv.zst",
    "a virtual machine's disk, in place of MSR's servers",
);
pub(crate) const ZIGZAG: Source = Source::file(
    "lirs-zigzag",
    "caffeine/lirs-zigzag.trace.zst",
    "to and fro over the same keys (LIRS paper), in place of IBM 029",
);
pub(crate) const LOOP: Source =
    Source::file("lirs-loop", "caffeine/lirs-loop.trace.zst", "one long loop (LIRS paper)");
pub(crate) const ZIPF: Source =
    Source::made("Zipf 0.99", "zipf:keys=100k,alpha=0.99,requests=2m", "Zipf's law");

pub(crate) const ALL: [Source; 15] = [
    SHOP,
    PAGES,
    OLTP,
    Source::file("P3", "arc/P3.lis.zst", "a workstation's disk (ARC paper), in place of MSR's servers"),
    DISK,
    Source::file("lirs-sprite", "caffeine/lirs-sprite.trace.zst", "a file server (LIRS paper)"),
    Source::file("lirs-multi3", "caffeine/lirs-multi3.trace.zst", "four programs at once (LIRS paper)"),
    ZIGZAG,
    LOOP,
    Source::made("Twitter 034", "twitter-034:requests=1m", "stand-in for Twitter's cluster 34"),
    Source::made("Twitter 026", "twitter-026:requests=1m", "stand-in for Twitter's cluster 26"),
    Source::made("Twitter 041", "twitter-041:requests=1m", "stand-in for Twitter's cluster 41"),
    Source::made("Zipf 0.5", "zipf:keys=100k,alpha=0.5,requests=1m", "Zipf's law"),
    Source::made("Zipf 1.0", "zipf:keys=100k,alpha=1.0,requests=1m", "Zipf's law"),
    Source::made("Zipf 1.2", "zipf:keys=100k,alpha=1.2,requests=1m", "Zipf's law"),
];

#[cfg(test)]
mod tests {
    use super::{ALL, recipe};
    use crate::traces::From;

    #[test]
    fn every_recipe_is_one() {
        for source in ALL {
            if let From::Made(text) = source.from {
                assert!(recipe(text).is_ok(), "{text}");
            }
        }
    }
}
