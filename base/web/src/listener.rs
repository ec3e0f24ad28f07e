//! The service that answers HTTP, on a worker of its own.

use crate::history::{HISTORY_BYTES, History, SERIES_MAX};
use crate::http::{self, After, Fault, HEAD_MAX, HeadEnd, Method, PLAIN, Reply, Request, Status};
use crate::{Form, Page, Reading, Token};
use guira_memory::{MIB, ValuePin};
use guira_protocol::{Replies, ReplyBuffer};
use guira_serving::{
    Acceptor, Access, Arrival, AtLimit, CONNECTION_BYTES, CloseReason, ConnBudget, ConnLimits, Connections,
    Conversation, Crew, Cut, Host, HostOptions, INPUT_BYTES, Listen, Outbox, Placement, Port, PortError,
    ReplyTo, RequestHandler, Round, Service, Slice, Speaks, Stopped, TLS_BYTES, Unread, Worker,
};
use guira_sync::clock::{CoarseClock, Seconds, Stopwatch, wall_clock_millis};
use guira_transport::{Address, ListenOptions};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// What a server tells by its admin listener.
pub trait Site: fmt::Debug + Send + 'static {
    const PAGE: Page;
    /// The paths of [`Site::json`].
    const JSON: &'static [&'static str];
    /// The paths of [`Site::act`].
    const ACTIONS: &'static [&'static str] = &[];
    /// Bytes that all connections together may hold of requests and replies: a reply that is longer is never sent.
    const TRAFFIC_BYTES: usize = TRAFFIC_BYTES;

    /// The series that the page's charts draw, as `/history.json` names them.
    const SERIES: &'static [&'static str] = &[];

    fn clock(&self) -> &CoarseClock;

    /// A reading of each of [`Site::SERIES`]. Called every 10 s, whether or not a page is open.
    fn sample(&mut self) -> Vec<Reading> {
        Vec::new()
    }

    /// Looks whether workers answer. Called about once a second.
    fn look(&mut self);

    /// Why the server is not ready, if it is not.
    fn fault(&mut self) -> Option<String>;

    fn metrics(&mut self, form: Form) -> String;

    /// What is at one of the paths, as JSON.
    fn json(&mut self, path: &str) -> Option<String>;

    /// Does what a POST to one of these paths asks for; the query is as it was sent. Returns JSON.
    ///
    /// # Errors
    /// Why that is not done.
    fn act(&mut self, path: &str, _query: &str) -> Result<String, String> {
        Err(format!("no action at {path}"))
    }
}

/// Connections at the same time: the next one takes the place of the one that has asked for nothing for longest.
const CONNECTIONS: u64 = 64;
/// What all of them may hold of requests and replies, unless the server needs more.
const TRAFFIC_BYTES: usize = MIB;
/// A connection that sends nothing for longer is closed, in the middle of a request as well, and one that has not taken a reply by then.
const IDLE: Duration = Duration::from_secs(30);
/// What is read of a head that is too long, so that its sender hears why it is refused.
const SWALLOWED_MAX: usize = MIB;
/// Its stack, and the texts that it makes: metrics of 60 classes are 170 KB, which are gathered, joined and put into the outbox.
const OTHER_BYTES: usize = MIB;

/// What the admin listener of a server takes that needs no more [`Site::TRAFFIC_BYTES`], in bytes.
pub const MEMORY_BYTES: usize = 2 * INPUT_BYTES + OTHER_BYTES + HISTORY_BYTES + TRAFFIC_BYTES + IDLE_BYTES;

const IDLE_BYTES: usize = CONNECTIONS as usize * (CONNECTION_BYTES + TLS_BYTES);

/// Where the history is, of each site.
const HISTORY: &str = "/history.json";

/// How many clients may wait to be accepted.
const BACKLOG: u32 = 64;
/// Who may use a socket in the file system.
const UNIX_MODE: u32 = 0o700;

