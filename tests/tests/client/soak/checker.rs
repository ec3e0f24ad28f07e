//! `guira check` beside the users: each inconsistency that it tells of has to be one that had not been delivered yet.

use super::world::{World, row_of};
use guira_regions::Member;
use guira_regions::judge::lock;
use guira_tests::deadline::Deadline;
use guira_tests::server::guira;
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// When it looks. The replica lags by a second.
const DELAYS_MS: [u64; 3] = [1000, 3000, 15_000];
/// Of so many hints, one is looked after.
const SAMPLE: u32 = 5;
/// The checker keeps a hundred examples: with so many it is started anew.
const EXAMPLES_MAX: usize = 60;
/// How long samples may be under way.
const WAIT_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Found {
    /// Looks at the last delay at which all clusters were right, or had nothing.
    right: u64,
    /// Inconsistencies, which were judged.
    wrong: u64,
    /// Inconsistencies that the checker had no room to tell of.
    untold: u64,
    restarts: u64,
}

/// The checker, and what it has told.
pub(super) struct Checker {
    process: Member,
    /// The present one's share of what was found, and those of it that were judged.
    present: Mutex<(Found, HashSet<String>)>,
    former: Mutex<Found>,
}

impl Checker {
    pub(super) fn hints(folder: &Path) -> String {
        format!("unix:{}", folder.join("hints").display())
    }

    /// A checker of clusters at these places, by the database of the first region.
    pub(super) fn start(folder: &Path, database: &str, clusters: &[(&str, String)]) -> Self {
        let hints = Self::hints(folder);
        let (admin, password) = (folder.join("checker-admin"), folder.join("checker-password"));
        std::fs::write(&password, "secret\n").expect("a scratch folder can be written to");
        let mut text = format!(
            "listen = \"{hints}\"\nadmin = \"unix:{}\"\nsample = {SAMPLE}\ndelays-ms = {DELAYS_MS:?}\n\
             [database.mariadb]\naddress = \"{database}\"\ndatabase = \"shop\"\nuser = \"checker\"\npassword-file = {password:?}\n\
             [[check]]\nkey = \"row:{{name}}\"\n\
             query = \"SELECT CONCAT(version, ' ', writer, ' ', id), version FROM shop.rows WHERE name = {{name}}\"\n",
            admin.display()
        );
        for (name, address) in clusters {
            text += &format!("[[cluster]]\nname = \"{name}\"\naddress = \"{address}\"\n");
        }
        let file = folder.join("checker.toml");
        std::fs::write(&file, text).expect("a scratch folder can be written to");
        let process = Member::start(admin, move |_| {
            let mut command = guira(["check", "--config"]);
            command.arg(&file);
            command
        });
        Checker { process, present: Mutex::default(), former: Mutex::default() }
    }

    /// Judges what it tells until the world ends.
    pub(super) fn watch(&self, world: &World, began: Duration) {
        while !world.has_ended() {
            if let Some(fault) = self.process.fault() {
                world.fail(fault);
                return world.end();
            }
            if self.judge(world, began) >= EXAMPLES_MAX {
                self.start_anew();
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Waits until nothing is under way, and judges the rest.
    pub(super) fn finish(&self, world: &World, began: Duration) {
        let is_idle = || self.status().is_some_and(|status| status["under_way"] == 0).then_some(());
        if Deadline::after(WAIT_MAX).poll(is_idle).is_none() {
            world.fail("samples of the checker stay under way".to_owned());
        }
        self.judge(world, began);
        self.start_anew();
        let found = lock(&self.former);
        println!("the checker: {found:?}");
        if found.right == 0 {
            world.fail("the checker has judged nothing".to_owned());
        }
    }

    fn status(&self) -> Option<Value> {
        serde_json::from_str(&self.process.page("/status.json")?).ok()
    }

    fn judge(&self, world: &World, began: Duration) -> usize {
        let Some(status) = self.status() else { return 0 };
        let mut present = lock(&self.present);
        let examples = status["examples"].as_array().map(Vec::as_slice).unwrap_or_default();
        for example in examples {
            // One that goes on is another one at each delay.
            if present.1.insert(example.to_string()) {
                judge(world, began, example);
            }
        }
        let last = &status["delays"][DELAYS_MS.len() - 1]["all"];
        let count = |name: &str| last[name].as_u64().unwrap_or(0);
        present.0 = Found {
            right: count("consistent") + count("missing"),
            wrong: examples.len() as u64,
            untold: status["more_examples"].as_u64().unwrap_or(0),
            restarts: 1,
        };
        examples.len()
    }

    fn start_anew(&self) {
        self.process.kill();
        let (found, _) = std::mem::take(&mut *lock(&self.present));
        let mut former = lock(&self.former);
        former.right += found.right;
        former.wrong += found.wrong;
        former.untold += found.untold;
        former.restarts += found.restarts;
        self.process.start_again();
    }
}

/// Whether what a cluster had could be there still.
fn judge(world: &World, began: Duration, example: &Value) {
    let text = |name: &str| example[name].as_str().unwrap_or_default();
    let versions = ["cache", "truth"].map(|name| {
        let (_, rest) = text(name).rsplit_once("version ")?;
        rest.trim_end_matches(')').parse::<u64>().ok()
    });
    let cluster = world.names().iter().position(|name| *name == text("cluster"));
    let ([Some(cached), Some(_)], Some(cluster)) = (versions, cluster) else {
        return world.fail(format!("the checker tells of no row: {example}"));
    };
    // Seconds are cut off, so that the look was no sooner than this.
    let told = Duration::from_secs(example["told"].as_u64().unwrap_or(0));
    let seen = Duration::from_secs_f64(example["seen"][1].as_f64().unwrap_or(0.0));
    let time = (told + seen).saturating_sub(began);
    let delivered = world.sights[cluster].delivered_at(row_of(text("key")), time);
    if cached < delivered {
        world.fail(format!("the checker has found what was deleted: {delivered} was delivered, {example}"));
    }
}
