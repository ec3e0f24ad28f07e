//! Packets that another worker executes, since their keys are at home there (`--access erew` and `crew`): no client sees a difference.

use guira_tests::binary::{Request, get, set};
use guira_tests::random::Random;
use guira_tests::{Client, Server, Setup};
use std::collections::HashMap;

const GET: u8 = 0x00;
const SET: u8 = 0x01;
const DELETE: u8 = 0x04;
const INCREMENT: u8 = 0x05;
const FLUSH: u8 = 0x08;
const GET_QUIETLY: u8 = 0x09;
const NOOP: u8 = 0x0a;
const GET_WITH_KEY: u8 = 0x0c;
const APPEND: u8 = 0x0e;
const STAT: u8 = 0x10;
const SET_QUIETLY: u8 = 0x11;
const DELETE_QUIETLY: u8 = 0x14;
const APPEND_QUIETLY: u8 = 0x19;

const NOT_FOUND: u16 = 1;
const NOT_STORED: u16 = 5;

/// One engine is enough, with four workers that share its partitions out.
fn start(access: &str) -> Server {
    let setup = Setup::new().not_with("mica").not_with("memc3").not_with("classic").not_with("fleec");
    setup
        .guira_argument("--engine=mica")
        .guira_argument(&format!("--access={access}"))
        .guira_argument("--workers=4")
        .start_guira()
}

/// A response as it should be.
#[derive(Debug)]
enum Expected {
    /// Opcode, opaque, status, and the value if that is known.
    One(u8, u32, u16, Option<Vec<u8>>),
    Stats(u32),
}

/// What a pipeline sends and should be answered, as one worker would do it.
#[derive(Default)]
struct Pipeline {
    requests: Vec<u8>,
    expected: Vec<Expected>,
    opaque: u32,
}

impl Pipeline {
    fn send(&mut self, request: Request) {
        self.opaque += 1;
        self.requests.extend(request.opaque(self.opaque).bytes());
    }

    fn expect(&mut self, opcode: u8, status: u16, value: Option<Vec<u8>>) {
        self.expected.push(Expected::One(opcode, self.opaque, status, value));
    }

    fn value(random: &mut Random) -> Vec<u8> {
        let length = match random.below(60) {
            0 => 150_000,
            1..4 => 20_000,
            _ => random.below(40) as usize,
        };
        vec![b'a' + random.below(26) as u8; length]
    }

    fn add(&mut self, random: &mut Random, table: &mut HashMap<u32, Vec<u8>>) {
        let key = random.below(40) as u32;
        let name = format!("key{key}");
        match random.below(12) {
            0 | 1 => {
                let value = Self::value(random);
                self.send(set(&name, 0, &value));
                table.insert(key, value);
                self.expect(SET, 0, Some(Vec::new()));
            }
            2 | 3 => {
                let value = Self::value(random);
                self.send(Request::new(SET_QUIETLY).word(0).word(0).key(&name).value(&value));
                table.insert(key, value);
            }
            4 => {
                self.send(Request::new(DELETE).key(&name));
                let status = if table.remove(&key).is_some() { 0 } else { NOT_FOUND };
                self.expect(DELETE, status, None);
            }
            5 => {
                self.send(Request::new(DELETE_QUIETLY).key(&name));
                if table.remove(&key).is_none() {
                    self.expect(DELETE_QUIETLY, NOT_FOUND, None);
                }
            }
            6 => self.append(random, table.get_mut(&key), &name),
            7 => {
                let number = format!("number{key}");
                self.send(Request::new(INCREMENT).long(1).long(7).word(0).key(&number));
                let next = table.get(&(1000 + key)).map_or(7, |value| value[0] + 1);
                table.insert(1000 + key, vec![next]);
                self.expect(INCREMENT, 0, Some(u64::from(next).to_be_bytes().to_vec()));
            }
            8 => match random.below(20) {
                0 => {
                    self.send(Request::new(FLUSH));
                    table.clear();
                    self.expect(FLUSH, 0, None);
                }
                1 => {
                    self.send(Request::new(STAT));
                    self.expected.push(Expected::Stats(self.opaque));
                }
                _ => {
                    self.send(Request::new(NOOP));
                    self.expect(NOOP, 0, Some(Vec::new()));
                }
            },
            9 => {
                self.send(Request::new(GET_QUIETLY).key(&name));
                if let Some(value) = table.get(&key) {
                    self.expect(GET_QUIETLY, 0, Some(value.clone()));
                }
            }
            kind => {
                let opcode = if kind == 10 { GET } else { GET_WITH_KEY };
                self.send(Request::new(opcode).key(&name));
                match table.get(&key) {
                    Some(value) => self.expect(opcode, 0, Some(value.clone())),
                    None => self.expect(opcode, NOT_FOUND, None),
                }
            }
        }
    }

