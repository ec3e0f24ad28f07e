//! One pass over all files: delivers the deletes that can be delivered, for each server in the
//! order of the files.

use super::super::counts::{LogCount, LogCounts};
use super::super::entry::{Delete, Entry};
use super::super::names::{self, LogFile};
use super::budget::Budget;
use super::lines::{Content, HeldLog};
use super::links::{Delivery, Link};
use super::places::{Places, Stop};
use super::progress::{self, Progress, ProgressFile};
use super::report::{FileEnd, FileFate, FileReport, Left, LeftReason, ReplayReport};
use guira_routing::config::Address;
use guira_sync::clock::Stopwatch;
use guira_sync::simulated::sometimes;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayManner {
    Deliver,
    /// Nothing is sent, and nothing is changed.
    Pretend,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayTakes {
    /// Files without a writer.
    Finished,
    /// Also files that a running mcrouter might still write to.
    OfMcrouterToo,
}

/// Whether a replay continues after a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Continue,
    End,
}

/// Waits this long, or until the replay is to end.
pub(crate) type Wait<'a> = &'a mut dyn FnMut(Duration) -> Signal;

/// A folder that is replayed again and again.
#[derive(Debug)]
pub(crate) struct Replay {
    folder: PathBuf,
    places: Places,
    links: HashMap<Address, Link>,
    /// The deletes that are left of files that were read once, by file name. A file that cannot be
    /// removed has none left, so that it is not read again soon.
    known: HashMap<String, Rests>,
    /// Unreadable files by name, and the error of each. Every pass tries them again; each is logged
    /// once.
    troubled: HashMap<String, String>,
    budget: Budget,
    counts: Arc<LogCounts>,
    manner: ReplayManner,
    takes: ReplayTakes,
    is_tidy: bool,
    /// When the files that could not be removed were last tried again.
    forgiven_s: u64,
}

/// The destination of deletes that stay in order: a server in a pool. If the pool is gone, another
/// pool with this server may deliver them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Addressee {
    server: Address,
    pool: Option<Box<str>>,
}

/// The deletes that are left of a file.
type Rests = HashMap<Addressee, Rest>;

/// The deletes that are left for one destination.
#[derive(Clone, Debug)]
struct Rest {
    count: u64,
    reason: LeftReason,
}

impl Addressee {
    fn of(entry: &Entry) -> Self {
        Addressee { server: entry.server.clone(), pool: entry.pool.clone() }
    }

    /// The destination as a text of one line.
    fn label(&self) -> String {
        let pool = self.pool.as_deref().map(|pool| format!(" {pool}")).unwrap_or_default();
        format!("{}{pool}", self.server).escape_default().to_string()
    }
}

/// The state of one pass. A server that was skipped once is skipped in all later files, so that its
/// deletes stay in order.
#[derive(Debug, Default)]
struct Pass {
    ready: HashMap<Address, bool>,
}

#[derive(Debug)]
struct Due {
    entry: Entry,
    to: u64,
}

/// Deletes that are sent to one server together, each with its index among those that are due.
struct Load {
    server: Address,
    deletes: Vec<(usize, Delete)>,
}

struct Work {
    log: HeldLog,
    progress: Progress,
    rest: Rests,
    report: FileReport,
}

/// The most deletes that are sent before their replies are read.
const WINDOW: usize = 256;
/// How often unreadable files are tried again.
const FORGIVE_EVERY_S: u64 = 60;
/// How often the progress in a long file is saved.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// The result of a delete and all servers that it was sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    /// A server has refused it, and would refuse it again.
    Refused,
    Left(LeftReason),
}

impl Replay {
    pub(crate) fn new(
        folder: PathBuf,
        places: Places,
        rate: u32,
        counts: Arc<LogCounts>,
        manner: ReplayManner,
        takes: ReplayTakes,
    ) -> Self {
        Replay {
            folder,
            places,
            links: HashMap::new(),
            known: HashMap::new(),
            troubled: HashMap::new(),
            budget: Budget::new(rate),
            counts,
            manner,
            takes,
            is_tidy: manner == ReplayManner::Pretend,
            forgiven_s: 0,
        }
    }

