//! Connections that die in the middle of a request, at every byte of it; and in the middle of a handshake.

use std::io::{self, Read, Write};
use std::time::Duration;

use guira_harness::socket::Socket;
use guira_workload::Rng;

use super::any_request;
use crate::client::Client;
use crate::field::{Counters, Field};
use crate::link::Carrier;
use crate::speech::{Answer, Request, Speech, Verb};

/// Between connections, so that the system does not run out of ports for those that have just ended.
const PAUSE: Duration = Duration::from_millis(2);

/// Requests longer than this are not cut at every byte, but at this many places.
const CUTS_MAX: usize = 400;

/// Opens and cuts until the run ends.
pub(crate) fn run(field: &Field, mut random: Rng) {
    let mut counters = field.counters();
    let Some(mut judge) = Client::open(field, Carrier::Unix, Speech::Text) else { return };
    let mut number = 0;
    while field.goes_on() {
        number += 1;
        match random.below(4) {
            0 => handshakes(field, &mut random, &mut counters),
            1 => stores(field, &mut random, number, &mut counters, &mut judge),
            _ => requests(field, &mut random, &mut counters),
        }
    }
}

fn cuts(length: usize) -> impl Iterator<Item = usize> {
    let step = length.div_ceil(CUTS_MAX).max(1);
    (0..length).step_by(step)
}

/// Sends a part and closes the connection. A refused connection counts as closed.
fn die_after(field: &Field, carrier: Carrier, part: &[u8], random: &mut Rng) -> io::Result<()> {
    let mut plain = field.addresses.raw(carrier)?;
    plain.write_all(part)?;
    match random.below(3) {
        0 => plain.reset(),
        1 => {
            plain.end_of_sending()?;
            // Until the server closes; it must not keep it.
            plain.set_timeouts(Duration::from_secs(30))?;
            io::copy(&mut plain, &mut io::sink())?;
        }
        _ => drop(plain),
    }
    Ok(())
}

/// One request of any kind, cut at every byte.
fn requests(field: &Field, random: &mut Rng, counters: &mut Counters<'_>) {
    let bytes = any_request(random, "rough");
    for at in cuts(bytes.len()) {
        if !field.goes_on() {
            return;
        }
        let carrier = Carrier::plain(random);
        let died = die_after(field, carrier, &bytes[..at], random);
        if died.as_ref().is_err_and(crate::client::is_stall) {
            field.fail(format!("a connection that was closed halfway after {at} bytes is not closed"));
        }
        counters.one("connections cut in a request");
        std::thread::sleep(PAUSE);
    }
}

/// Stores that are cut must not have stored anything.
fn stores(field: &Field, random: &mut Rng, number: u64, counters: &mut Counters<'_>, judge: &mut Client) {
    let speech = Speech::random(random);
    let (length, carrier) = (random.below(300) as usize, Carrier::plain(random));
    let name = format!("cut-{number}").into_bytes();
    let request =
        Request { verb: Verb::Set, name: name.clone(), value: vec![b'c'; length], flags: 0, ttl: 0 };
    let mut bytes = Vec::new();
    speech.write(&request, &mut bytes);
    for at in cuts(bytes.len()) {
        if !field.goes_on() {
            return;
        }
        // Refused connections have stored nothing either.
        let _ = die_after(field, carrier, &bytes[..at], random);
        counters.one("connections cut in a store");
        std::thread::sleep(PAUSE);
    }
    let look = Request { verb: Verb::Gets, value: Vec::new(), ..request };
    match judge.call(&[look]) {
        Ok(answers) if answers == [Answer::NotFound] => {}
        Ok(answers) => {
            counters.one("wrong answers");
            field.fail(format!("{speech:?}: half a store of {length} bytes was stored: {answers:?}"));
        }
        Err((_, error)) => field.fail(format!("the connection that looks after cuts broke: {error}")),
    }
}

/// A stream that fails after a number of bytes.
struct Dying {
    plain: Socket,
    left: usize,
}

impl Write for Dying {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let part = buffer.len().min(self.left);
        if part == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.left -= part;
        self.plain.write_all(&buffer[..part])?;
        Ok(part)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Dying {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.plain.read(buffer)
    }
}

/// Handshakes and first requests over TLS, cut after some bytes.
fn handshakes(field: &Field, random: &mut Rng, counters: &mut Counters<'_>) {
    let Some((address, connector)) = &field.addresses.tls else { return };
    let Ok(name) = address.ip().to_string().parse() else { return };
    for _ in 0..40 {
        if !field.goes_on() {
            return;
        }
        let Ok(plain) = field.addresses.raw(Carrier::Tls) else { continue };
        let Ok(mut session) = connector.session(&name) else { return };
        // A hello has about 240 bytes, the answer to the server's about 80.
        let left = random.below(400) as usize;
        let _ = session.writer().write_all(&any_request(random, "rough"));
        let mut dying = Dying { plain, left };
        // It dies, so it fails, sooner or later.
        while session.complete_io(&mut dying).is_ok_and(|(read, written)| read + written > 0) {
            if !session.is_handshaking() && !session.wants_write() {
                break;
            }
        }
        if random.below(2) == 0 {
            dying.plain.reset();
        }
        counters.one("connections cut in a handshake");
        std::thread::sleep(PAUSE);
    }
}
