//! Those who read and write, and judge what they read.

use super::world::{Door, KEYS, ROWS, World, key, row_of};
use guira_client::lookaside::{Counters, Database, LookAside, Markers, Value, Wanted};
use guira_regions::database::Unanswered;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_tests::random::Random;
use std::time::Duration;

/// How long a user waits for a cache: longer than its router waits for a node.
const TIMEOUT: Duration = Duration::from_secs(4);
/// How long a marker lives whose change never comes.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) reads: AtomicU64,
    /// Those that were judged by what a writer was told.
    pub(super) strict: AtomicU64,
    /// Those that were older than something that had been committed.
    pub(super) older: AtomicU64,
    /// Milliseconds from a commit to the last read that was older.
    pub(super) oldest_ms: AtomicU64,
    pub(super) writes: AtomicU64,
    /// Writes and reads that the database did not answer.
    pub(super) unanswered: AtomicU64,
    pub(super) hits: AtomicU64,
}

pub(super) struct User<'w> {
    world: &'w World,
    cluster: usize,
    name: String,
    cache: LookAside,
    nearest: Door<'w>,
    master: Door<'w>,
    random: Random,
    writes: u64,
}

impl<'w> User<'w> {
    pub(super) fn new(world: &'w World, cluster: usize, number: usize) -> Self {
        let (region, entrance) = world.cluster(cluster);
        let mut cache = LookAside::new(entrance.target(TIMEOUT)).expiry(Duration::from_secs(3600));
        if let Some(markers) = &region.markers {
            cache = cache.in_replica_region(Markers::at(markers.target(TIMEOUT)).limit(LIMIT));
        }
        let seed = world.seed * 1000 + (cluster * 100 + number) as u64;
        User {
            world,
            cluster,
            name: format!("user{number}of{cluster}"),
            cache,
            nearest: Door::of(&region.database),
            master: Door::of(&world.regions[0].database),
            random: Random::new(seed),
            writes: 0,
        }
    }

    pub(super) fn live(mut self) {
        while self.world.is_used() {
            let rows = self.rows();
            match self.random.below(40) {
                0..2 => self.write(&rows[..1]),
                2 => self.write(&rows),
                3 => self.write_past_the_cache(rows[0]),
                _ => self.read(&rows),
            }
            std::thread::sleep(Duration::from_millis(self.random.below(15)));
        }
        self.world.sums.hits.fetch_add(self.cache.counters().hits, Ordering::Relaxed);
    }

