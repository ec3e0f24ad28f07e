//! Workers whose configuration changes, with servers in this process that each have an address of
//! their own.

use super::*;
use crate::config::{Loader, SharedPlan};
use crate::failures::{Failed, Failures};
use crate::no_pin::NoPin;
use crate::options::RouterOptions;
use crate::plain_options::plain_options;
use crate::render::Uniques;
use crate::running::host;
use crate::spool::named::log_to_a_channel;
use crate::upstream::ServerCount;
use guira_protocol::Noreply;
use guira_routing::{CountedPool, CountedPools};
use guira_serving::Outbox;
use guira_sync::clock::Stopwatch;
use guira_transport::net::{TcpListener, TcpStream};
use std::io::{Read, Write};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// All addresses of this host at one port: each is a server.
struct Servers {
    listener: TcpListener,
    open: Vec<TcpStream>,
}

impl Servers {
    fn start() -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Servers { listener, open: Vec::new() }
    }

    fn name(&self, server: u32) -> String {
        let port = self.listener.local_addr().unwrap().port();
        format!("127.1.{}.{}:{port}", server / 250, server % 250 + 1)
    }

    /// A configuration with a pool of these servers.
    fn pool(&self, servers: &[u32]) -> String {
        let names: Vec<String> = servers.iter().map(|server| format!("\"{}\"", self.name(*server))).collect();
        let names = names.join(", ");
        format!(r#"{{"pools": {{"P": {{"servers": [{names}]}}}}, "route": "PoolRoute|P"}}"#)
    }

    /// The next request on any connection, with its server and its connection.
    fn next_request(&mut self) -> Option<(String, String, TcpStream)> {
        self.open.extend(self.listener.incoming().map_while(Result::ok));
        let mut next = None;
        self.open.retain_mut(|stream| {
            stream.set_nonblocking(true).unwrap();
            let mut request = [0; 256];
            if next.is_some() {
                return true;
            }
            match stream.read(&mut request) {
                Ok(0) => false,
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&request[..bytes]).into_owned();
                    let server = stream.local_addr().unwrap().to_string();
                    next = Some((server, text, stream.try_clone().unwrap()));
                    true
                }
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            }
        });
        next
    }

    /// The number of connections that the router has not closed.
    fn connections(&mut self) -> usize {
        assert!(self.next_request().is_none(), "something is under way");
        self.open.len()
    }
}

struct Worker {
    walks: Walks<Ticket>,
    flow: Flow,
    poll: Poll,
}

impl Worker {
    fn new(index: usize, plan: &SharedPlan, shared: &Shared, log: Option<DeleteLog>) -> Self {
        let tree = plan.tree(&shared.policies.settings).unwrap();
        let mut flow = Flow::new(shared.counters(index), shared, log);
        flow.adopt(plan);
        Worker { walks: Walks::new(tree, index as u64), flow, poll: Poll::new().unwrap() }
    }

    fn go_by(&mut self, plan: &SharedPlan, shared: &Shared) {
        self.flow.adopt(plan);
        drop(self.walks.replace(plan.tree(&shared.policies.settings).unwrap()));
        self.turn(Duration::ZERO);
    }

    fn turn(&mut self, patience: Duration) {
        let Worker { walks, flow, poll } = self;
        flow.flush(walks, poll);
        let mut events = Vec::new();
        poll.wait(Some(patience), &mut events).unwrap();
        for event in events {
            let mut numbers = flow.destinations.numbers();
            let number = numbers.find(|number| service_token(*number) == event.token).unwrap();
            flow.receive(number, walks, poll);
        }
        flow.expire(walks, poll);
        flow.answer_logged(walks);
        flow.flush(walks, poll);
        flow.retire_servers(walks, poll);
    }

    /// Pretends that the current round has lasted this long.
    fn is_late(&mut self, time: Duration) {
        self.flow.set_clock(Duration::from_micros(self.flow.now_us) + time);
    }

    fn pass(&mut self, time: Duration) {
        self.is_late(time);
        self.turn(Duration::ZERO);
    }

    fn send(&mut self, op: Op, key: &str) {
        let form = if op == Op::Get { Form::Get(Uniques::Omitted) } else { Form::Line(op, Noreply::No) };
        let slot = Outbox::<NoPin>::with_capacity(0).defer();
        let call = self.flow.calls.begin(ReplyTo::elsewhere(-1), slot, form, KeyCount::One);
        let ticket = self.flow.calls.key(call, key.as_bytes());
        let facts = self.flow.facts;
        self.walks.start(&Request::classic(op, key.as_bytes()), &facts, ticket, &mut self.flow);
    }

