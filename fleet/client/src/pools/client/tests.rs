//! Calls of blocking clients before servers that are silent.

use super::*;
use crate::pools::AsyncClient;
use crate::pools::shared_window::UnderWay;
use guira_sync::clock::Stopwatch;
use guira_transport::net::TcpListener;

#[test]
fn a_server_has_all_of_its_time_for_what_it_is_asked_after_a_wait_for_the_window() {
    const TIMEOUT: Duration = Duration::from_millis(200);
    // Connections to it are made, and nothing is answered.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let client = Client::new(&Builder::servers(&[address]).timeout(TIMEOUT)).unwrap();
    let window = &client.shared.window;
    // Others have all places for longer than a server may take to answer.
    let (places, _) = window.take(u32::MAX, UnderWay::Nothing);
    let waited = guira_sync::thread::scope(|scope| {
        let call = scope.spawn(|| {
            assert_eq!(client.get(b"k").unwrap_err().kind(), &ErrorKind::Timeout);
            Stopwatch::start()
        });
        let since = Stopwatch::start();
        while client.counters().window_waits < 3 && since.elapsed() < Duration::from_secs(60) {
            guira_sync::thread::yield_now();
        }
        let freed = Stopwatch::start();
        window.leave(0, places);
        let ended = call.join().expect("it has failed");
        freed.elapsed() - ended.elapsed()
    });
    // Its deadline counts in whole milliseconds.
    assert!(waited + Duration::from_millis(2) >= TIMEOUT, "{waited:?}");
}

#[test]
fn a_timeout_may_be_longer_than_anybody_waits() {
    let builder = Builder::servers(&["127.0.0.1:1"]).timeout(Duration::MAX);
    let (client, futures) = (Client::new(&builder).unwrap(), AsyncClient::new(&builder).unwrap());
    assert!(client.get(b"k").is_err());
    drop(futures);
}

#[test]
fn who_reconfigures_a_client_hears_that_the_last_of_its_clones_is_gone() {
    let builder = Builder::servers(&["127.0.0.1:1"]);
    let other: Texts = r#"{"pools": {"a": {"servers": ["127.0.0.1:2"]}}, "route": "PoolRoute|a"}"#.into();
    let client = Client::new(&builder).unwrap();
    let handle = client.reload_handle();
    let clone = client.clone();
    assert!(clone.get(b"k").is_err(), "it has a session");
    drop(client);
    assert!(!handle.is_over() && matches!(handle.reconfigure(&other), Some(Ok(()))));
    assert_eq!(clone.counters().configurations, 1);
    drop(clone);
    assert!(handle.is_over() && handle.reconfigure(&other).is_none());
    let futures = AsyncClient::new(&builder).unwrap();
    let handle = futures.reload_handle();
    assert!(!handle.is_over() && matches!(handle.reconfigure(&other), Some(Ok(()))));
    drop(futures);
    // Its thread ends soon afterwards.
    let since = Stopwatch::start();
    while !handle.is_over() && since.elapsed() < Duration::from_secs(60) {
        guira_sync::thread::yield_now();
    }
    assert!(handle.is_over() && handle.reconfigure(&other).is_none());
}

#[test]
fn a_session_that_was_at_work_while_the_configuration_changed_goes_by_the_new_one_when_it_is_given_back() {
    let text = |port: u16| {
        format!(r#"{{"pools": {{"a": {{"servers": ["127.0.0.1:{port}"]}}}}, "route": "PoolRoute|a"}}"#)
    };
    let client = Client::from_config(&text(1)).unwrap();
    let lent = client.shared.lend().unwrap();
    client.reconfigure(&text(2).as_str().into()).unwrap();
    drop(lent);
    let plan = client.shared.in_use.plan();
    let sessions = client.shared.sessions();
    assert_eq!((sessions.open, sessions.idle.len()), (1, 1));
    assert!(sessions.idle[0].has(&plan));
}
