//! Drawing.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph, Sparkline};

use crate::app::{App, Panel};
use crate::block::{Block, cut};
use crate::node::{Link, Node};
use crate::panels;
use crate::units::{count, interval, span};

/// From this width on the overview has two columns.
const WIDE: u16 = 76;

const SPARK: u16 = 1;
/// Rows of both, with their names.
const SPARKS: u16 = 2 * (1 + SPARK);

/// Marks an interval without gets, which has no hit ratio, so that it differs from one without hits.
const NO_GETS: &str = "·";

/// The time beyond two intervals after which a node is shown as silent. A node that does not reply
/// at all is down after a few seconds.
const SILENT: Duration = Duration::from_secs(1);

const HELP: &[&str] = &[
    "q, ctrl-c   quit",
    "p, space    pause and resume",
    "1 to 7      panel, also with tab and the arrows",
    "up, down    scroll, also with j, k and the page keys",
    "n, N        next and previous node",
    "s           top keys by requests, bytes, misses",
    "w           top keys of the last minute, of all time",
    "x           top keys, top prefixes",
    "?           help; any key closes it",
];

/// Draws the screen as it is at `now`, since the program began.
pub(crate) fn draw(frame: &mut Frame<'_>, app: &App, now: Duration) {
    let rows = [Constraint::Length(1), Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)];
    let [top, tabs, body, footer] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(title(app, now)), top);
    frame.render_widget(Paragraph::new(tabs_line(app)), tabs);
    match app.panel {
        Panel::Overview => overview(frame, app, body),
        _ => list(frame, app, body),
    }
    let keys = format!(" q quit  p pause  1-{} tab panels  ? help", app.panels().len());
    let every = format!("every {} ", interval(app.interval));
    let gap = usize::from(footer.width).saturating_sub(keys.len() + every.len());
    frame.render_widget(Paragraph::new(format!("{keys}{}{every}", " ".repeat(gap))).reversed(), footer);
    if app.has_help {
        help(frame);
    }
}

/// The first line: which node, how it is, and what it is.
fn title(app: &App, now: Duration) -> Line<'static> {
    let Some(node) = app.node() else { return Line::default() };
    let mut spans = vec![Span::from(node.name().to_owned()).bold(), Span::from("  ")];
    if app.is_paused {
        spans.push(Span::from("PAUSED").black().on_yellow());
        spans.push(Span::from("  "));
    }
    match node.link() {
        Link::Connecting => spans.push(Span::from("connecting")),
        Link::Down { why, since } => {
            let time = span(now.saturating_sub(*since).as_secs());
            spans.push(Span::from(format!("DOWN for {time}: {why}")).bold().red());
        }
        Link::Up => {
            let Some(reading) = node.last() else { return Line::from(spans) };
            let age = now.saturating_sub(reading.at);
            if !app.is_paused && age >= app.interval * 2 + SILENT {
                spans.push(Span::from(format!("silent for {}  ", span(age.as_secs()))).yellow());
            }
            spans.push(Span::from(panels::header(reading)));
        }
    }
    Line::from(spans)
}

fn tabs_line(app: &App) -> Line<'static> {
    let tabs = app.panels().iter().zip(1..).flat_map(|(panel, digit)| {
        let name = Span::from(format!(" {digit} {} ", panel.name()));
        let is_shown = *panel == app.panel;
        [if is_shown { name.reversed() } else { name.fg(Color::Cyan) }, Span::from(" ")]
    });
    Line::from(tabs.collect::<Vec<_>>())
}

/// A table as lines of the screen.
fn lines(block: &Block, width: u16) -> Vec<Line<'static>> {
    let text = block.lines(usize::from(width));
    let title =
        Line::from(cut(&block.title, usize::from(width))).style(Style::new().add_modifier(Modifier::BOLD));
    let head = text.head.map(|head| Line::from(head).fg(Color::Cyan));
    let note = block.note.as_ref().map(|note| Line::from(cut(note, usize::from(width))).italic());
    let rows = text.rows.into_iter().map(Line::from);
    [title].into_iter().chain(head).chain(rows).chain(note).collect()
}

