//! A terminal of the test: a pseudo-terminal, and what is on its screen.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use guira_harness::deadline::Deadline;
use nix::pty::openpty;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::PATIENCE;

/// Characters in rows, which move as the few sequences say that the program sends.
#[derive(Debug, Default)]
struct Cells {
    rows: Vec<Vec<char>>,
    at: (usize, usize),
    sequence: Option<String>,
    /// All sequences that switch something on or off.
    switches: String,
}

impl Cells {
    fn put(&mut self, c: char) {
        if let Some(mut sequence) = self.sequence.take() {
            sequence.push(c);
            // `[` begins parameters, a letter ends them.
            match c.is_ascii_alphabetic() || (sequence.len() == 1 && c != '[') {
                true => self.obey(&sequence),
                false => self.sequence = Some(sequence),
            }
            return;
        }
        match c {
            '\x1b' => self.sequence = Some(String::new()),
            '\r' => self.at.1 = 0,
            '\n' => self.at.0 += 1,
            _ => {
                let (row, column) = self.at;
                if self.rows.len() <= row {
                    self.rows.resize(row + 1, Vec::new());
                }
                let line = &mut self.rows[row];
                if line.len() <= column {
                    line.resize(column + 1, ' ');
                }
                line[column] = c;
                self.at.1 += 1;
            }
        }
    }

    fn obey(&mut self, sequence: &str) {
        let parameters = sequence.trim_matches(|c: char| c == '[' || c.is_ascii_alphabetic());
        let mut numbers = parameters.split(';').map(|number| number.parse().unwrap_or(1_usize).max(1) - 1);
        match sequence.chars().last() {
            Some('H') => self.at = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)),
            Some('J') => self.rows.clear(),
            Some('h' | 'l') => self.switches.push_str(sequence),
            _ => {}
        }
    }

    fn text(&self) -> String {
        self.rows.iter().map(|row| row.iter().collect::<String>() + "\n").collect()
    }
}

/// A program on a terminal; it is killed when this is dropped.
pub(crate) struct Terminal {
    child: Child,
    keys: File,
    terminal: OwnedFd,
    cells: Arc<Mutex<Cells>>,
}

impl Terminal {
    /// Runs `command` on a terminal of this size.
    pub(crate) fn run(mut command: Command, columns: u16, rows: u16) -> Self {
        let pair = openpty(None, None).expect("a pseudo-terminal");
        let (master, terminal) = (pair.master, pair.slave);
        resize(&terminal, columns, rows);
        let end = || Stdio::from(terminal.try_clone().expect("a copy"));
        command.env("TERM", "xterm-256color").stdin(end()).stdout(end()).stderr(Stdio::null());
        let child = command.spawn().expect("the binary was built");
        let mut output = File::from(master);
        let keys = output.try_clone().expect("a copy");
        let cells = Arc::new(Mutex::new(Cells::default()));
        let drawn = Arc::clone(&cells);
        thread::spawn(move || {
            let (mut buffer, mut pending) = ([0; 4096], Vec::new());
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                pending.extend_from_slice(&buffer[..count]);
                // A character may arrive in two parts.
                let whole = match std::str::from_utf8(&pending) {
                    Ok(text) => text.len(),
                    Err(error) => error.valid_up_to(),
                };
                let mut cells = drawn.lock().unwrap_or_else(PoisonError::into_inner);
                String::from_utf8_lossy(&pending[..whole]).chars().for_each(|c| cells.put(c));
                pending.drain(..whole);
            }
        });
        Self { child, keys, terminal, cells }
    }

    /// Runs `command` on a terminal that goes away once something was written to it. Returns how the program ends.
    #[track_caller]
    pub(crate) fn run_and_hang_up(mut command: Command) -> ExitStatus {
        // No other child may have a copy of the master, or the terminal would stay.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("a pseudo-terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name").into_string().expect("ASCII");
        let terminal =
            OwnedFd::from(File::options().read(true).write(true).open(name).expect("the other end"));
        resize(&terminal, 80, 24);
        let end = || Stdio::from(terminal.try_clone().expect("a copy"));
        command.env("TERM", "xterm-256color").stdin(end()).stdout(end()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary was built");
        drop(command);
        drop(terminal);
        let mut output = File::from(master);
        assert!(output.read(&mut [0; 64]).is_ok_and(|count| count > 0), "it draws something");
        drop(output);
        let ended = Deadline::after(PATIENCE).poll(|| child.try_wait().expect("a child"));
        ended.unwrap_or_else(|| {
            child.kill().expect("it runs");
            panic!("it goes on without a terminal")
        })
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("a terminal takes keys");
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        resize(&self.terminal, columns, rows);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    pub(crate) fn screen(&self) -> String {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner).text()
    }

    /// Waits until the screen is as `condition` says.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, what: &str, condition: impl Fn(&str) -> bool) {
        let found = Deadline::after(PATIENCE).poll(|| condition(&self.screen()).then_some(()));
        let status = self.child.try_wait();
        assert!(found.is_some(), "no {what}; {status:?}; the screen:\n{}", self.screen());
    }

    /// Waits until the screen shows `text`.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |screen| screen.contains(text));
    }

    /// Waits for the end of the program.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let ended = Deadline::after(PATIENCE).poll(|| self.child.try_wait().expect("a child"));
        ended.unwrap_or_else(|| panic!("it does not end; the screen:\n{}", self.screen()))
    }

    /// Waits until the terminal is as it was: lines, echo, the cursor, and the screen of before.
    pub(crate) fn wait_until_restored(&self) {
        let is_restored = || {
            let modes = tcgetattr(self.terminal.as_fd()).expect("a terminal").local_modes;
            let cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
            let is_last = |on: &str, off: &str| cells.switches.rfind(on) > cells.switches.rfind(off);
            let is_shown = is_last("[?1049l", "[?1049h") && is_last("[?25h", "[?25l");
            (modes.contains(LocalModes::ICANON | LocalModes::ECHO) && is_shown).then_some(())
        };
        let restored = Deadline::after(PATIENCE).poll(is_restored);
        assert!(restored.is_some(), "{:?}", self.cells);
    }

    /// Whether the program has taken the terminal over.
    pub(crate) fn is_taken_over(&self) -> bool {
        !tcgetattr(self.terminal.as_fd()).expect("a terminal").local_modes.contains(LocalModes::ICANON)
    }
}

fn resize(terminal: &OwnedFd, columns: u16, rows: u16) {
    let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("a size");
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
