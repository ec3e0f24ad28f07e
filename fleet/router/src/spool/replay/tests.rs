//! Replays of files that the tests write, to servers that are threads.

use super::super::counts::{LogCount, LogCounts};
use super::super::entry::{Author, Delete, Entry, LogVersion};
use super::super::names;
use super::pass::{Replay, ReplayManner, ReplayTakes, Signal};
use super::places::{Configured, Places};
use super::report::{FileEnd, FileFate, FileReport, LeftReason, ReplayReport};
use crate::config::Loader;
use crate::options::RouterOptions;
use crate::plain_options::plain_options;
use crate::spool::replay::lines::HeldLog;
use guira_disk as disk;
use guira_routing::config::Address;
use guira_sync::atomic::{AtomicBool, AtomicU8, Ordering};
use guira_sync::lock::Mutex;
use guira_sync::thread::{self, JoinHandle};
use guira_transport::net::TcpListener;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const NOW: u64 = 1_800_000_000;

/// A server that accepts every delete, and records the keys.
struct Fake {
    address: Address,
    keys: Arc<Mutex<Vec<String>>>,
    refuses_all: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Fake {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let keys = Arc::<Mutex<Vec<String>>>::default();
        let refuses_all = Arc::<AtomicBool>::default();
        let connections = Arc::<Mutex<Vec<JoinHandle<()>>>>::default();
        let (kept, refuses, opened) = (keys.clone(), refuses_all.clone(), connections.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let (kept, refuses) = (kept.clone(), refuses.clone());
                let connection = thread::spawn(move || {
                    let mut out = stream.try_clone().unwrap();
                    for line in BufReader::new(stream).lines().map_while(Result::ok) {
                        let key = line.strip_prefix("delete ").expect("a delete").to_owned();
                        let reply: &[u8] = match refuses.load(Ordering::Relaxed) {
                            true => b"CLIENT_ERROR unauthenticated\r\n",
                            false if key.starts_with("bad") => b"CLIENT_ERROR bad\r\n",
                            false => b"DELETED\r\n",
                        };
                        kept.lock().push(key);
                        // The replay may close the connection after the first refusal.
                        if out.write_all(reply).is_err() {
                            return;
                        }
                    }
                });
                opened.lock().push(connection);
            }
        });
        Fake { address: Address::Tcp { host: "127.0.0.1".into(), port }, keys, refuses_all, connections }
    }

    /// Waits until the server has read everything from the connections, which its clients have closed.
    fn drain(&self) {
        let connections = std::mem::take(&mut *self.connections.lock());
        connections.into_iter().for_each(|connection| connection.join().unwrap());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.keys.lock())
    }
}

/// Another address at each call on which no process listens. A free port of 127.0.0.1 might be
/// given to the next server.
fn refusing_address() -> Address {
    static LAST: AtomicU8 = AtomicU8::new(0);
    let last = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    Address::Tcp { host: format!("127.1.1.{last}").into(), port: 21_211 }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("guira-router-replay-{name}-{}", std::process::id()));
        let _ = disk::remove_dir_all(&folder);
        disk::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    /// Writes a file of this router that was started at `since`.
    fn write(&self, since: u64, content: &[u8]) -> PathBuf {
        self.write_as(since, &names::Naming::new("s", "r").next(since, 1), content)
    }

    fn write_as(&self, since: u64, name: &str, content: &[u8]) -> PathBuf {
        let hour = self.0.join(names::folder_name(since));
        disk::create_dir_all(&hour).unwrap();
        let path = hour.join(name);
        disk::write(&path, content).unwrap();
        path
    }

    fn replay(&self, places: Places) -> Replay {
        self.replay_as(places, ReplayManner::Deliver, ReplayTakes::Finished)
    }

    fn replay_as(&self, places: Places, manner: ReplayManner, takes: ReplayTakes) -> Replay {
        Replay::new(self.0.clone(), places, 1_000_000, Arc::default(), manner, takes)
    }

    /// All files, without folders.
    fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        for folder in disk::read_dir(&self.0).unwrap() {
            // The file may be removed at the same time.
            for file in disk::read_dir(folder.unwrap().path()).into_iter().flatten() {
                let path = file.unwrap().path();
                files.push(path.strip_prefix(&self.0).unwrap().display().to_string());
            }
        }
        files.sort();
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = disk::remove_dir_all(&self.0);
    }
}