fn overview(frame: &mut Frame<'_>, app: &App, body: Rect) {
    let Some(node) = app.node() else { return };
    if body.width < WIDE {
        let blocks = [
            panels::rates(node),
            panels::ratio(node),
            panels::memory(node),
            panels::latency(node),
            panels::server(node),
        ];
        return scrolled(frame, app, &blocks, body);
    }
    let rates = lines(&panels::rates(node), body.width / 2);
    let ratio = lines(&panels::ratio(node), body.width / 4);
    let memory = lines(&panels::memory(node), body.width / 2 - 2);
    let height = |lines: &[Line<'_>]| u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let left_height = height(&rates);
    let hits_height = height(&ratio).max(SPARKS);
    let right_height = hits_height.saturating_add(height(&memory)).saturating_add(1);
    let upper = left_height.max(right_height);
    let [upper, _, lower] =
        Layout::vertical([Constraint::Length(upper), Constraint::Length(1), Constraint::Min(0)]).areas(body);
    let [left, right] = Layout::horizontal([Constraint::Ratio(1, 2), Constraint::Ratio(1, 2)]).areas(upper);
    frame.render_widget(Paragraph::new(rates), left);
    let parts = [Constraint::Length(hits_height), Constraint::Length(1), Constraint::Min(0)];
    let [hits, _, below] = Layout::vertical(parts).areas(right);
    let [figures, spark] = Layout::horizontal([Constraint::Length(22), Constraint::Min(0)]).areas(hits);
    frame.render_widget(Paragraph::new(ratio), figures);
    sparklines(frame, node, spark);
    frame.render_widget(Paragraph::new(memory), below);
    let [left, right] = Layout::horizontal([Constraint::Min(0), Constraint::Length(28)]).areas(lower);
    frame.render_widget(Paragraph::new(lines(&panels::latency(node), left.width.saturating_sub(2))), left);
    frame.render_widget(Paragraph::new(lines(&panels::server(node), right.width)), right);
}

/// Gets of the last intervals, and below them hit ratios, each under its name with what its height stands for.
fn sparklines(frame: &mut Frame<'_>, node: &Node, area: Rect) {
    let rows =
        [Constraint::Length(1), Constraint::Length(SPARK), Constraint::Length(1), Constraint::Length(SPARK)];
    let [gets_name, gets, ratio_name, ratio] = Layout::vertical(rows).areas(area);
    let points: Vec<_> = node.history(usize::from(area.width)).collect();
    let most = points.iter().map(|point| point.gets).fold(0.0, f64::max);
    let mut name = |text: String, place: Rect| {
        frame.render_widget(Paragraph::new(cut(&text, usize::from(place.width))).fg(Color::Cyan), place);
    };
    name(format!("gets/s, 0–{}", count(most)), gets_name);
    name("hit ratio, 0–100 %".to_owned(), ratio_name);
    let permille = |share: f64| (share * 1000.0) as u64;
    let spark = || Sparkline::default().max(1000).absent_value_symbol(NO_GETS).green();
    let heights = points.iter().map(|point| permille(if most > 0.0 { point.gets / most } else { 0.0 }));
    frame.render_widget(spark().data(heights), gets);
    let heights = points.iter().map(|point| point.hit_ratio.map(permille));
    frame.render_widget(spark().data(heights.collect::<Vec<_>>()), ratio);
}

/// A panel that is a list.
fn list(frame: &mut Frame<'_>, app: &App, body: Rect) {
    let Some(node) = app.node() else { return };
    let blocks = match app.panel {
        Panel::Overview => return,
        Panel::Commands => vec![panels::commands(node), panels::latency(node)],
        Panel::Classes => vec![panels::classes(node)],
        Panel::Connections => panels::connections(node),
        Panel::Keys => vec![panels::keys(node, app.listing)],
        Panel::Servers => vec![panels::servers(node)],
        Panel::Nodes => {
            let mut text = lines(&panels::nodes(app.nodes()), body.width);
            // Behind the title and the names of columns.
            if let Some(line) = text.get_mut(2 + app.selected()) {
                *line = std::mem::take(line).reversed();
            }
            return paragraph(frame, app, text, body);
        }
    };
    scrolled(frame, app, &blocks, body);
}

fn scrolled(frame: &mut Frame<'_>, app: &App, blocks: &[Block], body: Rect) {
    let mut text = Vec::new();
    for block in blocks {
        if !text.is_empty() {
            text.push(Line::default());
        }
        text.extend(lines(block, body.width));
    }
    paragraph(frame, app, text, body);
}

/// The text from where it is scrolled to; the last screen of it stays.
fn paragraph(frame: &mut Frame<'_>, app: &App, text: Vec<Line<'static>>, body: Rect) {
    let most = text.len().saturating_sub(usize::from(body.height));
    let shown: Vec<Line<'_>> = text.into_iter().skip(app.scroll.min(most)).collect();
    frame.render_widget(Paragraph::new(shown), body);
}

fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let width = area.width.min(58);
    let height = area.height.min(HELP.len() as u16 + 2);
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    let text: Vec<Line<'_>> = HELP.iter().map(|line| Line::from(*line)).collect();
    frame.render_widget(Clear, place);
    let frame_of = ratatui::widgets::Block::bordered().title(" help ");
    frame.render_widget(Paragraph::new(text).block(frame_of), place);
}
