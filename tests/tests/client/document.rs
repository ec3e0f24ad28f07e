//! What docs/guide/client.md says that is sent and answered.

use guira_tests::{Client, Server, Setup, skip};
use std::collections::HashMap;
use std::path::Path;

/// A conversation: what is sent and the lines of the answer, in turn.
type Talk = Vec<(String, Vec<String>)>;

/// The blocks of the document that are called so.
fn blocks(called: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/client.md");
    let text = std::fs::read_to_string(path).expect("the document is there");
    let blocks = text.split("```").skip(1).step_by(2);
    blocks.filter_map(|block| block.strip_prefix(called)?.strip_prefix('\n')).map(str::to_owned).collect()
}

/// The router's configuration that the document has, for a cache and a pool of markers.
pub(crate) fn router() -> String {
    let [json] = &blocks("json")[..] else { panic!("one configuration") };
    assert!(json.contains("10.0.0.1:11211") && json.contains("10.0.0.9:11211"), "{json}");
    json.replace("10.0.0.1:11211", "%0").replace("10.0.0.9:11211", "%1")
}

fn talk(block: &str) -> Talk {
    let mut talk = Talk::new();
    for line in block.lines() {
        match (line.strip_prefix("> "), line.strip_prefix('<')) {
            _ if line == ">" => talk.last_mut().expect("a line with a value is before it").0 += "\r\n",
            (Some(asked), _) => match talk.last_mut() {
                Some((request, answer)) if answer.is_empty() => *request += &format!("{asked}\r\n"),
                _ => talk.push((format!("{asked}\r\n"), Vec::new())),
            },
            (_, Some(answered)) => {
                let (_, answer) = talk.last_mut().expect("somebody asks first");
                answer.push(answered.trim_start().to_owned());
            }
            _ => panic!("neither sent nor answered: {line}"),
        }
    }
    talk
}

/// Numbers of a server, by those that stand in their place in the document.
#[derive(Default)]
struct Numbers(HashMap<String, String>);

impl Numbers {
    /// Notes the numbers of an answer.
    fn hear(&mut self, expected: &str, heard: &str) {
        for (place, (written, actual)) in expected.split(' ').zip(heard.split(' ')).enumerate() {
            let token = expected.starts_with("LVALUE ") && place == 2 && written != "1";
            let unique = expected.starts_with("VA ") && written.starts_with('c') && actual.starts_with('c');
            if token || unique {
                let digits = |word: &str| word.trim_start_matches('c').to_owned();
                self.0.insert(digits(written), digits(actual));
            }
        }
    }

    /// A line with the server's numbers in it.
    fn in_place(&self, line: &str) -> String {
        let numbered = |(place, word): (usize, &str)| {
            let (letter, digits) = match word.strip_prefix(['C', 'c']) {
                Some(digits) if place > 1 => (&word[..1], digits),
                _ if place == 2 && line.starts_with("l") | line.starts_with("LVALUE") => ("", word),
                _ => return word.to_owned(),
            };
            format!("{letter}{}", self.0.get(digits).map_or(digits, String::as_str))
        };
        line.split(' ').enumerate().map(numbered).collect::<Vec<_>>().join(" ")
    }
}

#[track_caller]
fn hold(client: &mut Client, talk: &Talk) {
    let mut numbers = Numbers::default();
    for (request, answer) in talk {
        let lines = request.split_inclusive("\r\n").map(|line| {
            let line = line.strip_suffix("\r\n").expect("each line has an end");
            numbers.in_place(line) + "\r\n"
        });
        client.send(lines.collect::<String>());
        for expected in answer {
            let heard = client.line();
            numbers.hear(expected, &heard);
            assert_eq!(heard, numbers.in_place(expected), "{request}");
        }
    }
}

#[test]
fn what_the_document_says_is_so() {
    let talks: Vec<Talk> = blocks("text").iter().map(|block| talk(block)).collect();
    let asks = |talk: &&Talk, verb: &str| talk[0].0.starts_with(verb);
    let hold_all = |server: &Server, which: &dyn Fn(&&Talk) -> bool| {
        let chosen: Vec<&Talk> = talks.iter().filter(|talk| which(talk)).collect();
        chosen.iter().for_each(|talk| {
            server.connect().ask("flush_all\r\n");
            hold(&mut server.connect(), talk);
        });
        chosen.len()
    };
    let is_probe = |talk: &&Talk| talk[0].0.contains("\r\nmn\r\n");
    let node = Setup::new().start_guira();
    let of_nodes = hold_all(&node, &|talk| asks(talk, "lease-get") && !is_probe(talk));
    let of_both = hold_all(&node, &|talk| !asks(talk, "lease-get"));
    let Some(memcached) = Setup::new().start_peer() else { return skip::say("memcached is not installed") };
    // memcached makes no list by an append before 1.6.19.
    let makes_list = |talk: &&Talk| talk.iter().any(|(request, _)| request.contains(" MA N"));
    let is_old = memcached.older_than_the_law().is_some();
    let of_meta = |talk: &&Talk| !(asks(talk, "lease-get") || is_old && makes_list(talk));
    assert_eq!(hold_all(&memcached, &of_meta), of_both - usize::from(is_old));
    let of_memcached = hold_all(&memcached, &is_probe);
    assert_eq!((of_nodes, of_memcached), (1, 1));
    assert_eq!(of_nodes + of_both + of_memcached, talks.len());
}