/// Opens the port of an admin listener.
///
/// # Errors
/// When the address cannot be had.
pub fn open(place: &Listen) -> Result<Port, PortError> {
    let how = ListenOptions { backlog: BACKLOG, unix_mode: UNIX_MODE };
    let places = std::slice::from_ref(place);
    let mut ports = Port::open_all(Vec::new(), &mut Vec::new(), places, how, Speaks::Any, None)?;
    // A place that is not optional is a port or an error.
    Ok(ports.swap_remove(0))
}

/// Starts an admin listener at `port`, which serves once [`Crew::begin`] is called. Who may see it is a decision that the log tells, with `secrets` that are
/// seen beside figures, unless only this host may.
///
/// # Errors
/// What the system says.
pub fn start<S: Site>(
    port: Port,
    token: Option<Arc<Token>>,
    secrets: &str,
    site: impl FnOnce() -> S + Send + 'static,
) -> io::Result<Crew> {
    const { assert!(S::SERIES.len() <= SERIES_MAX) };
    warn_of(&port, token.is_some(), secrets);
    let hosts = match (port.listener.address(), &port.tls, &token) {
        (Address::Tcp(_), None, None) => Hosts::Addresses,
        _ => Hosts::Any,
    };
    let limits = ConnLimits { idle: IDLE_BYTES, traffic: S::TRAFFIC_BYTES, pinned: 0 };
    let host = Arc::new(Host::new(HostOptions {
        workers: 1,
        connections: Connections::new(CONNECTIONS, AtLimit::Replaces),
        budget: Arc::new(ConnBudget::new(limits, 1)),
        idle: Some(IDLE),
        users: None,
        // Those of the port, which the server itself reads again.
        tls: None,
        observer: Arc::new(()),
    })?);
    let acceptor = Acceptor::new(vec![port], host.mailboxes.clone());
    let mut crew = Crew::called("admin", host.clone());
    let make = move || {
        let site = site();
        let (now, history) = (site.clock().now(), History::new(S::SERIES));
        let service = WebService { site, history, token, hosts, now, since: Stopwatch::start(), looked: 0 };
        Worker::new(0, service, host, Some(acceptor))
    };
    crew.start(0, Placement::Anywhere, make)?;
    crew.wait_until_ready()?;
    Ok(crew)
}

fn warn_of(port: &Port, has_token: bool, secrets: &str) {
    let Address::Tcp(place) = port.listener.address() else {
        return;
    };
    if place.ip().is_loopback() {
        return;
    }
    if !has_token {
        // Operator: Set `admin-token-file`, or listen on a local address.
        tracing::warn!(
            "every client that can connect to {place} sees all metrics{secrets}: set admin-token-file"
        );
    } else if port.tls.is_none() {
        // Operator: Set `tls-cert` and `tls-key`, or listen on a local address.
        tracing::warn!("the token for {place} is sent unencrypted: use TLS");
    }
}

/// By which names the listener may be asked. A script of another site whose name leads here (DNS rebinding) reads what it
/// asks for; but it knows no token, has no certificate for that name, and reaches no socket in the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hosts {
    Any,
    /// By addresses, and by localhost.
    Addresses,
}

impl Hosts {
    fn admit(self, request: &Request<'_>) -> bool {
        self == Hosts::Any || request.host.is_none_or(http::is_address)
    }
}

#[derive(Debug)]
struct WebService<S> {
    site: S,
    history: History,
    token: Option<Arc<Token>>,
    hosts: Hosts,
    now: Seconds,
    since: Stopwatch,
    /// When workers were last looked at, in seconds since the start: no test stops that clock.
    looked: u64,
}

/// What is known of a connection.
#[derive(Debug, Default)]
struct Visitor {
    /// A head is too long, and its end is looked for; and how much of it has come.
    swallowed: Option<(HeadEnd, usize, Fault)>,
}

impl Conversation for Visitor {
    fn speaks(&self) -> Speaks {
        Speaks::Text
    }

    /// Who adds to the head of a request says nothing until it is whole: it is idle meanwhile.
    fn access(&self) -> Access {
        Access::Login
    }

    fn has_partial_request(&self) -> bool {
        false
    }
}