    /// The replies that the client received since the last call.
    fn replies(&mut self) -> String {
        let mut replies = Vec::new();
        let calls = &mut self.flow.calls;
        calls.replies(0).iter().for_each(|reply| calls.write(reply, &mut replies));
        calls.forget(0);
        String::from_utf8(replies).unwrap()
    }

    #[track_caller]
    fn receives(&mut self, expected: &str) {
        let (since, mut replies) = (Stopwatch::start(), String::new());
        while replies.is_empty() && since.elapsed() < PATIENCE {
            self.turn(Duration::from_millis(1));
            replies = self.replies();
        }
        assert_eq!(replies, expected);
    }

    /// Waits for this request at this server.
    #[track_caller]
    fn expect_request(&mut self, servers: &mut Servers, server: u32, request: &str) -> TcpStream {
        let since = Stopwatch::start();
        while since.elapsed() < PATIENCE {
            self.turn(Duration::from_millis(1));
            if let Some((to, received, stream)) = servers.next_request() {
                assert_eq!((to, &*received), (servers.name(server), request));
                return stream;
            }
        }
        panic!("nobody was asked {request}");
    }
}

struct Bench {
    loader: Loader,
    shared: Shared,
    plan: SharedPlan,
    workers: Vec<Worker>,
    servers: Servers,
}

impl Bench {
    /// A bench with this many workers, and a pool with server 0.
    fn new(workers: usize) -> Self {
        Self::with_log(workers, None)
    }

    fn with_log(workers: usize, log: Option<DeleteLog>) -> Self {
        Self::with(|options| RouterOptions { workers, ..options }, log)
    }

    fn with(change: impl FnOnce(RouterOptions) -> RouterOptions, mut log: Option<DeleteLog>) -> Self {
        let servers = Servers::start();
        let options = change(plain_options(servers.pool(&[0]), Duration::from_secs(20)));
        let mut loader = Loader::new(&options);
        let plan = Arc::new(loader.load().unwrap());
        let shared = Shared::new(&options, Arc::new(host(&options, 1).unwrap()), plan.clone(), &loader, &[]);
        let new = |index| Worker::new(index, &plan, &shared, log.take());
        let workers = (0..options.workers).map(new).collect();
        Bench { loader, shared, plan, workers, servers }
    }

    /// Loads another configuration, which workers adopt later.
    fn load(&mut self, config: &str) -> SharedPlan {
        self.plan = Arc::new(self.loader.load_kept(config.into()).unwrap());
        self.shared.replace(self.plan.clone());
        self.plan.clone()
    }

    fn go_by(&mut self, config: &str) {
        let plan = self.load(config);
        self.workers.iter_mut().for_each(|worker| worker.go_by(&plan, &self.shared));
    }

    /// Adopts a pool with one server. Returns the number of the server.
    fn go_by_server(&mut self, server: u32) -> usize {
        self.go_by(&self.servers.pool(&[server]));
        self.number(server)
    }

    fn number(&self, server: u32) -> usize {
        let name = self.servers.name(server);
        let mut names = self.plan.names().map(|(name, _)| name);
        names.position(|known| known == name).unwrap()
    }
}

#[test]
fn ever_new_servers_leave_no_more_than_two_configurations_have() {
    let mut bench = Bench::new(2);
    for round in 0..10_000 {
        bench.go_by(&bench.servers.pool(&[2 * round, 2 * round + 1]));
        if round % 50 > 0 {
            continue;
        }
        for worker in &mut bench.workers {
            worker.send(Op::Get, "k");
            let since = Stopwatch::start();
            let mut request = None;
            while request.is_none() && since.elapsed() < PATIENCE {
                worker.turn(Duration::from_millis(1));
                request = bench.servers.next_request();
            }
            request.expect("a request").2.write_all(b"END\r\n").unwrap();
            worker.receives("END\r\n");
        }
    }
    let known = bench.plan.servers.list().len();
    assert!(known <= 6 && bench.plan.named().specs().len() == known, "{known} servers are known");
    for worker in &bench.workers {
        assert!(worker.flow.destinations.servers() <= known && !worker.flow.destinations.have_departures());
    }
    assert_eq!(bench.servers.connections(), 0, "the servers of the last configuration were asked nothing");
    let of_known = bench.plan.servers.list().iter().map(|it| it.meters().count(ServerCount::Requests));
    let requests = of_known.sum::<u64>() + bench.plan.servers.forgotten().count(ServerCount::Requests);
    assert_eq!(requests, 400, "what was counted of servers that are forgotten stays");
    assert!(bench.plan.servers.forgotten_of_addresses().is_empty());
}

