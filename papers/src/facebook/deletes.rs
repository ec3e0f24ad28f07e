//! Deletes that delete something, when those of every changed row are broadcast to all clusters of a region.

use guira_client::text::{Connection, Target, TextError};
use guira_harness::deadline::Deadline;
use guira_harness::scratch::Scratch;
use guira_protocol::client::Reply;
use guira_protocol::word::reply;
use guira_regions::database::MariaDb;
use guira_regions::{Cluster, Member, Region, Settings, prepare};
use guira_workload::rng::Rng;
use guira_workload::zipf::Zipf;
use std::sync::Arc;
use std::time::Duration;

use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, answer, build, percent, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-deletes",
    claims: &["S10"],
    about: "The share of deletes that delete something when the deletes of all changes are broadcast to every cluster of a region (a model of users)",
    run,
};

const CLUSTERS: [usize; 4] = [1, 2, 4, 8];
/// What a web request reads beside the user's own row.
const FRIENDS: usize = 10;
/// How skewed the choice of a friend is.
const SKEW: f64 = 0.9;
/// Web requests for each one that changes the user's row.
const READS_OF_CHANGE: usize = 20;
/// How long deletes may take to arrive.
const ARRIVAL_MAX: Duration = Duration::from_secs(60);
/// A client of a node is patient.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The keys of a row: what it says, and two lists that are made of it. Web requests read the last for the user alone.
const KINDS: [&str; 3] = ["row", "friends", "settings"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changes {
    /// That of the user whose web request it is, which has just read it.
    OwnRow,
    /// Anybody's: by jobs, by what others do.
    AnyRow,
}

struct Found {
    whose: Changes,
    clusters: usize,
    changes: u64,
    deletes: u64,
    hits: u64,
    /// As the invalidator counts the router's answers.
    of_router: u64,
    hits_of_router: u64,
}

impl Found {
    fn share(&self) -> f64 {
        self.hits as f64 / self.deletes.max(1) as f64
    }
}

/// A cluster's users and the connection to its cache.
struct Web {
    cache: Connection,
}

impl Web {
    fn open(target: &Target) -> Result<Self, TextError> {
        Ok(Web { cache: Connection::open(target)? })
    }

    /// Asks the cache for these keys, and stores those that it does not have.
    fn read(&mut self, keys: &[String]) -> Result<(), TextError> {
        let gets: String = keys.iter().map(|key| format!("mg {key}\r\n")).collect();
        self.cache.send(gets.as_bytes())?;
        let mut sets = String::new();
        let mut missing = 0;
        for key in keys {
            if self.cache.reply()? == Reply::Line(reply::META_MISS) {
                sets += &format!("set {key} 0 0 100\r\n{}\r\n", "x".repeat(100));
                missing += 1;
            }
        }
        self.cache.send(sets.as_bytes())?;
        for _ in 0..missing {
            self.cache.line()?;
        }
        Ok(())
    }
}

/// The keys that a web request of a user reads.
fn keys(user: usize, friends: &Zipf, users: usize, random: &mut Rng) -> Vec<String> {
    let mut keys: Vec<String> = KINDS.iter().map(|kind| format!("{kind}:{user}")).collect();
    for _ in 0..FRIENDS {
        // Who is popular is anybody, of any cluster.
        let friend = (friends.draw(random) as usize).wrapping_mul(7919) % users;
        keys.push(format!("row:{friend}"));
    }
    keys
}

/// A router that broadcasts to nodes, each a cluster, and the invalidator before it.
fn region(context: &Context, database: &Arc<MariaDb>, scratch: &Scratch, clusters: usize) -> Region {
    let nodes: Vec<Member> = (0..clusters)
        .map(|node| Member::node(&context.guira, scratch.file(&format!("node-{node}")), &[]))
        .collect();
    let pool =
        |(number, node): (usize, &Member)| format!(r#""p{number}": {{"servers": ["{}"]}}"#, node.address());
    let pools: Vec<String> = nodes.iter().enumerate().map(pool).collect();
    let children: Vec<String> = (0..clusters).map(|number| format!(r#""PoolRoute|p{number}""#)).collect();
    let configuration = format!(
        r#"{{"pools": {{{}}}, "route": {{"type": "AllSyncRoute", "children": [{}]}}}}"#,
        pools.join(", "),
        children.join(", ")
    );
    let (socket, logged) = (scratch.file("router"), scratch.file("logged"));
    let cluster = Cluster::with_configuration(&context.guira, socket, nodes, &configuration, &logged, &[]);
    let settings = Settings {
        targets: "again-after-ms = 0".to_owned(),
        tables: format!(
            "[[template]]\ndatabase = \"shop\"\ntable = \"users\"\nkeys = [{}]",
            KINDS.map(|kind| format!("\"{kind}:{{id}}\"")).join(", ")
        ),
        ..Settings::default()
    };
    Region::start(&context.guira, Arc::clone(database), vec![cluster], None, &settings)
}

/// A run with so many users and requests.
fn measure(
    context: &Context,
    database: &Arc<MariaDb>,
    (users, requests): (usize, usize),
    whose: Changes,
    clusters: usize,
) -> Result<Found, Failure> {
    let scratch = Scratch::new();
    let region = region(context, database, &scratch, clusters);
    let targets = region.clusters[0].nodes().iter().map(|node| node.target(TIMEOUT));
    let webs: Result<Vec<Web>, TextError> = targets.map(|target| Web::open(&target)).collect();
    let (mut webs, mut random) = (webs.map_err(failed)?, Rng::new(context.seed));
    let friends = Zipf::new(users as u64, SKEW).map_err(failed)?;
    let mut session = database.session();
    let (mut changes, mut position) = (0, String::new());
    // In the first half the caches fill; deletes of the second are counted.
    let mut before = [0; 4];
    for request in 0..2 * requests {
        let user = random.below(users as u64) as usize;
        webs[user % clusters].read(&keys(user, &friends, users, &mut random)).map_err(failed)?;
        if request % READS_OF_CHANGE == 0 {
            let row = if whose == Changes::OwnRow { user } else { random.below(users as u64) as usize };
            position = session.row(&format!(
                "UPDATE shop.users SET changes = changes + 1 WHERE id = {row}; SELECT @@last_gtid"
            ));
            changes += u64::from(request >= requests);
        }
        if request + 1 == requests {
            arrive(&region, &position)?;
            before = counts(&region)?;
        }
    }
    arrive(&region, &position)?;
    let after = counts(&region)?;
    let [deletes, hits, of_router, hits_of_router] =
        [0, 1, 2, 3].map(|number| after[number] - before[number]);
    Ok(Found { whose, clusters, changes, deletes, hits, of_router, hits_of_router })
}

fn arrive(region: &Region, position: &str) -> Result<(), Failure> {
    let number = position
        .rsplit('-')
        .next()
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| failed("no GTID"))?;
    let arrived = || region.has_delivered_to(0, number).then_some(());
    Deadline::after(ARRIVAL_MAX).poll(arrived).ok_or_else(|| failed("deletes are missing"))
}

/// Deletes and those that have deleted something, of all nodes; and the same of the router.
fn counts(region: &Region) -> Result<[u64; 4], Failure> {
    let mut counts = [0; 4];
    for node in region.clusters[0].nodes() {
        let hits = node.stat("delete_hits").map_err(failed)?;
        counts[0] += hits + node.stat("delete_misses").map_err(failed)?;
        counts[1] += hits;
    }
    for (place, name) in [(2, "guira_invalidator_deletes_total"), (3, "guira_invalidator_delete_hits_total")]
    {
        counts[place] = region.metric(name).ok_or_else(|| failed("the invalidator does not answer"))?;
    }
    Ok(counts)
}

fn row(found: &Found) -> Vec<String> {
    vec![
        match found.whose {
            Changes::OwnRow => "the own row, just read",
            Changes::AnyRow => "anybody's row",
        }
        .to_owned(),
        found.clusters.to_string(),
        found.changes.to_string(),
        found.deletes.to_string(),
        found.hits.to_string(),
        format!("{} %", percent(found.share())),
        format!("{} of {}", found.hits_of_router, found.of_router),
    ]
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let sizes @ (users, requests) = context.scale.pick((200_000, 30_000), (500, 1000));
    let database = MariaDb::start().map(Arc::new);
    let database =
        database.ok_or_else(|| failed("MariaDB is not installed: apt-get install mariadb-server"))?;
    let rows: Vec<String> = (0..users).map(|user| format!("({user}, 0)")).collect();
    prepare(
        &database,
        &format!(
            "CREATE DATABASE shop; CREATE TABLE shop.users (id INT PRIMARY KEY, changes INT); INSERT INTO shop.users VALUES {}",
            rows.join(",")
        ),
    );
    let found = |whose| {
        let of = |clusters: &usize| measure(context, &database, sizes, whose, *clusters);
        CLUSTERS.iter().map(of).collect::<Result<Vec<Found>, Failure>>()
    };
    let (own, any) = (found(Changes::OwnRow)?, found(Changes::AnyRow)?);
    let [one_own, most_own] = [&own[0], &own[own.len() - 1]];
    let [one, most] = [&any[0], &any[any.len() - 1]];
    let falls = |all: &[Found]| all.windows(2).all(|pair| pair[1].share() < pair[0].share());
    Ok(Outcome {
        how: format!(
            "A model of users, with real caches. {users} users, each at home in one of the clusters of a region (a node each); a web request reads the user's row, \
             two keys made of it, and the rows of {FRIENDS} friends (Zipf {SKEW}) from its cluster's node, and stores what is not there. After each {READS_OF_CHANGE}th request \
             a row is changed in a MariaDB: that of the same user, or anybody's. That is three keys, which guira invalidate deletes by templates through one router, whose \
             AllSyncRoute broadcasts to all clusters. {requests} requests fill the caches, and as many are measured. Nothing expires or is evicted.{}",
            build()
        ),
        answers: vec![answer(
            "S10",
            format!(
                "deletes that delete something: {} clusters {} % if anybody's row is changed, {} % if it is that of a user who has just read it; one cluster {} and {} %",
                most.clusters,
                percent(most.share()),
                percent(most_own.share()),
                percent(one.share()),
                percent(one_own.share()),
            ),
            verdict(&[
                ("the share falls with clusters", falls(&own) && falls(&any)),
                ("it is below 10 % in the largest region, of anybody's rows", most.share() < 0.1),
            ]) + "How small it is depends on how many changed rows are in no cache.",
        )],
        tables: vec![table(
            "Deletes that were broadcast, as the nodes count them. In the last column are keys of which the router's answer, the worst of all clusters, says that something was \
             deleted: this is what the metric of the invalidator has.",
            &[
                "changed is",
                "clusters",
                "changed rows",
                "deletes",
                "that deleted something",
                "share",
                "of the router",
            ],
            own.iter().chain(&any).map(row).collect(),
        )],
        charts: Vec::new(),
    })
}
