use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{SECOND, app, received};
use crate::app::{App, Panel, Step};
use crate::reading::{Ranking, Subject, Window};

fn press(app: &mut App, code: KeyCode) -> Step {
    app.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn letter(app: &mut App, letter: char) -> Step {
    press(app, KeyCode::Char(letter))
}

#[test]
fn panels_change_by_digit_and_tab_and_ask_for_what_they_show() {
    let mut one = app(1);
    assert_eq!((one.panel, letter(&mut one, '5'), one.panel), (Panel::Overview, Step::Read, Panel::Keys));
    assert_eq!((letter(&mut one, '6'), one.panel), (Step::Read, Panel::Servers));
    // There is no list of one node.
    assert_eq!((letter(&mut one, '7'), one.panel), (Step::Draw, Panel::Servers));
    assert_eq!((press(&mut one, KeyCode::Tab), one.panel), (Step::Read, Panel::Overview));
    assert_eq!((press(&mut one, KeyCode::BackTab), one.panel), (Step::Read, Panel::Servers));
    let mut two = app(2);
    assert_eq!(
        (two.panel, press(&mut two, KeyCode::Tab), two.panel),
        (Panel::Nodes, Step::Read, Panel::Overview)
    );
    assert_eq!(two.node().unwrap().name(), "a:1");
    letter(&mut two, 'n');
    assert_eq!(two.node().unwrap().name(), "b:1");
    letter(&mut two, 'n');
    letter(&mut two, 'N');
    assert_eq!(two.node().unwrap().name(), "b:1");
}

#[test]
fn a_pause_keeps_the_figures_and_help_takes_one_key() {
    let mut app = app(1);
    assert_eq!(letter(&mut app, 'p'), Step::Draw);
    app.update(0, Ok(received(20)), 20 * SECOND);
    assert_eq!(app.node().unwrap().last().unwrap().number("uptime"), Some(12));
    assert_eq!(letter(&mut app, 'p'), Step::Read);
    app.update(0, Ok(received(20)), 20 * SECOND);
    assert_eq!(app.node().unwrap().last().unwrap().number("uptime"), Some(20));
    letter(&mut app, '?');
    assert!(app.has_help);
    assert_eq!((letter(&mut app, '3'), app.has_help, app.panel), (Step::Draw, false, Panel::Overview));
    letter(&mut app, '?');
    assert_eq!(letter(&mut app, 'q'), Step::Quit);
    assert_eq!(app.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Step::Quit);
    assert_eq!(letter(&mut app, 'c'), Step::Draw);
}

#[test]
fn the_list_of_keys_is_chosen_and_scrolled() {
    let mut app = app(1);
    letter(&mut app, 's');
    letter(&mut app, 'w');
    letter(&mut app, 'x');
    let listing = app.listing;
    assert_eq!(
        (listing.ranking, listing.window, listing.subject),
        (Ranking::Bytes, Window::Total, Subject::Prefixes)
    );
    press(&mut app, KeyCode::Up);
    press(&mut app, KeyCode::PageDown);
    letter(&mut app, 'j');
    assert_eq!(app.scroll, 11);
    press(&mut app, KeyCode::Home);
    assert_eq!(app.scroll, 0);
}