#[test]
fn a_late_answer_of_a_server_that_has_left_is_not_taken_for_that_of_another_with_its_number() {
    let mut bench = Bench::new(1);
    bench.workers[0].send(Op::Get, "k");
    let mut late = bench.workers[0].expect_request(&mut bench.servers, 0, "get k\r\n");
    bench.workers[0].pass(Duration::from_secs(21));
    bench.workers[0].receives("SERVER_ERROR Reply timeout\r\n");
    let numbers = [bench.go_by_server(1), bench.go_by_server(2)];
    assert_eq!(numbers, [1, 0], "the number of the first is given to the third");
    // The router has closed the connection.
    let _ = late.write_all(b"VALUE k 0 3\r\nold\r\nEND\r\n");
    bench.workers[0].send(Op::Get, "k");
    let mut stream = bench.workers[0].expect_request(&mut bench.servers, 2, "get k\r\n");
    stream.write_all(b"VALUE k 0 3\r\nnew\r\nEND\r\n").unwrap();
    bench.workers[0].receives("VALUE k 0 3\r\nnew\r\nEND\r\n");
}

#[test]
fn the_time_limit_of_a_request_begins_when_it_is_sent_and_not_when_its_round_began() {
    let mut bench = Bench::new(1);
    let worker = &mut bench.workers[0];
    for key in ["connects", "k"] {
        worker.send(Op::Get, key);
        // As if the round had copied a long value. A server may take 20 s.
        worker.is_late(Duration::from_secs(19));
        let mut stream = worker.expect_request(&mut bench.servers, 0, &format!("get {key}\r\n"));
        worker.pass(Duration::from_secs(19));
        stream.write_all(b"END\r\n").unwrap();
        worker.receives("END\r\n");
    }
    worker.send(Op::Get, "k");
    worker.expect_request(&mut bench.servers, 0, "get k\r\n");
    worker.pass(Duration::from_secs(21));
    worker.receives("SERVER_ERROR Reply timeout\r\n");
}

