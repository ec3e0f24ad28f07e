//! Disks of the world: files after a kill, after a loss of power, and without room.

use crate::good;
use guira_world::disk::{self, Faults, File, FileExt, OpenOptionsExt, TryLockError, lose_power, set_faults};
use guira_world::net::set_host;
use guira_world::scheduler::{current_process, draw, kill, start};
use guira_world::thread::{sleep, yield_now};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

const SEEDS: u64 = 200;

fn host(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

/// The host of this task from now on.
fn on(last: u8) {
    set_host(current_process(), host(last));
}

#[test]
fn files_are_written_read_renamed_and_removed_as_the_system_does() {
    for seed in 0..SEEDS {
        good(seed, || {
            disk::create_dir_all("/a/b").unwrap();
            assert_eq!(disk::create_dir("/a/b").unwrap_err().kind(), ErrorKind::AlreadyExists);
            assert_eq!(disk::create_dir("/x/y").unwrap_err().kind(), ErrorKind::NotFound);
            disk::write("/a/b/one", "first").unwrap();
            let mut file = File::options().append(true).read(true).open("/a/b/one").unwrap();
            file.write_all(b", second").unwrap();
            file.seek(SeekFrom::Start(7)).unwrap();
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, "second");
            file.set_len(5).unwrap();
            assert_eq!(disk::read_to_string("/a/b/one").unwrap(), "first");
            let new = File::options().write(true).create_new(true).mode(0o600).open("/a/b/one");
            assert_eq!(new.unwrap_err().kind(), ErrorKind::AlreadyExists);
            disk::write("/a/two", "2").unwrap();
            disk::rename("/a/two", "/a/b/one").unwrap();
            assert_eq!(disk::read("/a/b/one").unwrap(), b"2");
            // The open file has no name any more, and its bytes.
            assert_eq!(file.metadata().unwrap().len(), 5);
            assert_eq!(disk::metadata("/a/two").unwrap_err().kind(), ErrorKind::NotFound);
            assert_eq!(disk::remove_dir("/a/b").unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
            disk::remove_dir_all("/a").unwrap();
            assert_eq!(disk::read_dir("/").unwrap().count(), 0);
        });
    }
}

#[test]
fn a_killed_process_loses_nothing_that_was_written_and_no_lock_stays() {
    for seed in 0..SEEDS {
        good(seed, || {
            let writer = start("writer", || {
                let mut file = File::create("/log").unwrap();
                file.try_lock().unwrap();
                for line in 0.. {
                    file.write_all(format!("{line:07}\n").as_bytes()).unwrap();
                }
            });
            while disk::metadata("/log").map_or(true, |file| file.len() < 100) {
                sleep(Duration::from_micros(10));
            }
            let other = File::options().append(true).open("/log").unwrap();
            assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
            kill(writer);
            other.try_lock().unwrap();
            let text = disk::read_to_string("/log").unwrap();
            for (line, found) in text.split('\n').enumerate() {
                assert!(format!("{line:07}").starts_with(found), "line {line} is {found:?}");
            }
        });
    }
}

#[test]
fn a_loss_of_power_keeps_what_was_synced_and_may_keep_a_part_of_the_rest() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let found = good(seed, || {
            let writer = start("writer", || {
                on(1);
                let file = File::create("/log").unwrap();
                file.write_all_at(b"synced", 0).unwrap();
                file.sync_all().unwrap();
                File::open("/").unwrap().sync_all().unwrap();
                file.write_all_at(b", lost", 6).unwrap();
                disk::write("/unsynced", "").unwrap();
                on(2);
                disk::write("/other host", "").unwrap();
                disk::write("/done", "").unwrap();
                loop {
                    yield_now();
                }
            });
            on(2);
            while disk::metadata("/done").is_err() {
                sleep(Duration::from_micros(10));
            }
            kill(writer);
            lose_power(host(1));
            assert!(disk::metadata("/other host").is_ok());
            on(1);
            let text = disk::read("/log").unwrap();
            assert!(text.starts_with(b"synced"), "{text:?}");
            (text.len(), disk::metadata("/unsynced").is_ok())
        });
        seen.insert(found);
    }
    let lengths: BTreeSet<usize> = seen.iter().map(|(length, _)| *length).collect();
    assert!(lengths.contains(&6) && lengths.contains(&12) && lengths.len() > 2, "{lengths:?}");
    assert!(seen.iter().any(|(_, is_there)| *is_there) && seen.iter().any(|(_, is_there)| !is_there));
}

#[test]
fn a_renamed_file_is_the_new_one_after_a_sync_of_its_folder_and_the_new_or_the_old_before() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let found = good(seed, || {
            on(1);
            let synced = |path: &str, text: &[u8]| {
                let mut file = File::create(path).unwrap();
                file.write_all(text).unwrap();
                file.sync_all().unwrap();
            };
            let sync_folder = || File::open("/").unwrap().sync_all().unwrap();
            synced("/file", b"old");
            sync_folder();
            synced("/new", b"new");
            disk::rename("/new", "/file").unwrap();
            let is_synced = draw(2) == 0;
            if is_synced {
                sync_folder();
            }
            lose_power(host(1));
            (is_synced, disk::read_to_string("/file").unwrap())
        });
        seen.insert(found);
    }
    let known =
        [(false, "new"), (false, "old"), (true, "new")].map(|(synced, text)| (synced, text.to_owned()));
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), known);
}

#[test]
fn a_later_sync_does_not_store_the_changes_of_a_sync_that_failed() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let found = good(seed, || {
            on(1);
            let file = File::create("/file").unwrap();
            File::open("/").unwrap().sync_all().unwrap();
            file.write_all_at(b"first", 0).unwrap();
            set_faults(host(1), Faults { errors: 1, ..Faults::default() });
            assert!(file.sync_all().is_err());
            set_faults(host(1), Faults::default());
            file.write_all_at(b"second", 5).unwrap();
            file.sync_all().unwrap();
            lose_power(host(1));
            disk::read_to_string("/file").unwrap()
        });
        assert!(found.ends_with("second"), "{found:?}");
        seen.insert(found);
    }
    assert!(seen.contains("firstsecond") && seen.contains("\0\0\0\0\0second"), "{seen:?}");
}

#[test]
fn a_full_disk_takes_what_there_is_room_for_and_errors_are_reported() {
    for seed in 0..SEEDS {
        good(seed, || {
            on(1);
            set_faults(host(1), Faults { room: 10, ..Faults::default() });
            let mut file = File::create("/file").unwrap();
            let error = file.write_all(b"twelve bytes").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StorageFull);
            assert_eq!(disk::read("/file").unwrap(), b"twelve byt");
            disk::write("/other", "x").unwrap_err();
            file.set_len(3).unwrap();
            disk::write("/other", "7 bytes").unwrap();
            drop(file);
            disk::remove_file("/file").unwrap();
            disk::write("/third", "123").unwrap();
            set_faults(host(1), Faults { errors: 1, ..Faults::default() });
            assert!(disk::write("/third", "x").is_err());
            assert!(File::open("/third").unwrap().sync_all().is_err());
            assert!(disk::metadata(Path::new("/proc/self/stat")).is_err());
        });
    }
}