fn line_of(server: &Address, pool: Option<&str>, key: &str) -> Vec<u8> {
    let author = Author { service: "s".into(), router: "r".into(), region: "g".into() };
    let version = if pool.is_some() { LogVersion::Two } else { LogVersion::One };
    let delete = Delete::of(key.as_bytes());
    let entry = Entry { server: server.clone(), pool: pool.map(Into::into), delete };
    let mut line = Vec::new();
    entry.write(version, &author, NOW * 1000, &mut line);
    line
}

fn lines(server: &Address, keys: impl IntoIterator<Item = String>) -> Vec<u8> {
    keys.into_iter().flat_map(|key| line_of(server, None, &key)).collect()
}

fn keys(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{name}{number}")).collect()
}

fn as_logged() -> Places {
    Places::AsLogged { timeout: Duration::from_secs(20) }
}

fn pass(replay: &mut Replay) -> (ReplayReport, Vec<FileReport>) {
    pass_until(replay, usize::MAX)
}

/// A pass whose replay ends after this many waits.
fn pass_until(replay: &mut Replay, mut waits: usize) -> (ReplayReport, Vec<FileReport>) {
    let mut files = Vec::new();
    let mut wait = |_| {
        waits = waits.saturating_sub(1);
        if waits == 0 { Signal::End } else { Signal::Continue }
    };
    let report = replay.pass(NOW, &mut wait, &mut |file| files.push(file.clone())).unwrap();
    (report, files)
}

#[test]
fn all_files_are_delivered_in_order_and_removed() {
    let (folder, one, two) = (Folder::new("all"), Fake::start(), Fake::start());
    let mixed: Vec<u8> = (0..1000)
        .flat_map(|number| line_of(&[&one, &two][number % 2].address, None, &format!("m{number}")))
        .collect();
    folder.write(NOW - 10_000, &mixed);
    folder.write(NOW - 5000, &lines(&one.address, keys("late", 3)));
    folder.write(NOW - 4000, b"");
    let (report, files) = pass(&mut folder.replay(as_logged()));
    assert_eq!((report.files, report.removed, report.delivered, report.left), (3, 3, 1003, 0));
    assert!(report.is_complete() && files.iter().all(|file| file.fate == FileFate::Removed));
    let even: Vec<String> = (0..1000).step_by(2).map(|number| format!("m{number}")).collect();
    assert_eq!(one.take(), [even, keys("late", 3)].concat());
    assert_eq!(two.take(), (1..1000).step_by(2).map(|number| format!("m{number}")).collect::<Vec<_>>());
    assert!(folder.files().is_empty());
    assert!(!folder.0.join(names::folder_name(NOW - 5000)).exists(), "its folder is empty");
}

