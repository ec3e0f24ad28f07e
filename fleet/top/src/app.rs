//! The state of the screen, and the effects of keys.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::node::Node;
use crate::reading::{Group, Listing, Ranking, Reading, Subject, Window};

/// By what top keys are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Requests,
    /// By bytes of replies and values.
    Bytes,
    Misses,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Panel {
    Overview,
    Commands,
    Classes,
    Connections,
    Keys,
    Servers,
    Nodes,
}

impl Panel {
    /// All, in the order of their digits.
    pub(crate) const ALL: [Self; 7] = [
        Self::Overview,
        Self::Commands,
        Self::Classes,
        Self::Connections,
        Self::Keys,
        Self::Servers,
        Self::Nodes,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Commands => "commands",
            Self::Classes => "classes",
            Self::Connections => "connections",
            Self::Keys => "keys",
            Self::Servers => "servers",
            Self::Nodes => "nodes",
        }
    }

    /// The groups to request. Lists of connections and classes may be long, so they are requested
    /// only while shown.
    pub(crate) const fn groups(self) -> &'static [Group] {
        match self {
            Self::Overview | Self::Commands | Self::Nodes => {
                &[Group::General, Group::Settings, Group::Latency]
            }
            Self::Classes => &[Group::General, Group::Settings, Group::Slabs, Group::Items],
            Self::Connections => &[Group::General, Group::Settings, Group::Connections],
            Self::Keys => &[Group::General, Group::Settings, Group::Keys],
            Self::Servers => &[Group::General, Group::Settings, Group::Servers],
        }
    }
}

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Draw,
    /// Read the statistics of the panel.
    Read,
    Quit,
}

#[derive(Debug)]
pub(crate) struct App {
    nodes: Vec<Node>,
    selected: usize,
    pub(crate) panel: Panel,
    pub(crate) scroll: usize,
    pub(crate) is_paused: bool,
    pub(crate) has_help: bool,
    pub(crate) listing: Listing,
    pub(crate) interval: Duration,
}

impl App {
    pub(crate) fn new(names: &[String], interval: Duration, sort: Sort) -> Self {
        let ranking = match sort {
            Sort::Requests => Ranking::Requests,
            Sort::Bytes => Ranking::Bytes,
            Sort::Misses => Ranking::Misses,
        };
        Self {
            nodes: names.iter().map(|name| Node::new(name)).collect(),
            selected: 0,
            panel: if names.len() > 1 { Panel::Nodes } else { Panel::Overview },
            scroll: 0,
            is_paused: false,
            has_help: false,
            listing: Listing { window: Window::Minute, subject: Subject::Keys, ranking },
            interval,
        }
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) const fn selected(&self) -> usize {
        self.selected
    }

    /// The node that the panels are about.
    pub(crate) fn node(&self) -> Option<&Node> {
        self.nodes.get(self.selected)
    }

    /// The panels that there are: with one node there is no list of nodes.
    pub(crate) fn panels(&self) -> &'static [Panel] {
        if self.nodes.len() > 1 { &Panel::ALL } else { &Panel::ALL[..Panel::ALL.len() - 1] }
    }

    /// Applies the outcome of reading node `index`. While the screen is paused, nothing changes.
    pub(crate) fn update(&mut self, index: usize, outcome: Result<Reading, String>, now: Duration) {
        if let (false, Some(node)) = (self.is_paused, self.nodes.get_mut(index)) {
            node.update(outcome, self.interval / 2, now);
        }
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> Step {
        if key.kind == KeyEventKind::Release {
            return Step::Draw;
        }
        let is_interrupt = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        if is_interrupt || key.code == KeyCode::Char('q') {
            return Step::Quit;
        }
        if self.has_help {
            self.has_help = false;
            return Step::Draw;
        }
        match key.code {
            KeyCode::Char('?' | 'h') => self.has_help = true,
            KeyCode::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                return if self.is_paused { Step::Draw } else { Step::Read };
            }
            KeyCode::Char(digit @ '1'..='9') => return self.show(digit as usize - '1' as usize),
            KeyCode::Tab | KeyCode::Right => return self.turn(1),
            KeyCode::BackTab | KeyCode::Left => return self.turn(self.panels().len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(10),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Home => self.scroll = 0,
            KeyCode::Char('n') => self.select(1),
            KeyCode::Char('N') => self.select(self.nodes.len() - 1),
            KeyCode::Char('s') => {
                self.listing.ranking = match self.listing.ranking {
                    Ranking::Requests => Ranking::Bytes,
                    Ranking::Bytes => Ranking::Misses,
                    Ranking::Misses => Ranking::Requests,
                }
            }
            KeyCode::Char('w') => {
                self.listing.window = match self.listing.window {
                    Window::Minute => Window::Total,
                    Window::Total => Window::Minute,
                }
            }
            KeyCode::Char('x') => {
                self.listing.subject = match self.listing.subject {
                    Subject::Keys => Subject::Prefixes,
                    Subject::Prefixes => Subject::Keys,
                }
            }
            _ => {}
        }
        Step::Draw
    }

    fn show(&mut self, place: usize) -> Step {
        let Some(panel) = self.panels().get(place) else { return Step::Draw };
        self.panel = *panel;
        self.scroll = 0;
        Step::Read
    }

    fn turn(&mut self, by: usize) -> Step {
        let place = self.panels().iter().position(|panel| *panel == self.panel).unwrap_or(0);
        self.show((place + by) % self.panels().len())
    }

    fn select(&mut self, by: usize) {
        self.selected = (self.selected + by) % self.nodes.len().max(1);
        self.scroll = 0;
    }
}