    fn append(&mut self, random: &mut Random, value: Option<&mut Vec<u8>>, name: &str) {
        let opcode = if random.below(2) == 0 { APPEND } else { APPEND_QUIETLY };
        self.send(Request::new(opcode).key(name).value("+"));
        match value {
            Some(value) => {
                value.push(b'+');
                if opcode == APPEND {
                    self.expect(opcode, 0, Some(Vec::new()));
                }
            }
            None => self.expect(opcode, NOT_STORED, None),
        }
    }
}

fn hear_all(client: &mut Client, expected: &[Expected]) {
    for expected in expected {
        match expected {
            Expected::One(opcode, opaque, status, value) => {
                let got = client.hear_binary();
                assert_eq!((got.opcode, got.opaque, got.status), (*opcode, *opaque, *status));
                if let Some(value) = value {
                    assert!(got.value == *value, "{} bytes, not {}", got.value.len(), value.len());
                }
            }
            Expected::Stats(opaque) => loop {
                let got = client.hear_binary();
                assert_eq!((got.opcode, got.opaque, got.status), (STAT, *opaque, 0));
                if got.key.is_empty() {
                    break;
                }
            },
        }
    }
}

#[test]
fn pipelines_of_packets_are_answered_as_if_one_worker_executed_them_in_order() {
    for access in ["erew", "crew"] {
        let server = start(access);
        let (mut random, mut table) = (Random::new(12), HashMap::new());
        let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();
        for round in 0..100 {
            let mut pipeline = Pipeline::default();
            for _ in 0..random.below(200) {
                pipeline.add(&mut random, &mut table);
            }
            pipeline.send(Request::new(NOOP));
            pipeline.expect(NOOP, 0, Some(Vec::new()));
            let client = &mut clients[round % 8];
            client.while_sending(&pipeline.requests, |client| hear_all(client, &pipeline.expected));
        }
        let forwarded: u64 = server.connect().stats("")["forwarded_requests"].parse().unwrap();
        assert!(forwarded > 1000, "{access}: {forwarded}");
    }
}

#[test]
fn packets_are_forwarded_like_text() {
    for (access, reads) in [("erew", true), ("crew", false)] {
        let server = start(access);
        let mut client = server.connect();
        let forwarded =
            |server: &Server| -> u64 { server.connect().stats("")["forwarded_requests"].parse().unwrap() };
        for number in 0..40 {
            assert_eq!(client.ask_binary(&set(&format!("key{number}"), 0, "x")).status, 0);
        }
        let stored = forwarded(&server);
        assert!((20..40).contains(&stored), "three of four keys are another worker's: {stored}");
        for number in 0..40 {
            assert_eq!(client.ask_binary(&get(&format!("key{number}"))).outcome(), (0, "x"));
        }
        assert_eq!(forwarded(&server) > stored, reads, "{access}");
    }
}

#[test]
fn the_effects_of_quiet_packets_come_before_those_of_a_flush_and_before_a_stat() {
    let server = start("erew");
    let mut client = server.connect();
    for round in 0..50_u32 {
        let sets = (0..30).map(|number| {
            Request::new(SET_QUIETLY).word(0).word(0).key(format!("key{number}")).value("x").bytes()
        });
        let mut requests: Vec<u8> = sets.collect::<Vec<_>>().concat();
        requests.extend(Request::new(STAT).opaque(round).bytes());
        requests.extend(Request::new(FLUSH).opaque(round).bytes());
        requests.extend(get("key7").opaque(round).bytes());
        client.send(requests);
        let mut items = None;
        loop {
            let pair = client.hear_binary();
            assert_eq!((pair.opcode, pair.opaque), (STAT, round));
            if pair.key.is_empty() {
                break;
            }
            if pair.key == b"cmd_set" {
                items = Some(pair.outcome().1.parse::<u32>().unwrap());
            }
        }
        assert_eq!(items, Some(30 * (round + 1)), "all were stored before");
        assert_eq!((client.hear_binary().opcode, client.hear_binary().status), (FLUSH, NOT_FOUND));
    }
}