#[test]
fn what_a_server_is_not_there_for_is_kept_and_only_that_is_delivered_later() {
    let (folder, up, down) = (Folder::new("down"), Fake::start(), refusing_address());
    let content =
        [lines(&up.address, keys("a", 300)), lines(&down, keys("b", 5)), lines(&up.address, keys("c", 300))]
            .concat();
    let path = folder.write(NOW - 5000, &content);
    folder.write(NOW - 4000, &[lines(&down, keys("d", 2)), lines(&up.address, keys("e", 1))].concat());
    let counts = Arc::<LogCounts>::default();
    let (manner, takes) = (ReplayManner::Deliver, ReplayTakes::Finished);
    let mut replay = Replay::new(folder.0.clone(), as_logged(), 1_000_000, counts.clone(), manner, takes);
    let (report, files) = pass(&mut replay);
    assert_eq!((report.delivered, report.left, report.removed), (601, 7, 0));
    assert_eq!((counts.left(), counts.homeless()), (7, 0));
    assert_eq!((files[0].left[0].count, &files[0].left[0].server), (5, &down.to_string()));
    assert!(matches!(files[0].left[0].reason, LeftReason::Down(_)), "{files:?}");
    assert_eq!(up.take(), [keys("a", 300), keys("c", 300), keys("e", 1)].concat());
    // The server is skipped for a while, and so are its files.
    assert!(!replay.has_work() && !replay.would_try(&down));
    let (report, files) = pass(&mut replay);
    assert_eq!((report.left, files.len(), up.take().len(), counts.left()), (7, 0, 0, 7));
    // After a restart only the files in the folder are known.
    let (report, _) = pass(&mut folder.replay(as_logged()));
    assert_eq!((report.delivered, report.left, up.take().len()), (0, 7, 0));
    assert_eq!(disk::read(&path).unwrap(), content, "the file is as it was");
    let Address::Tcp { host, port } = down else { panic!("a port") };
    let listener = TcpListener::bind((&*host, port)).unwrap();
    let back = thread::spawn(move || {
        let mut reports = Vec::new();
        // A connection for each file would be one too many.
        let (stream, _) = listener.accept().unwrap();
        let mut out = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            reports.push(line);
            out.write_all(b"NOT_FOUND\r\n").unwrap();
        }
        reports
    });
    let (report, _) = pass(&mut folder.replay(as_logged()));
    assert_eq!((report.delivered, report.left, report.removed), (7, 0, 2));
    let expected: Vec<String> =
        [keys("b", 5), keys("d", 2)].concat().iter().map(|key| format!("delete {key}")).collect();
    assert_eq!(back.join().unwrap(), expected);
    assert!(folder.files().is_empty());
}

#[test]
fn a_replay_that_is_interrupted_goes_on_where_it_was() {
    let (folder, server) = (Folder::new("interrupted"), Fake::start());
    folder.write(NOW - 5000, &lines(&server.address, keys("k", 2000)));
    let mut reports = Vec::new();
    for round in 0.. {
        let (report, _) = pass_until(&mut folder.replay(as_logged()), 3);
        reports.extend(server.take());
        if report.removed > 0 {
            assert!(round > 1, "it was not interrupted");
            break;
        }
        assert_eq!(folder.files().len(), 2, "the file, and how far it was delivered");
    }
    assert_eq!(reports, keys("k", 2000));
    assert!(folder.files().is_empty());
}

#[test]
fn what_is_no_delete_is_skipped_and_kept_out_of_the_way() {
    let (folder, server) = (Folder::new("garbage"), Fake::start());
    let good = |name: &str| lines(&server.address, keys(name, 1));
    let torn = [good("a"), good("b")[..30].to_vec()].concat();
    folder.write(NOW - 5000, &torn);
    let garbage =
        [good("c"), b"garbage\n\n\xff\0\xff\n".to_vec(), vec![b'x'; 200_000], b"\n".to_vec(), good("d")]
            .concat();
    folder.write(NOW - 4000, &garbage);
    let mut replay = folder.replay(as_logged());
    let (report, files) = pass(&mut replay);
    assert_eq!(server.take(), ["a0", "c0", "d0"]);
    assert_eq!((files[0].end, files[0].unreadable.count, files[1].unreadable.count), (FileEnd::Torn, 0, 4));
    assert!(files[1].unreadable.first.starts_with("at byte "), "{files:?}");
    assert_eq!((report.removed, report.unreadable), (2, 4));
    let [kept] = &*folder.files() else { panic!("{:?}", folder.files()) };
    assert!(kept.starts_with(".replay/") && kept.ends_with(".unreadable"), "{kept}");
    assert_eq!(disk::read(folder.0.join(kept)).unwrap(), garbage);
    assert_eq!(pass(&mut replay).0.files, 0, "it is not replayed again");
}

#[test]
fn garbage_is_counted_once_however_often_its_file_is_read() {
    let (folder, down) = (Folder::new("once"), refusing_address());
    folder.write(NOW - 5000, &[b"garbage\n".to_vec(), lines(&down, keys("a", 1))].concat());
    let counts: Vec<u64> = (0..3).map(|_| pass(&mut folder.replay(as_logged())).0.unreadable).collect();
    assert_eq!(counts, [1, 0, 0]);
}

