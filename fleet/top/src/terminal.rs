//! The terminal: taken over, drawn on, listened to, and given back.

use guira_sync::thread;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use guira_sync::clock::Stopwatch;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::Options;
use crate::app::{App, Step};
use crate::screen::draw;
use crate::watch::Watch;

/// How long is waited for a key before it is looked for updates, and whether the program is to end.
const PATIENCE: Duration = Duration::from_millis(100);

/// How often at least the screen is drawn, for the times that it shows.
const REDRAW: Duration = Duration::from_secs(1);

/// Why there is no screen.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// There is no terminal to draw on.
    #[error("standard input and output are not a terminal: use --once")]
    None,
    #[error("terminal error: {0}")]
    Io(#[from] io::Error),
}

/// Restores the terminal when the screen ends. After a panic ratatui's hook has done so before the
/// message was printed; a second time would move the cursor back, and overwrite the message.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        if !thread::panicking() {
            ratatui::restore();
        }
    }
}

/// Shows the screen until the user leaves, or `is_over`.
///
/// # Errors
/// When there is no terminal, or it fails.
pub fn run(options: &Options, is_over: impl FnMut() -> bool) -> Result<(), TerminalError> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(TerminalError::None);
    }
    let clock = Stopwatch::start();
    let names: Vec<String> = options.targets.iter().map(|target| target.endpoint().to_string()).collect();
    let app = App::new(&names, options.interval, options.sort);
    let watch = Watch::start(&options.targets, app.panel.groups(), options.interval, clock)?;
    let _restored = Restored;
    let terminal = ratatui::try_init()?;
    Ok(follow(terminal, app, &watch, clock, is_over)?)
}

fn follow(
    mut terminal: DefaultTerminal,
    mut app: App,
    watch: &Watch,
    clock: Stopwatch,
    mut is_over: impl FnMut() -> bool,
) -> io::Result<()> {
    let mut drawn: Option<Duration> = None;
    while !is_over() {
        let mut is_news = false;
        for update in watch.updates() {
            app.update(update.node, update.outcome, clock.elapsed());
            is_news = true;
        }
        let now = clock.elapsed();
        if is_news || drawn.is_none_or(|drawn| now - drawn >= REDRAW) {
            terminal.draw(|frame| draw(frame, &app, now))?;
            drawn = Some(now);
        }
        if wait_for_input()? == Input::Ended {
            return Ok(());
        }
        if !event::poll(Duration::ZERO)? {
            continue;
        }
        match event::read()? {
            Event::Key(key) => match app.key(key) {
                Step::Quit => return Ok(()),
                Step::Read => watch.request(app.panel.groups()),
                Step::Draw => {}
            },
            Event::Resize(..) | Event::FocusGained => {}
            Event::FocusLost | Event::Mouse(_) | Event::Paste(_) => continue,
        }
        drawn = None;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Open,
    Ended,
}

/// Waits for a key until the screen has to be redrawn. The loss of the terminal is detected here,
/// because crossterm would read its end again and again.
fn wait_for_input() -> io::Result<Input> {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(PATIENCE.subsec_nanos()) };
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let is_gone = polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
    Ok(if is_gone { Input::Ended } else { Input::Open })
}
