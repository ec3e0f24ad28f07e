//! Input that means nothing, or nearly something.

use std::io::{Read, Write};
use std::time::Duration;

use guira_workload::Rng;

use super::any_request;
use crate::field::Field;
use crate::link::Carrier;
use crate::speech::binary;

/// How long a server may read garbage in silence before the next is tried.
const SILENCE: Duration = Duration::from_millis(5);

/// Sends garbage until the run ends. The server only has to survive.
pub(crate) fn run(field: &Field, mut random: Rng) {
    let mut counters = field.counters();
    while field.goes_on() {
        let (what, bytes) = some_garbage(&mut random);
        let carrier = Carrier::random(&mut random);
        // Sometimes plain bytes go to the TLS listener.
        let sent = if random.below(3) == 0 {
            field.addresses.raw(carrier).and_then(|mut plain| {
                plain.set_timeouts(SILENCE)?;
                plain.write_all(&bytes)?;
                plain.read(&mut [0; 4096])
            })
        } else {
            field.addresses.open(carrier).and_then(|mut link| {
                link.set_timeouts(SILENCE)?;
                link.write_all(&bytes)?;
                link.flush()?;
                link.read(&mut [0; 4096])
            })
        };
        counters.one(what);
        counters.one(if sent.is_ok() { "garbage answered" } else { "garbage not answered" });
        std::thread::sleep(SILENCE);
    }
}

fn noise(random: &mut Rng, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.next_u64() as u8).collect()
}

fn some_garbage(random: &mut Rng) -> (&'static str, Vec<u8>) {
    match random.below(7) {
        0 => {
            let length = random.below(5000) as usize;
            ("garbage: noise", noise(random, length))
        }
        1 => ("garbage: a line without end", vec![b'g'; 1 + random.below(100_000) as usize]),
        2 => {
            let verb = ["set", "add", "append", "cas", "ms", "replace"][random.below(6) as usize];
            let length = ["4294967295", "2147483648", "18446744073709551616", "1073741824", "-1", "1048577"]
                [random.below(6) as usize];
            let line = match verb {
                "ms" => format!("ms huge {length} T0 F0\r\n"),
                "cas" => format!("cas huge 0 0 {length} 1\r\n"),
                other => format!("{other} huge 0 0 {length}\r\n"),
            };
            let body = random.below(200_000) as usize;
            ("garbage: a huge length", [line.into_bytes(), vec![b'x'; body]].concat())
        }
        3 => ("garbage: a packet with absurd lengths", absurd_packet(random)),
        4 => {
            let name = "k".repeat(random.below(600) as usize);
            ("garbage: a long key", format!("get {name}\r\ndelete {name}\r\nmg {name} v\r\n").into_bytes())
        }
        _ => ("garbage: mutated requests", mutated(random)),
    }
}

/// A header whose lengths do not fit each other, or anything.
fn absurd_packet(random: &mut Rng) -> Vec<u8> {
    let mut packet = Vec::new();
    let opcode = random.below(0x30) as u8;
    binary::packet(&mut packet, opcode, 7, random.next_u64(), [&[0; 8], b"absurd", b"value"]);
    let lengths = [0_u32, 1, 0xff, 0xffff, 0x10_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
    let length = lengths[random.below(8) as usize].to_be_bytes();
    match random.below(3) {
        0 => packet[8..12].copy_from_slice(&length),
        1 => packet[2..4].copy_from_slice(&length[2..]),
        _ => packet[4] = random.next_u64() as u8,
    }
    let more = random.below(3000) as usize;
    packet.extend(noise(random, more));
    packet
}

/// Requests with a few bytes changed, left out or doubled.
fn mutated(random: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(8) {
        bytes.extend(any_request(random, "mutant"));
    }
    for _ in 0..1 + random.below(6) {
        let at = random.below(bytes.len().max(1) as u64) as usize;
        match random.below(4) {
            _ if bytes.is_empty() => break,
            0 => bytes[at] = random.next_u64() as u8,
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, b"\r\n \0-9"[random.below(6) as usize]),
            _ => {
                let end = (at + 1 + random.below(50) as usize).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}