    /// One row or several, different ones, most of them popular.
    fn rows(&mut self) -> Vec<usize> {
        let all = if self.random.once_in(8) { ROWS } else { KEYS };
        let number = self.random.pick(&[1, 1, 2, 5]);
        let mut rows: Vec<usize> = (0..number).map(|_| self.random.below(all as u64) as usize).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    fn statement(&mut self, rows: &[usize], comment: &str) -> (String, String) {
        self.writes += 1;
        let writer = format!("{}:{}", self.name, self.writes);
        let ids = rows.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let text = format!(
            "BEGIN; UPDATE {comment} shop.rows SET version = version + 1, writer = '{writer}' WHERE id IN ({ids}); \
             SELECT GROUP_CONCAT(version ORDER BY id) INTO @versions FROM shop.rows WHERE id IN ({ids}); COMMIT; SELECT @versions"
        );
        (text, writer)
    }

    fn write(&mut self, rows: &[usize]) {
        let keys: Vec<String> = rows.iter().map(|row| key(*row)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let sight = &self.world.sights[self.cluster];
        let (calm, before) = (sight.calm(), self.cache.counters());
        let cache = self.cache.clone();
        let mut writer = String::new();
        let written = cache.write_through_delete(&keys, |changed| {
            let (text, name) = self.statement(rows, &changed.comment());
            writer = name;
            let versions = self.master.row(&text)?;
            self.world.committed(rows, &versions, &writer)
        });
        let Ok(versions) = written else { return self.unanswered() };
        self.world.sums.writes.fetch_add(1, Ordering::Relaxed);
        let Counters { failed_deletes, unmarked_writes, .. } = self.cache.counters();
        let is_told = (failed_deletes, unmarked_writes) == (before.failed_deletes, before.unmarked_writes);
        let (region, cluster) = self.world.place(self.cluster);
        if let Some(calm) =
            calm.filter(|_| is_told && !self.world.regions[region].clusters[cluster].owes_deletes())
        {
            for (row, version) in rows.iter().zip(versions) {
                sight.confirmed(*row, version, calm);
            }
        }
    }

    /// As somebody who knows of no cache: only a template names its key.
    fn write_past_the_cache(&mut self, row: usize) {
        let (text, writer) = self.statement(&[row], "");
        match self.master.row(&text) {
            Ok(versions) => {
                let _ = self.world.committed(&[row], &versions, &writer);
                self.world.sums.writes.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => self.unanswered(),
        }
    }

    fn unanswered(&self) {
        self.world.sums.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&mut self, rows: &[usize]) {
        let keys: Vec<String> = rows.iter().map(|row| key(*row)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let (world, sight) = (self.world, &self.world.sights[self.cluster]);
        let least: Vec<_> = rows.iter().map(|row| sight.least(*row)).collect();
        let committed: Vec<_> = rows.iter().map(|row| world.history.newest(*row)).collect();
        let began = world.history.now();
        let mut how = Vec::new();
        let cache = self.cache.clone();
        let found = cache.get_many(&keys, |wanted: &[Wanted<'_>]| {
            let mut values = Vec::new();
            for wanted in wanted {
                let row = row_of(wanted.key);
                how.push((row, wanted.database));
                let door = match wanted.database {
                    Database::Nearest => &mut self.nearest,
                    Database::Master => &mut self.master,
                };
                let text = door.row(&format!(
                    "SELECT CONCAT(version, ' ', writer, ' ', id) FROM shop.rows WHERE id = {row}"
                ))?;
                let version = text.split(' ').next().and_then(|version| version.parse().ok());
                let version = version.ok_or_else(|| Unanswered::from(text.clone()))?;
                values.push(Some(Value::new(text).with_version(version)));
            }
            if self.random.once_in(20) {
                std::thread::sleep(Duration::from_millis(self.random.below(100)));
            }
            Ok::<_, Unanswered>(values)
        });
        let Ok(found) = found else { return self.unanswered() };
        world.sums.reads.fetch_add(rows.len() as u64, Ordering::Relaxed);
        for (place, row) in rows.iter().enumerate() {
            let data = found[place].as_ref().map(Value::data).unwrap_or_default();
            let data = String::from_utf8_lossy(data).into_owned();
            let seen = found[place].as_ref().and_then(Value::version).unwrap_or(0);
            let told = sight.still(least[place]);
            world.sums.strict.fetch_add(u64::from(told.is_some_and(|told| told > 0)), Ordering::Relaxed);
            let by = how.iter().find(|(asked, _)| asked == row);
            let what = || {
                let newer = world.history.newer(*row, seen);
                let newer = newer.map_or_else(String::new, |newer| newer.to_string());
                format!(
                    "{} of cluster {} has read {data:?} under {} at {began:?} ({by:?}, until {:?}); delivered {}, told {told:?}; the first newer one: {newer}",
                    self.name,
                    self.cluster,
                    keys[place],
                    world.history.now(),
                    least[place].delivered
                )
            };
            if data.rsplit(' ').next() != Some(&row.to_string()) {
                world.fail(format!("another one's row: {}", what()));
            }
            if seen < least[place].delivered {
                world.fail(format!("older than what was deleted: {}", what()));
            }
            if told.is_some_and(|told| seen < told) {
                world.fail(format!("older than what a writer was told: {}", what()));
            }
            if committed[place].as_ref().is_some_and(|newest| seen < newest.version) {
                let newer = world.history.newer(*row, seen).map_or(began, |commit| commit.at);
                let age = began.saturating_sub(newer).as_millis() as u64;
                world.sums.older.fetch_add(1, Ordering::Relaxed);
                world.sums.oldest_ms.fetch_max(age, Ordering::Relaxed);
            }
        }
    }
}