#[test]
fn a_request_under_way_comes_to_the_servers_of_its_configuration_however_many_come_after_it() {
    let mut bench = Bench::new(1);
    let [first, second] = [0, 1].map(|server| bench.servers.name(server));
    bench.go_by(&format!(
        r#"{{"pools": {{"A": {{"servers": ["{first}"]}}, "B": {{"servers": ["{second}"]}}}},
            "route": {{"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}}}"#
    ));
    bench.workers[0].send(Op::Get, "k");
    let mut stream = bench.workers[0].expect_request(&mut bench.servers, 0, "get k\r\n");
    let numbers = [2, 3, 4, 5].map(|server| bench.go_by_server(server));
    assert_eq!(numbers, [2, 3, 2, 3], "the first two numbers are in use");
    stream.write_all(b"SERVER_ERROR out of order\r\n").unwrap();
    let mut stream = bench.workers[0].expect_request(&mut bench.servers, 1, "get k\r\n");
    stream.write_all(b"VALUE k 0 1\r\nb\r\nEND\r\n").unwrap();
    bench.workers[0].receives("VALUE k 0 1\r\nb\r\nEND\r\n");
    assert_eq!([6, 7].map(|server| bench.go_by_server(server)), [0, 1]);
}

#[test]
fn a_worker_that_has_not_heard_of_a_change_has_its_servers_still() {
    let mut bench = Bench::new(2);
    let plans = [1, 2, 3].map(|server| {
        let plan = bench.load(&bench.servers.pool(&[server]));
        bench.workers[0].go_by(&plan, &bench.shared);
        (plan, bench.number(server))
    });
    assert_eq!(plans.each_ref().map(|(_, number)| *number), [1, 2, 3], "plans are kept here as well");
    bench.workers[1].send(Op::Delete, "k");
    let mut stream = bench.workers[1].expect_request(&mut bench.servers, 0, "delete k\r\n");
    stream.write_all(b"DELETED\r\n").unwrap();
    bench.workers[1].receives("DELETED\r\n");
    for (plan, _) in plans {
        bench.workers[1].go_by(&plan, &bench.shared);
    }
    assert_eq!(bench.go_by_server(4), 0);
}

#[test]
fn a_delete_that_fails_is_logged_for_the_server_that_it_was_for_whatever_comes_after_it() {
    let (access, mut logged) = log_to_a_channel();
    let mut bench = Bench::with_log(1, Some(DeleteLog::new(access).unwrap()));
    let old = bench.servers.name(0);
    bench.workers[0].send(Op::Delete, "k");
    let stream = bench.workers[0].expect_request(&mut bench.servers, 0, "delete k\r\n");
    let numbers = [1, 2, 3].map(|server| bench.go_by_server(server));
    assert!(!numbers.contains(&0), "{numbers:?}");
    bench.servers.open.clear();
    drop(stream);
    let since = Stopwatch::start();
    let mut lines = Vec::new();
    while lines.is_empty() && since.elapsed() < PATIENCE {
        bench.workers[0].turn(Duration::from_millis(1));
        lines = logged();
    }
    assert_eq!(lines, [format!("{old} k")]);
    bench.workers[0].receives("NOT_FOUND\r\n");
    assert_eq!(bench.go_by_server(4), 0);
}

#[test]
fn a_server_that_has_left_while_it_was_out_is_not_asked_whether_it_is_back() {
    let mut bench = Bench::new(1);
    for _ in 0..3 {
        bench.workers[0].send(Op::Get, "k");
        bench.workers[0].expect_request(&mut bench.servers, 0, "get k\r\n");
        bench.workers[0].pass(Duration::from_secs(21));
        bench.workers[0].receives("SERVER_ERROR Reply timeout\r\n");
    }
    assert!(!bench.plan.servers.list()[0].health.is_up());
    bench.go_by_server(1);
    bench.workers[0].pass(Duration::from_secs(600));
    assert_eq!(bench.servers.connections(), 0);
    // The server comes back, and receives the next request.
    bench.go_by_server(0);
    bench.workers[0].send(Op::Get, "k");
    bench.workers[0].expect_request(&mut bench.servers, 0, "get k\r\n").write_all(b"END\r\n").unwrap();
    bench.workers[0].receives("END\r\n");
}

/// A worker that counts requests for the pools A and B, which have one server each; failed gets are
/// answered as `gets` says.
fn counting(gets: Failed) -> Bench {
    let mut bench = Bench::with(
        |mut options| {
            options.settings.counted_pools = CountedPools::new(["A", "B"].map(str::to_owned));
            RouterOptions { failures: Failures { gets, ..options.failures }, ..options }
        },
        None,
    );
    let [first, second] = [0, 1].map(|server| bench.servers.name(server));
    bench.go_by(&format!(
        r#"{{"pools": {{"A": {{"servers": ["{first}"]}}, "B": {{"servers": ["{second}"]}}}},
            "route": {{"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}}}"#
    ));
    bench
}

impl Bench {
    /// The counts of A and of B: failures, and the average time.
    fn counted(&self) -> [(u64, f64); 2] {
        let sums = self.shared.sums();
        [0, 1].map(CountedPool).map(|pool| (sums.failures_of_pool(pool), sums.average_of_pool(pool)))
    }

    /// A get that fails over from the first server to the second.
    fn fail_over(&mut self, second: &str, replies: &str) {
        let Bench { workers, servers, .. } = self;
        workers[0].send(Op::Get, "k");
        let mut stream = workers[0].expect_request(servers, 0, "get k\r\n");
        workers[0].pass(Duration::from_millis(7));
        stream.write_all(b"SERVER_ERROR\r\n").unwrap();
        let mut stream = workers[0].expect_request(servers, 1, "get k\r\n");
        workers[0].pass(Duration::from_millis(5));
        stream.write_all(second.as_bytes()).unwrap();
        workers[0].receives(replies);
    }
}

#[test]
fn the_end_of_a_request_is_counted_for_the_pool_that_it_came_to_first() {
    let mut bench = counting(Failed::AreErrors);
    bench.workers[0].pass(Duration::from_micros(123_456));
    let item = "VALUE k 0 1\r\nb\r\nEND\r\n";
    bench.fail_over(item, item);
    assert_eq!(bench.counted(), [(0, 12_000.0), (0, 0.0)], "the client has received its item");
    bench.fail_over("SERVER_ERROR\r\n", "SERVER_ERROR\r\n");
    assert_eq!(bench.counted(), [(1, 12_000.0), (0, 0.0)], "once, and not for the second pool");
    // A failed server receives no request.
    for _ in 0..3 {
        bench.plan.servers.list()[0].health.record_soft_failure(&bench.shared.policies.health);
    }
    bench.workers[0].send(Op::Get, "k");
    let mut stream = bench.workers[0].expect_request(&mut bench.servers, 1, "get k\r\n");
    bench.workers[0].pass(Duration::from_micros(300));
    stream.write_all(b"SERVER_ERROR\r\n").unwrap();
    bench.workers[0].receives("SERVER_ERROR\r\n");
    assert_eq!(bench.counted(), [(1, 12_000.0), (1, 300.0)]);
}

#[test]
fn a_failed_get_that_its_client_takes_for_a_miss_is_no_failure() {
    let mut bench = counting(Failed::AreMisses);
    bench.fail_over("SERVER_ERROR\r\n", "END\r\n");
    assert_eq!(bench.counted(), [(0, 12_000.0), (0, 0.0)]);
}
