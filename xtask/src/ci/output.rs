//! Runs a program, shows what it prints, and keeps the last lines: what failed is repeated at the end, since a log is often cut to its last lines.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

const KEPT: usize = 80;

/// How long a process that the program left behind may hold its output open.
const PATIENCE: Duration = Duration::from_secs(5);

/// The last lines of a program.
type Lines = Arc<Mutex<VecDeque<String>>>;

/// Runs the program with its output shown here. Returns how it ended, and the last lines it printed.
pub(crate) fn run(command: &mut Command) -> io::Result<(ExitStatus, Vec<String>)> {
    let (reader, writer) = io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command keeps its ends of the pipe; they are closed, so that the output ends with the program.
    command.stdout(std::process::Stdio::inherit()).stderr(std::process::Stdio::inherit());
    let lines = Lines::default();
    let (ended, end) = mpsc::channel();
    let kept = Arc::clone(&lines);
    std::thread::spawn(move || {
        show(reader, &kept);
        // The other side may have stopped waiting.
        let _ = ended.send(());
    });
    let status = child.wait()?;
    let _ = end.recv_timeout(PATIENCE);
    let lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((status, lines.iter().cloned().collect()))
}

fn show(reader: PipeReader, lines: &Lines) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let mut out = io::stdout().lock();
        let _ = out.write_all(&line).and_then(|()| out.flush());
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT {
            lines.pop_front();
        }
        lines.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ci::tools::command;

    #[test]
    fn the_last_lines_of_both_streams_are_kept() {
        let text = "for i in $(seq 100); do echo out $i; done; echo err >&2; exit 3";
        let (status, lines) = run(&mut command(&["sh", "-c", text])).unwrap();
        assert_eq!(status.code(), Some(3));
        assert_eq!(lines.len(), KEPT);
        assert_eq!(lines.last().map(String::as_str), Some("err"));
        assert_eq!(lines[0], "out 22");
    }
}
