//! Pools whose keys go to others while a server is out of service.

use super::*;

fn route(more: &str) -> String {
    let servers: Vec<_> = (0..4).map(|number| format!("\"e{number}:1\"")).collect();
    format!(
        r#"{{"type": "PoolRoute", "hash": "KetamaTwemproxy"{more},
            "pool": {{"name": "Ring", "servers": [{}], "auto_eject_hosts": true}}}}"#,
        servers.join(", ")
    )
}

/// The servers that have a key one after the other, when those before are out.
fn order(key: &str) -> Vec<String> {
    let mut router = Router::new(&route(""));
    let mut order = Vec::new();
    while order.len() < 4 {
        router.get(key);
        let last = router.sent().pop().expect("somebody is asked");
        let server = last.split(' ').next().unwrap().to_owned();
        if router.script.open.pop().is_none() {
            break;
        }
        router.refuse(&server, Outcome::Tko);
        order.push(server);
    }
    order
}

#[test]
fn only_a_server_that_is_out_is_passed_over() {
    let order = order("k");
    assert_eq!(order.len(), 4, "{order:?}");
    for failure in [Outcome::Timeout, Outcome::ConnectError, Outcome::RemoteError, Outcome::NotFound] {
        let mut router = Router::new(&route(""));
        let ticket = router.request(Op::Set, "k");
        router.signed(&order[0], failure);
        assert_eq!(router.by(ticket), Some((failure, order[0].clone())), "the client is told");
        assert_eq!(router.sent().len(), 1);
        router.end();
    }
    let mut router = Router::new(&route(""));
    router.refuse(&order[0], Outcome::Tko);
    router.refuse(&order[1], Outcome::Tko);
    let ticket = router.request(Op::Set, "k");
    router.signed(&order[2], Outcome::Stored);
    assert_eq!(router.by(ticket), Some((Outcome::Stored, order[2].clone())));
    order.iter().for_each(|server| router.refuse(server, Outcome::Tko));
    let ticket = router.get("k");
    assert_eq!(router.outcome(ticket), Some(Outcome::Tko), "all are out");
    router.end();
}

#[test]
fn a_delete_goes_to_who_has_the_key_and_is_logged_for_who_will_have_it() {
    let order = order("k");
    let logged = |router: &mut Router| {
        let servers: Vec<String> =
            router.sent().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        let logs = std::mem::take(&mut router.script.logs).into_iter().map(|log| log.is_some());
        servers.into_iter().zip(logs).collect::<Vec<_>>()
    };
    let at = |place: usize, is_logged: bool| (order[place].clone(), is_logged);
    // The log acknowledges the delete of the server that is out, or cannot: then the delete has failed, whatever the stand-in says.
    for (log, received) in [
        (Outcome::NotFound, (Outcome::Deleted, order[1].clone())),
        (Outcome::Tko, (Outcome::Tko, order[0].clone())),
    ] {
        let mut router = Router::new(&route(""));
        let ticket = router.request(Op::Delete, "k");
        router.reply(&order[0], Outcome::Tko);
        router.signed(&order[1], Outcome::Deleted);
        assert_eq!(router.outcome(ticket), None);
        router.signed(&order[0], log);
        assert_eq!(router.by(ticket), Some(received));
        assert_eq!(logged(&mut router), [at(0, false), at(1, false), at(0, true)]);
        router.end();
    }
    // One that fails otherwise is tried again, so that it is logged if it fails.
    let mut router = Router::new(&route(""));
    let ticket = router.request(Op::Delete, "k");
    router.reply(&order[0], Outcome::Timeout);
    assert_eq!(router.outcome(ticket), None);
    router.reply(&order[0], Outcome::NotFound);
    assert_eq!(router.outcome(ticket), Some(Outcome::NotFound));
    assert_eq!(logged(&mut router), [at(0, false), at(0, true)]);
    // Stand-ins that are out have theirs logged, too.
    let ticket = router.request(Op::Delete, "k");
    router.reply(&order[0], Outcome::Tko);
    router.reply(&order[1], Outcome::Tko);
    router.reply(&order[1], Outcome::NotFound);
    router.reply(&order[2], Outcome::NotFound);
    router.reply(&order[0], Outcome::NotFound);
    assert_eq!(router.outcome(ticket), Some(Outcome::NotFound));
    assert_eq!(logged(&mut router), [at(0, false), at(1, false), at(1, true), at(2, false), at(0, true)]);
    router.end();
    // Without a log there is nothing to try again for, and a stand-in acknowledges nothing.
    let mut router = Router::new(&route(r#", "asynclog": false"#));
    let ticket = router.request(Op::Delete, "k");
    router.reply(&order[0], Outcome::Timeout);
    assert_eq!(router.outcome(ticket), Some(Outcome::Timeout));
    router.refuse(&order[0], Outcome::Tko);
    let ticket = router.request(Op::Delete, "k");
    router.reply(&order[1], Outcome::Deleted);
    assert_eq!(router.outcome(ticket), Some(Outcome::Tko));
    router.end();
}

#[test]
fn a_hash_without_an_order_is_refused() {
    for hash in ["Ch3", "Modula", "Jump"] {
        let error = refusal(&route("").replace("KetamaTwemproxy", hash));
        assert!(error.contains("'auto_eject_hosts' needs a hash"), "{error}");
    }
    let warned = warnings(&route("").replace("\"auto", "\"server_failure_limit\": 2, \"auto"));
    assert!(warned.iter().any(|warning| warning.contains("--timeouts-until-tko")), "{warned:?}");
}
