//! The async client: many calls at once, on no runtime.

use crate::{builder, servers};
use guira_client::pools::{AsyncClient, Builder, Cas, ErrorKind, KeyProblem, Store};
use guira_tests::Setup;
use guira_tests::deadline::PATIENCE;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::park_timeout(PATIENCE);
    }
}

#[test]
fn many_calls_are_under_way_at_once_over_one_connection_to_each_server() {
    let servers = servers(&Setup::new());
    let client = AsyncClient::new(&builder(&servers)).unwrap();
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let client = client.clone();
            std::thread::spawn(move || {
                for round in 0..100 {
                    let key = format!("key{caller}");
                    let value = format!("{caller}:{round}").into_bytes();
                    let store = Store::new(key.as_bytes(), &value);
                    assert_eq!(block_on(client.set(&store)), Ok(true));
                    let found = block_on(client.get(key.as_bytes())).unwrap().unwrap();
                    assert_eq!(found.value, value);
                }
            })
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    assert_eq!(client.counters().opened, servers.len() as u64);
}

#[test]
fn every_command_has_a_future() {
    let servers = servers(&Setup::new());
    let client = AsyncClient::new(&builder(&servers)).unwrap();
    block_on(async {
        let store = Store::new(b"k", b"1").flags(3);
        assert_eq!(client.add(&store).await, Ok(true));
        assert_eq!(client.add(&store).await, Ok(false));
        assert_eq!(client.replace(&store).await, Ok(true));
        assert_eq!(client.append(b"k", b"2").await, Ok(true));
        assert_eq!(client.prepend(b"k", b"3").await, Ok(true));
        assert_eq!(client.incr(b"k", 2).await, Ok(Some(314)));
        assert_eq!(client.decr(b"k", 4).await, Ok(Some(310)));
        assert_eq!(client.touch(b"k", 100).await, Ok(true));
        let item = client.gat(b"k", 100).await.unwrap().unwrap();
        assert_eq!((item.value.as_slice(), item.flags, item.unique), (b"310".as_slice(), 3, None));
        let unique = client.gets(b"k").await.unwrap().unwrap().unique.unwrap();
        assert_eq!(client.cas(&store, unique).await, Ok(Cas::Stored));
        assert_eq!(client.cas(&store, unique).await, Ok(Cas::Changed));
        assert_eq!(
            client.get_many(&["k", "l"]).await.iter().filter(|one| matches!(one, Ok(Some(_)))).count(),
            1
        );
        assert!(client.gets_many(&["k"]).await.remove(0).unwrap().unwrap().unique.is_some());
        assert_eq!(
            client.delete_many(&["k", "l", "bad key"]).await,
            [Ok(true), Ok(false), Err(ErrorKind::BadKey(KeyProblem::Byte { byte: b' ', at: 3 }).into())]
        );
        assert_eq!(client.delete(b"k").await, Ok(false));
        assert_eq!(client.flush_all().await, Ok(()));
        assert!(client.get_many::<&str>(&[]).await.is_empty());
    });
}

#[test]
fn a_future_that_is_dropped_harms_no_other() {
    let servers = servers(&Setup::new());
    let client = AsyncClient::new(&builder(&servers)).unwrap();
    block_on(client.set(&Store::new(b"k", b"v"))).unwrap();
    let waker = Waker::noop();
    for _ in 0..100 {
        let mut dropped = Box::pin(client.get(b"another"));
        let _ = dropped.as_mut().poll(&mut Context::from_waker(waker));
    }
    assert_eq!(block_on(client.get(b"k")).unwrap().unwrap().value, b"v");
}

#[test]
fn nobody_waits_for_ever_for_servers_that_are_not_there() {
    let client = AsyncClient::new(&Builder::servers(&["127.0.0.1:1"]).timeout(PATIENCE)).unwrap();
    for _ in 0..3 {
        let error = block_on(client.get(b"k")).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Down), "{error}");
    }
}