    /// Uses another configuration for the destinations of deletes.
    pub(crate) fn replace(&mut self, places: Places) {
        self.places = places;
        self.links.values_mut().for_each(Link::forgive);
        self.forgive_files();
        for rest in self.known.values_mut().flat_map(HashMap::values_mut) {
            if rest.reason == LeftReason::Homeless {
                rest.reason = LeftReason::Down("the configuration has changed".to_owned());
            }
        }
    }

    /// Tries the files again that could not be removed: the disk may have been full.
    fn forgive_files(&mut self) {
        self.known.retain(|_, rests| !rests.is_empty());
    }

    /// Whether a pass would try to reach this server now.
    pub(crate) fn would_try(&self, server: &Address) -> bool {
        self.links.get(server).is_none_or(Link::is_ready) && self.places.is_up(server)
    }

    /// Whether a file that was read has deletes for a server that a pass would try to reach now.
    pub(crate) fn has_work(&self) -> bool {
        let mut rests = self.known.values().flatten();
        rests.any(|(whom, rest)| rest.reason != LeftReason::Homeless && self.would_try(&whom.server))
    }

    fn is_ready(&self, pass: &mut Pass, server: &Address) -> bool {
        if let Some(known) = pass.ready.get(server) {
            return *known;
        }
        let is_ready = self.would_try(server);
        pass.ready.insert(server.clone(), is_ready);
        is_ready
    }