/// No value is long here.
#[derive(Debug)]
enum NoPin {}

impl ValuePin for NoPin {
    fn value_len(&self) -> usize {
        match *self {}
    }

    fn piece(&self, _from: usize) -> &[u8] {
        match *self {}
    }
}

impl<S: Site> RequestHandler for WebService<S> {
    type Pin = NoPin;
    type State = Visitor;

    /// A head that is one byte too long is seen to be so.
    const READ_BYTES: usize = HEAD_MAX + 1;

    /// To make the metrics takes as long as a thousand gets.
    const CUT_WHERE_SHORT: Cut = Cut::Anywhere;

    const UNREAD: Unread = Unread::Closed;

    fn now(&self) -> Seconds {
        self.now
    }

    fn open(&mut self, _arrival: &Arrival, _from: ReplyTo) -> Visitor {
        Visitor::default()
    }

    fn run(
        &mut self,
        visitor: &mut Visitor,
        slice: &mut Slice,
        full: usize,
        input: &[u8],
        outbox: &mut Outbox<NoPin>,
    ) -> (usize, Stopped) {
        let mut taken = 0;
        while visitor.swallowed.is_none() {
            if outbox.weight() >= full {
                return (taken, Stopped::OutboxFull);
            }
            if slice.is_cut() {
                return (taken, Stopped::SliceOver);
            }
            let rest = &input[taken..];
            match http::read(rest, S::ACTIONS) {
                Ok(None) => return (taken, Stopped::NeedsInput),
                Ok(Some((request, length))) => {
                    // What a HEAD is about is made as well as for a GET.
                    slice.copied(self.answer(&request, outbox));
                    taken += length;
                    if request.after == After::Closes {
                        return (input.len(), Stopped::Over(CloseReason::Normal));
                    }
                }
                Err(fault) if rest.len() > HEAD_MAX => {
                    visitor.swallowed = Some((HeadEnd::default(), 0, fault));
                }
                Err(fault) => return refuse(fault, input, outbox),
            }
        }
        let rest = &input[taken..];
        match &mut visitor.swallowed {
            Some((end, length, fault)) => {
                *length += rest.len();
                if end.is_in(rest) || *length > SWALLOWED_MAX {
                    return refuse(*fault, input, outbox);
                }
                (input.len(), Stopped::NeedsInput)
            }
            None => (taken, Stopped::NeedsInput),
        }
    }

    fn last_words(&mut self, outbox: &mut Outbox<NoPin>) {
        let why = "the request did not arrive in time\n";
        Reply::line(Status::TIMEOUT, why).write(Method::Get, After::Closes, outbox.buffer());
    }
}

impl<S: Site> Service for WebService<S> {
    fn begin_round(&mut self) {
        self.now = self.site.clock().now();
    }

    fn end_round(&mut self, _round: &mut Round<'_, Self>) -> bool {
        let second = self.since.elapsed().as_secs();
        if second != self.looked {
            self.looked = second;
            self.site.look();
            self.remember();
        }
        false
    }
}

/// Refuses a request, after which nothing more is read.
fn refuse(fault: Fault, input: &[u8], outbox: &mut Outbox<NoPin>) -> (usize, Stopped) {
    let headers = if fault.status == Status::METHOD_NOT_ALLOWED { "Allow: GET, HEAD\r\n" } else { "" };
    let body = format!("{}\n", fault.why);
    Reply { headers, ..Reply::line(fault.status, &body) }.write(Method::Get, After::Closes, outbox.buffer());
    (input.len(), Stopped::Over(CloseReason::Error))
}

impl<S: Site> WebService<S> {
    /// Takes a point of the history, if it is time for one.
    fn remember(&mut self) {
        let now = self.site.clock().millis();
        if self.history.is_due(now) {
            self.history.note(now, self.site.sample());
        }
    }

