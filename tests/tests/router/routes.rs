//! Replies that wait for others come as their server has sent them, in each dialect.

use crate::{Router, name};
use guira_tests::Server;

/// A router that asks both servers and tells what the worse one has answered.
fn both() -> (Router, [Server; 2]) {
    let nodes = [Server::start(), Server::start()];
    let config = format!(
        r#"{{
            "pools": {{"A": {{"servers": ["{}"]}}, "B": {{"servers": ["{}"]}}}},
            "route": {{"type": "AllSyncRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}
        }}"#,
        name(&nodes[0]),
        name(&nodes[1])
    );
    (Router::start(&["--config-str", &config]), nodes)
}

#[test]
fn a_reply_that_was_kept_is_told_as_it_came() {
    let (router, nodes) = both();
    let mut client = router.connect();
    client.exchange("set key 5 0 7\r\nvalue 1\r\n", "STORED\r\n");
    client.exchange(
        "get key missing key\r\n",
        "VALUE key 5 7\r\nvalue 1\r\nVALUE key 5 7\r\nvalue 1\r\nEND\r\n",
    );
    client.exchange("mg key v f k Oopaque\r\nmn\r\n", "VA 7 f5 kkey Oopaque\r\nvalue 1\r\nMN\r\n");
    client.exchange("mg key f v\r\nmg missing v q\r\nmn\r\n", "VA 7 f5\r\nvalue 1\r\nMN\r\n");
    client.exchange("ma missing\r\nms number 2\r\n41\r\nma number v\r\n", "NF\r\nHD\r\nVA 2\r\n42\r\n");
    client.exchange("incr number 8\r\ntouch key 0\r\n", "50\r\nTOUCHED\r\n");
    // The worse of two answers is told, whichever comes first.
    nodes[0].connect().exchange("delete key\r\n", "DELETED\r\n");
    client.exchange("mg key v\r\nget key\r\nmd key\r\n", "EN\r\nEND\r\nNF\r\n");
    nodes[1].connect().exchange("get key\r\n", "END\r\n");
}

/// What servers have said to some is more than the router puts into one outbox, when others ask.
#[test]
fn many_long_replies_at_once_keep_nobody_from_asking() {
    const KEYS: usize = 100;
    let nodes: [Server; 4] = std::array::from_fn(|_| Server::start());
    let servers = nodes.iter().map(|node| format!("{:?}", name(node))).collect::<Vec<_>>().join(", ");
    let config = format!(r#"{{"pools": {{"A": {{"servers": [{servers}]}}}}, "route": "PoolRoute|A"}}"#);
    let router = Router::start(&["--num-proxies", "1", "--config-str", &config]);
    let value = "v".repeat(200);
    let mut client = router.connect();
    let keys: Vec<String> = (0..KEYS).map(|number| format!("key{number}")).collect();
    for key in &keys {
        client.exchange(format!("set {key} 0 0 200\r\n{value}\r\n"), "STORED\r\n");
    }
    let request = format!("get {}\r\n", keys.join(" "));
    let found = keys.iter().map(|key| format!("VALUE {key} 0 200\r\n{value}\r\n"));
    let reply = found.collect::<String>() + "END\r\n";
    std::thread::scope(|scope| {
        for _ in 0..16 {
            let (router, request, reply) = (&router, &request, &reply);
            scope.spawn(move || {
                let mut client = router.connect();
                for _ in 0..100 {
                    client.exchange(request, reply);
                }
            });
        }
    });
}