    /// Replays the files. Calls `each_file` for each file that was read.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(crate) fn pass(
        &mut self,
        now: u64,
        wait: Wait<'_>,
        each_file: &mut dyn FnMut(&FileReport),
    ) -> io::Result<ReplayReport> {
        let files = names::list(&self.folder)?;
        let listed: Vec<String> = files.iter().map(LogFile::name).collect();
        self.known.retain(|name, _| listed.contains(name));
        self.troubled.retain(|name, _| listed.contains(name));
        if now.abs_diff(self.forgiven_s) >= FORGIVE_EVERY_S {
            self.forgive_files();
            self.forgiven_s = now;
        }
        if !self.is_tidy {
            progress::tidy(&self.folder, &listed);
            self.is_tidy = true;
        }
        let (mut pass, mut report) = (Pass::default(), ReplayReport::default());
        for (file, name) in files.iter().zip(&listed) {
            if wait(Duration::ZERO) == Signal::End {
                break;
            }
            if self.takes == ReplayTakes::Finished && !file.is_finished(now) {
                report.busy += 1;
                continue;
            }
            if let Some(rests) = self.known.get(name) {
                // `is_ready` is called for each server, so that servers which are skipped stay so.
                let homed = rests.iter().filter(|(_, rest)| rest.reason != LeftReason::Homeless);
                let ready = homed.filter(|(whom, _)| self.is_ready(&mut pass, &whom.server)).count();
                if ready == 0 {
                    report.left += rests.values().map(|rest| rest.count).sum::<u64>();
                    continue;
                }
            }
            match self.file(file, name, &mut pass, wait) {
                Ok(Some(done)) => {
                    self.troubled.remove(name);
                    report.add(&done);
                    each_file(&done);
                }
                Ok(None) => report.busy += 1,
                Err(error) => {
                    let why = error.to_string();
                    let previous = self.troubled.insert(name.clone(), why.clone());
                    let is_new = previous.is_none_or(|previous| previous != why);
                    let failed = FileReport { name: name.clone(), error: Some(why), ..FileReport::default() };
                    report.add(&failed);
                    if is_new {
                        each_file(&failed);
                    }
                }
            }
        }
        self.links.values_mut().for_each(Link::rest);
        self.count_left();
        Ok(report)
    }

    fn count_left(&self) {
        let (mut left, mut homeless) = (0, 0);
        for rest in self.known.values().flat_map(HashMap::values) {
            match rest.reason {
                LeftReason::Down(_) => left += rest.count,
                LeftReason::Homeless => homeless += rest.count,
            }
        }
        self.counts.set_left(left, homeless);
    }

    /// Replays a file. `None` if another process has locked it.
    fn file(
        &mut self,
        file: &LogFile,
        name: &str,
        pass: &mut Pass,
        wait: Wait<'_>,
    ) -> io::Result<Option<FileReport>> {
        let Some(log) = HeldLog::take(&file.path)? else { return Ok(None) };
        let kept = ProgressFile::new(&self.folder, name);
        let report = FileReport { name: name.to_owned(), ..FileReport::default() };
        let mut work = Work { log, progress: kept.load(), rest: HashMap::new(), report };
        let mut saved = Stopwatch::start();
        let mut signal = Signal::Continue;
        while signal == Signal::Continue {
            let most = self.budget.available().min(WINDOW);
            if most == 0 {
                signal = wait(self.budget.wait());
                continue;
            }
            let window = self.fill(&mut work, pass, most)?;
            if window.is_empty() {
                break;
            }
            self.budget.spend(window.len());
            self.deliver(&mut work, pass, window);
            if saved.elapsed() >= SAVE_EVERY {
                self.save(&kept, &mut work);
                saved = Stopwatch::start();
            }
            signal = wait(Duration::ZERO);
        }
        self.close(file, &kept, &mut work, signal);
        Ok(Some(work.report))
    }

    /// Reads up to `most` deletes that can be delivered; an empty result is the end of the file.
    fn fill(&self, work: &mut Work, pass: &mut Pass, most: usize) -> io::Result<Vec<Due>> {
        let mut window = Vec::new();
        while window.len() < most
            && let Some(line) = work.log.next()?
        {
            let is_new = line.from >= work.progress.read;
            work.progress.read = work.progress.read.max(line.to);
            let entry = match line.content {
                Content::Delete(entry) => entry,
                Content::Unreadable(reason) => {
                    if is_new {
                        work.progress.unreadable += 1;
                        work.report.unreadable.add(|| format!("at byte {}: {reason}", line.from));
                        self.counts.add(LogCount::Unreadable, 1);
                    }
                    continue;
                }
                Content::Torn => {
                    if is_new {
                        work.report.end = FileEnd::Torn;
                        self.counts.add(LogCount::Unreadable, 1);
                    }
                    continue;
                }
            };
            let whom = Addressee::of(&entry);
            if line.from < work.progress.of(&whom.label()) {
                continue;
            }
            if let Some(rest) = work.rest.get_mut(&whom) {
                rest.count += 1;
            } else if self.is_ready(pass, &entry.server) {
                window.push(Due { entry, to: line.to });
            } else {
                let reason = LeftReason::Down(self.reason(&entry.server));
                work.rest.insert(whom, Rest { count: 1, reason });
            }
        }
        Ok(window)
    }

    /// The reason that a server is skipped.
    fn reason(&self, server: &Address) -> String {
        let failed = self.links.get(server).filter(|link| !link.is_ready());
        failed.map_or("marked as failed".to_owned(), |link| link.reason.clone())
    }

    fn deliver(&mut self, work: &mut Work, pass: &mut Pass, window: Vec<Due>) {
        let mut fates = vec![Fate::Done; window.len()];
        let mut loads: Vec<Load> = Vec::new();
        for (number, due) in window.iter().enumerate() {
            let found: Vec<Stop> = self.places.find(&due.entry);
            if found.is_empty() {
                fates[number] = Fate::Left(LeftReason::Homeless);
            }
            for (server, delete) in found {
                match loads.iter_mut().find(|load| load.server == server) {
                    Some(load) => load.deletes.push((number, delete)),
                    None => loads.push(Load { server, deletes: vec![(number, delete)] }),
                }
            }
        }
        for Load { server, deletes } in loads {
            let (numbers, deletes): (Vec<usize>, Vec<Delete>) = deletes.into_iter().unzip();
            let deliveries = self.deliver_to(pass, &server, &deletes);
            for (number, delivery) in numbers.iter().zip(deliveries) {
                match delivery {
                    Delivery::Done => {}
                    Delivery::Refused(line) => {
                        work.report.refused.add(|| format!("{server}: {line}"));
                        self.counts.add(LogCount::Refused, 1);
                        if fates[*number] == Fate::Done {
                            fates[*number] = Fate::Refused;
                        }
                    }
                    Delivery::Failed => fates[*number] = Fate::Left(LeftReason::Down(self.reason(&server))),
                }
            }
        }
        for (due, fate) in window.into_iter().zip(fates) {
            self.settle(work, pass, due, fate);
        }
    }

    fn deliver_to(&mut self, pass: &mut Pass, server: &Address, deletes: &[Delete]) -> Vec<Delivery> {
        if !self.is_ready(pass, server) {
            return vec![Delivery::Failed; deletes.len()];
        }
        if self.manner == ReplayManner::Pretend {
            return vec![Delivery::Done; deletes.len()];
        }
        let link = self.links.entry(server.clone()).or_default();
        let deliveries = link.deliver(&self.places.target(server), deletes);
        if deliveries.contains(&Delivery::Failed) {
            self.counts.add(LogCount::Failures, 1);
            pass.ready.insert(server.clone(), false);
        }
        deliveries
    }

    fn settle(&mut self, work: &mut Work, pass: &mut Pass, due: Due, fate: Fate) {
        let Due { entry, to } = due;
        let whom = Addressee::of(&entry);
        if let Some(rest) = work.rest.get_mut(&whom) {
            // A delete behind a failed one was delivered, but is delivered again to keep the order.
            rest.count += 1;
            return;
        }
        match fate {
            Fate::Done => {
                work.progress.advance(&whom.label(), to);
                work.report.delivered += 1;
                if self.manner == ReplayManner::Deliver {
                    self.counts.add(LogCount::Delivered, 1);
                }
            }
            Fate::Refused => work.progress.advance(&whom.label(), to),
            Fate::Left(reason) => {
                if let LeftReason::Down(reason) = &reason {
                    let link = self.links.entry(entry.server.clone()).or_default();
                    // If another server has taken its place, this one has failed.
                    if link.is_ready() {
                        link.fail(reason.clone());
                    }
                    pass.ready.insert(entry.server, false);
                }
                work.rest.insert(whom, Rest { count: 1, reason });
            }
        }
    }

    fn save(&self, kept: &ProgressFile, work: &mut Work) {
        if self.manner == ReplayManner::Pretend {
            return;
        }
        if let Err(error) = kept.save(&work.progress) {
            work.report.error = Some(format!("cannot save the progress: {error}"));
        }
    }

    fn close(&mut self, file: &LogFile, kept: &ProgressFile, work: &mut Work, signal: Signal) {
        let left = work.rest.iter().map(|(whom, rest)| Left {
            server: whom.server.to_string(),
            count: rest.count,
            reason: rest.reason.clone(),
        });
        work.report.left = left.collect();
        work.report.left.sort_by(|one, other| one.server.cmp(&other.server));
        if signal == Signal::End || !work.rest.is_empty() {
            self.save(kept, work);
        } else if self.manner == ReplayManner::Deliver {
            match kept.finish(&file.path, &work.progress) {
                Ok(()) => {
                    work.report.fate = FileFate::Removed;
                    sometimes("logged-deletes-delivered");
                    self.counts.add(LogCount::FilesDone, 1);
                }
                Err(error) => work.report.error = Some(format!("cannot remove the file: {error}")),
            }
        }
        if signal == Signal::Continue {
            self.known.insert(work.report.name.clone(), std::mem::take(&mut work.rest));
        }
    }
}