    /// Answers a request. Returns how many bytes were made for that.
    fn answer(&mut self, request: &Request<'_>, outbox: &mut Outbox<NoPin>) -> usize {
        let Request { path, method, after, accept, authorization, .. } = *request;
        let out = outbox.buffer();
        if method == Method::Post {
            return self.act(request, out);
        }
        // Whether the server is well is no secret, and who asks for it often cannot show a token.
        match path {
            "/health" => return Reply::line(Status::OK, "ok\n").write(method, after, out),
            "/ready" => {
                let (status, body) = match self.site.fault() {
                    None => (Status::OK, "ready\n".to_owned()),
                    Some(fault) => (Status::UNAVAILABLE, format!("{fault}\n")),
                };
                return Reply::line(status, &body).write(method, after, out);
            }
            _ if !self.hosts.admit(request) => return OTHER_HOST.write(method, after, out),
            // Without figures, which it asks for with the token of whoever looks at it.
            "/" => return self.page(method, after, out),
            _ => {}
        }
        if self.wants_token(authorization) {
            return NEEDS_TOKEN.write(method, after, out);
        }
        match path {
            "/metrics" => {
                let form = form_for(accept);
                let body = self.site.metrics(form);
                let content_type = form.content_type();
                Reply { status: Status::OK, content_type, headers: "", body: &body }.write(method, after, out)
            }
            HISTORY => {
                let body = self.history.json(self.site.clock().millis(), wall_clock_millis());
                json(&body).write(method, after, out)
            }
            path => match self.site.json(path) {
                Some(body) => json(&body).write(method, after, out),
                None => {
                    let paths: String = S::JSON.iter().map(|path| format!("{path}, ")).collect();
                    let body = format!("not found; use /, {paths}{HISTORY}, /metrics, /health or /ready\n");
                    Reply::line(Status::NOT_FOUND, &body).write(method, after, out)
                }
            },
        }
    }

    fn wants_token(&self, authorization: &[u8]) -> bool {
        self.token.as_ref().is_some_and(|token| !token.is_shown(authorization))
    }

    /// Does something for whoever shows the token; without one, for whoever comes neither from a page of another site nor by its name.
    fn act(&mut self, request: &Request<'_>, out: &mut ReplyBuffer) -> usize {
        let Request { path, query, method, after, authorization, is_deliberate, .. } = *request;
        if !self.hosts.admit(request) {
            return OTHER_HOST.write(method, after, out);
        }
        if self.wants_token(authorization) {
            return NEEDS_TOKEN.write(method, after, out);
        }
        if !is_deliberate {
            return Reply::line(Status::FORBIDDEN, "this request needs the header X-Guira\n")
                .write(method, after, out);
        }
        match self.site.act(path, query) {
            Ok(body) => json(&body).write(method, after, out),
            Err(why) => Reply::line(Status::BAD_REQUEST, &format!("{why}\n")).write(method, after, out),
        }
    }

    fn page(&self, method: Method, after: After, out: &mut ReplyBuffer) -> usize {
        let (headers, body) = S::PAGE.reply();
        let content_type = "text/html; charset=utf-8";
        Reply { status: Status::OK, content_type, headers: &headers, body: &body }.write(method, after, out)
    }
}

const NEEDS_TOKEN: Reply<'static> = Reply {
    status: Status::UNAUTHORIZED,
    content_type: PLAIN,
    headers: "WWW-Authenticate: Bearer realm=\"guira\"\r\n",
    body: "this request needs the token of admin-token-file: send Authorization: Bearer TOKEN\n",
};

const OTHER_HOST: Reply<'static> = Reply {
    status: Status::FORBIDDEN,
    content_type: PLAIN,
    headers: "",
    body: "without a token, this listener accepts only its address or localhost as the host, to protect it from pages \
           of other sites: use http://ADDRESS:PORT/, or set admin-token-file\n",
};

fn json(body: &str) -> Reply<'_> {
    Reply { status: Status::OK, content_type: "application/json", headers: "", body }
}

fn form_for(accept: &[u8]) -> Form {
    let new = http::preference(accept, "application/openmetrics-text");
    if new > 0 && new >= http::preference(accept, "text/plain") { Form::OpenMetrics } else { Form::Classic }
}
