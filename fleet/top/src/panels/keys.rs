//! The keys with the most requests.

use crate::block::{Align, Block};
use crate::node::Node;
use crate::reading::{Listing, Ranking, Subject, Window};
use crate::units::{bytes, count, or_unknown};

pub(crate) fn keys(node: &Node, listing: Listing) -> Block {
    let what = match listing.subject {
        Subject::Keys => "keys",
        Subject::Prefixes => "prefixes",
    };
    let by = match listing.ranking {
        Ranking::Requests => "requests",
        Ranking::Bytes => "bytes",
        Ranking::Misses => "misses",
    };
    let title = format!("top {what} by {by}");
    let columns = &[
        ("rank", Align::Right),
        ("per second", Align::Right),
        ("count", Align::Right),
        ("± up to", Align::Right),
        ("key", Align::Left),
    ];
    let block = Block::new(title.clone(), columns);
    let Some(reading) = node.last() else {
        return block.with_note(Some("waiting for the node".to_owned()));
    };
    let Some(received) = reading.keys.received() else {
        return block.with_note(reading.keys.note("its top keys"));
    };
    let seconds = received.seconds(listing.window);
    let window = match listing.window {
        Window::Minute => "in the last minute",
        Window::Total => "in all",
    };
    let window = seconds.map_or(window.to_owned(), |seconds| format!("{window} ({seconds} s)"));
    let sampling = received.sampling.filter(|one_in| *one_in > 1);
    let sampling = sampling.map_or(String::new(), |one_in| format!(", of one request in {one_in}"));
    let mut block = block.with_title(format!("{title} {window}{sampling}"));
    let write: fn(f64) -> String = if listing.ranking == Ranking::Bytes { bytes } else { count };
    let mut is_empty = true;
    for (rank, entry) in received.list(listing) {
        let rate = seconds.filter(|seconds| *seconds > 0).map(|seconds| entry.count as f64 / seconds as f64);
        block.row([
            rank.to_string(),
            or_unknown(rate, write),
            write(entry.count as f64),
            or_unknown(entry.error, |error| write(error as f64)),
            entry.key.clone(),
        ]);
        is_empty = false;
    }
    block.with_note(is_empty.then(|| "the list is empty".to_owned()))
}
