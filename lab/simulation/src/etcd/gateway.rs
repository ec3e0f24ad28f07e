//! The JSON gateway of one member.

use super::Etcd;
use super::request::{Answer, execute, failure, first_revision, header, keys};
use crate::tasks::lock;
use guira_world::net::{TcpListener, TcpStream};
use guira_world::scheduler::draw;
use guira_world::thread::{sleep, spawn};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a watch looks for changes.
const LOOK: Duration = Duration::from_millis(20);

/// Serves until the process is killed.
pub(crate) fn serve(etcd: &Arc<Mutex<Etcd>>, listen: SocketAddr) {
    let listener = TcpListener::bind(listen).expect("the address is free");
    loop {
        if let Ok((stream, _)) = listener.accept() {
            let etcd = etcd.clone();
            // A connection that fails ends its thread.
            drop(spawn(move || answer_all(&etcd, stream)));
        }
    }
}

fn answer_all(etcd: &Mutex<Etcd>, stream: TcpStream) -> io::Result<()> {
    let mut input = BufReader::new(stream);
    while let Some((name, request)) = read(&mut input)? {
        // As long as a round of the members takes; some are slow.
        let most = if draw(50) == 0 { 400_000 } else { 3_000 };
        sleep(Duration::from_micros(draw(most)));
        if name == "watch" {
            return watch(etcd, input.get_mut(), request.get("create_request").unwrap_or(&Value::Null));
        }
        let answer = answer(etcd, &name, &request);
        write(input.get_mut(), &answer)?;
    }
    Ok(())
}

/// The path behind `/v3/` and the body of a request.
fn read(input: &mut BufReader<TcpStream>) -> io::Result<Option<(String, Value)>> {
    let (mut first, mut length) = (String::new(), 0);
    if input.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let path = first.split(' ').nth(1).and_then(|path| path.strip_prefix("/v3/"));
    let name = path.ok_or(io::ErrorKind::InvalidData)?.to_owned();
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(digits) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = digits.trim().parse().map_err(io::Error::other)?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    Ok(Some((name, serde_json::from_slice(&body)?)))
}

fn answer(etcd: &Mutex<Etcd>, name: &str, request: &Value) -> Answer {
    // A member without a leader refuses a request soon, or when its time is over.
    let patience = Duration::from_millis(if draw(2) == 0 { draw(50) } else { 7_000 });
    let since = guira_world::time::now();
    loop {
        {
            let mut etcd = lock(etcd);
            etcd.end_leases();
            if etcd.has_leader {
                return execute(&mut etcd, name, request);
            }
        }
        if guira_world::time::now() >= since + patience {
            return failure(503, "etcdserver: no leader");
        }
        sleep(LOOK);
    }
}

fn write(stream: &mut TcpStream, (status, text): &Answer) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status} as stated\r\nContent-Type: application/json\r\n");
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes())
}

/// Reports one change: clients read no second.
fn watch(etcd: &Mutex<Etcd>, stream: &mut TcpStream, request: &Value) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    let (keys, first) = (keys(request), first_revision(request));
    let created = json!({"result": {"header": header(&lock(etcd)), "created": true}});
    chunk(stream, &created)?;
    // Some watches are lost in the member, which does not know.
    let is_lost = draw(20) == 0;
    stream.set_read_timeout(Some(LOOK))?;
    loop {
        match stream.read(&mut [0]) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            _ => return Ok(()),
        }
        let result = {
            let mut etcd = lock(etcd);
            etcd.end_leases();
            if first <= etcd.compacted {
                let compacted = etcd.compacted.to_string();
                Some(json!({"header": header(&etcd), "canceled": true, "compact_revision": compacted}))
            } else {
                etcd.changed_since(&keys, first).map(|revision| {
                    json!({"header": header(&etcd), "events": [{"kv": {"mod_revision": revision.to_string()}}]})
                })
            }
        };
        if let Some(result) = result.filter(|_| !is_lost) {
            return chunk(stream, &json!({ "result": result }));
        }
    }
}

fn chunk(stream: &mut TcpStream, line: &Value) -> io::Result<()> {
    let text = format!("{line}\n");
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
}
