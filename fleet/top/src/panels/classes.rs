//! Classes of chunks.

use crate::block::{Align, Block};
use crate::node::Node;
use crate::reading::ClassFigure;
use crate::units::{UNKNOWN, bytes, count, or_unknown, percent, span};

/// Memory by class: chunks, items, and what happens to them.
pub(crate) fn classes(node: &Node) -> Block {
    let columns = &[
        ("class", Align::Right),
        ("chunk", Align::Right),
        ("pages", Align::Right),
        ("items", Align::Right),
        ("bytes", Align::Right),
        ("used", Align::Right),
        ("hits/s", Align::Right),
        ("sets/s", Align::Right),
        ("evicted/s", Align::Right),
        ("age", Align::Right),
    ];
    let mut block = Block::new("classes", columns);
    let Some(reading) = node.last() else {
        return block.with_note(Some("waiting for the node".to_owned()));
    };
    let Some(classes) = reading.classes.received() else {
        return block.with_note(reading.classes.note("classes"));
    };
    for class in classes.numbers() {
        let of = |what| classes.of(class, what);
        let number = |what| or_unknown(of(what), |value| count(value as f64));
        let size = |what| or_unknown(of(what), |value| bytes(value as f64));
        let rate = |what| or_unknown(node.change().and_then(|change| change.of_class(class, what)), count);
        let used = match (of(ClassFigure::UsedChunks), of(ClassFigure::Chunks)) {
            (Some(used), Some(all)) if all > 0 => percent(used as f64 / all as f64),
            _ => UNKNOWN.to_owned(),
        };
        block.row([
            class.to_string(),
            or_unknown(of(ClassFigure::ChunkSize), |size| size.to_string()),
            number(ClassFigure::Pages),
            number(ClassFigure::Items),
            size(ClassFigure::ItemBytes),
            used,
            rate(ClassFigure::GetHits),
            rate(ClassFigure::Sets),
            rate(ClassFigure::Evicted),
            or_unknown(of(ClassFigure::Age), span),
        ]);
    }
    let is_empty = classes.numbers().next().is_none();
    block.with_note(is_empty.then(|| "no class has a page".to_owned()))
}
