//! The filter in a process: this program is restricted for the rest of its life, so it has one test.

use guira_sandbox::{SystemCalls, is_restricted, refused, report};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;

fn status_lines(name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let line = |task: io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        status.lines().find_map(|line| line.strip_prefix(name).map(|value| value.trim().to_owned())).unwrap()
    };
    tasks.map(line).collect()
}

#[test]
fn a_restricted_process_serves_and_starts_no_program() {
    let (sender, receiver) = channel();
    // A thread from before is restricted too.
    let earlier = thread::spawn(move || {
        receiver.recv().unwrap();
        Command::new("true").exec()
    });
    SystemCalls::Listed.restrict().unwrap();
    assert!(is_restricted());
    assert!(status_lines("Seccomp:").iter().all(|mode| mode == "2"));
    assert!(status_lines("NoNewPrivs:").iter().all(|value| value == "1"));

    // A new process fails where it is made, and no signal comes of it.
    let denied = io::ErrorKind::PermissionDenied;
    assert_eq!(Command::new("true").spawn().unwrap_err().kind(), denied);
    assert_eq!(refused(), 0);
    sender.send(()).unwrap();
    assert_eq!(earlier.join().unwrap().kind(), denied);
    assert_eq!(refused(), 1);
    let killed = kill_process(Pid::INIT, Signal::HUP);
    assert_eq!(killed, Err(Errno::PERM), "by its argument");
    let file = std::env::temp_dir().join("guira-sandbox-pipe");
    let made = mknodat(CWD, &file, FileType::Fifo, Mode::RUSR, 0);
    assert_eq!(made, Err(Errno::NOSYS), "a call without a row");
    assert_eq!(refused(), 3);
    report();

    // What servers do still works, on threads from before and after.
    thread::spawn(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        listener.set_nonblocking(true).unwrap();
        client.write_all(b"get key\r\n").unwrap();
        let file = std::env::temp_dir().join(format!("guira-sandbox-{}", std::process::id()));
        std::fs::write(&file, "bytes").unwrap();
        std::fs::remove_file(&file).unwrap();
    })
    .join()
    .unwrap();
    assert_eq!(refused(), 3);
    SystemCalls::Listed.restrict().unwrap();
}