#[test]
fn a_delete_that_a_server_refuses_as_wrong_is_dropped_and_told() {
    let (folder, server) = (Folder::new("refused"), Fake::start());
    folder.write(NOW - 5000, &lines(&server.address, ["a".to_owned(), "bad".to_owned(), "b".to_owned()]));
    let (report, files) = pass(&mut folder.replay(as_logged()));
    assert_eq!((report.refused, report.removed), (1, 1));
    assert_eq!(server.take(), ["a", "bad", "b", "guira-router-asks", "bad"]);
    assert_eq!((report.delivered, files[0].delivered), (2, 2), "what was refused was not delivered");
    assert_eq!(files[0].refused.first, format!("{}: CLIENT_ERROR bad", server.address));
}

#[test]
fn deletes_are_kept_for_a_server_that_refuses_every_request() {
    let (folder, server) = (Folder::new("refuses"), Fake::start());
    folder.write(NOW - 5000, &lines(&server.address, keys("a", 3)));
    server.refuses_all.store(true, Ordering::Relaxed);
    let mut replay = folder.replay(as_logged());
    let (report, _) = pass(&mut replay);
    assert_eq!((report.delivered, report.refused, report.left, report.removed), (0, 0, 3, 0));
    replay.replace(as_logged());
    server.drain();
    server.take();
    server.refuses_all.store(false, Ordering::Relaxed);
    let (report, _) = pass(&mut replay);
    assert_eq!((report.delivered, report.removed), (3, 1));
    assert_eq!(server.take(), ["a0", "a1", "a2"]);
}

#[test]
fn a_file_that_cannot_be_read_is_told_of_once_and_tried_again() {
    let (folder, server) = (Folder::new("trouble"), Fake::start());
    let path = folder.write(NOW - 5000, b"");
    disk::remove_file(&path).unwrap();
    disk::create_dir(&path).unwrap();
    let mut replay = folder.replay(as_logged());
    let signal: Vec<_> = (0..3)
        .map(|_| pass(&mut replay))
        .map(|(report, files)| (report.is_complete(), files.len()))
        .collect();
    assert_eq!(signal, [(false, 1), (false, 0), (false, 0)]);
    disk::remove_dir(&path).unwrap();
    disk::write(&path, lines(&server.address, keys("a", 3))).unwrap();
    assert_eq!(pass(&mut replay).0.delivered, 3);
}

#[test]
fn a_file_that_somebody_has_is_left_alone() {
    let (folder, server) = (Folder::new("busy"), Fake::start());
    let path = folder.write(NOW - 5000, &lines(&server.address, keys("a", 3)));
    let held = HeldLog::take(&path).unwrap();
    let mut replay = folder.replay(as_logged());
    let (report, _) = pass(&mut replay);
    assert_eq!((report.busy, report.delivered, report.is_complete()), (1, 0, false));
    drop(held);
    assert_eq!(pass(&mut replay).0.delivered, 3);
}

#[test]
fn several_who_replay_a_folder_deliver_each_delete_once() {
    let (folder, server) = (Folder::new("several"), Fake::start());
    for file in 0..40 {
        folder.write(NOW - 5000 - file, &lines(&server.address, keys(&format!("f{file}-"), 50)));
    }
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut replay = folder.replay(as_logged());
                while !folder.files().iter().all(|file| file.starts_with('.')) {
                    pass(&mut replay);
                }
            });
        }
    });
    let mut reports = server.take();
    assert_eq!(reports.len(), 2000);
    reports.sort();
    reports.dedup();
    assert_eq!(reports.len(), 2000);
}

#[test]
fn nothing_is_changed_by_who_only_looks() {
    let (folder, server) = (Folder::new("pretend"), Fake::start());
    folder.write(NOW - 5000, &[lines(&server.address, keys("a", 3)), b"garbage\n".to_vec()].concat());
    let before = folder.files();
    let mut replay = folder.replay_as(as_logged(), ReplayManner::Pretend, ReplayTakes::Finished);
    let (report, files) = pass(&mut replay);
    assert_eq!((report.delivered, report.removed, report.unreadable), (3, 0, 1));
    assert_eq!((files[0].fate, server.take().len(), folder.files()), (FileFate::Kept, 0, before));
}

#[test]
fn a_file_that_mcrouter_may_write_to_is_left_alone_unless_it_has_ended() {
    let (folder, server) = (Folder::new("young"), Fake::start());
    folder.write_as(
        NOW - 900,
        "20270115T080000-1799999100-s-r-t1-0x7f00",
        &lines(&server.address, keys("a", 3)),
    );
    let (report, _) = pass(&mut folder.replay(as_logged()));
    assert_eq!((report.busy, report.delivered), (1, 0));
    let mut replay = folder.replay_as(as_logged(), ReplayManner::Deliver, ReplayTakes::OfMcrouterToo);
    assert_eq!(pass(&mut replay).0.delivered, 3);
}

/// A router with one pool of these servers.
fn options(servers: &[&Address]) -> RouterOptions {
    let list: Vec<String> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    let pools = format!(r#"{{"P": {{"servers": [{}]}}}}"#, list.join(", "));
    plain_options(format!(r#"{{"pools": {pools}, "route": "PoolRoute|P"}}"#), Duration::from_secs(20))
}

fn configured(servers: &[&Address]) -> Places {
    let options = options(servers);
    let plan = Arc::new(Loader::new(&options).load().unwrap());
    Places::Configured(Box::new(Configured::new(plan, &options.settings).unwrap()))
}

#[test]
fn a_server_that_is_gone_from_the_configuration_is_replaced_by_its_pool() {
    let (folder, server, gone) = (Folder::new("gone"), Fake::start(), refusing_address());
    let of = |pool, key| line_of(&gone, pool, key);
    folder.write(
        NOW - 5000,
        &[of(Some("P"), "a"), line_of(&server.address, None, "b"), of(Some("P"), "c")].concat(),
    );
    folder.write(NOW - 4000, &[of(Some("other"), "d"), of(Some("P"), "e")].concat());
    folder.write(NOW - 3000, &of(None, "f"));
    let counts = Arc::<LogCounts>::default();
    let (manner, takes) = (ReplayManner::Deliver, ReplayTakes::Finished);
    let places = configured(&[&server.address]);
    let mut replay = Replay::new(folder.0.clone(), places, 1_000_000, counts.clone(), manner, takes);
    let (report, files) = pass(&mut replay);
    assert_eq!((server.take(), report.removed), (["a", "b", "c", "e"].map(str::to_owned).to_vec(), 1));
    assert_eq!((files[1].left[0].count, &files[1].left[0].reason), (1, &LeftReason::Homeless));
    assert_eq!((counts.left(), counts.homeless()), (0, 2), "{files:?}");
    // The destination is checked again when the configuration changes.
    assert!(!replay.has_work());
    replay.replace(configured(&[&server.address, &refusing_address()]));
    assert!(replay.has_work());
    pass(&mut replay);
    assert_eq!((counts.homeless(), server.take().len()), (2, 0));
    let back = Fake::start();
    let content = [line_of(&back.address, Some("other"), "d"), line_of(&back.address, None, "g")].concat();
    folder.write(NOW - 2000, &content);
    replay.replace(configured(&[&server.address, &back.address]));
    pass(&mut replay);
    assert_eq!((back.take(), counts.get(LogCount::Delivered)), (vec!["d".to_owned(), "g".to_owned()], 6));
}

#[test]
fn what_is_delivered_by_a_pool_goes_to_the_server_that_the_pool_chooses() {
    let (folder, gone) = (Folder::new("pool"), refusing_address());
    let servers = [Fake::start(), Fake::start(), Fake::start()];
    let content: Vec<u8> = keys("k", 300).iter().flat_map(|key| line_of(&gone, Some("P"), key)).collect();
    folder.write(NOW - 5000, &content);
    let addresses = [&servers[0].address, &servers[1].address, &servers[2].address];
    let (report, _) = pass(&mut folder.replay(configured(&addresses)));
    assert_eq!((report.delivered, report.removed), (300, 1));
    let reports: Vec<Vec<String>> = servers.iter().map(Fake::take).collect();
    assert_eq!(reports.iter().map(Vec::len).sum::<usize>(), 300);
    assert!(
        reports.iter().all(|keys| keys.len() > 50),
        "{:?}",
        reports.iter().map(Vec::len).collect::<Vec<_>>()
    );
}
