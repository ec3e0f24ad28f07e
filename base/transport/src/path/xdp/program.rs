//! The XDP program: selects packets, and their sockets.
//!
//! It is assembled here, so that neither a compiler for eBPF nor a library to load its output is needed. Addresses,
//! ports and queues are constants in the instructions; every packet is passed to the kernel unless it is a datagram
//! to one of those ports and addresses without VLAN tag, IPv4 options, fragmentation, or IPv6 extension header.

use super::netlink::Mac;
use std::net::IpAddr;

/// An instruction (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    /// The destination in the lower half, the source in the upper.
    registers: u8,
    offset: i16,
    immediate: i32,
}

#[derive(Clone, Copy)]
#[repr(u8)]
enum Register {
    R0 = 0,
    R1,
    R2,
    R3,
    R4,
    R5,
}

use Register::{R0, R1, R2, R3, R4, R5};

#[derive(Clone, Copy)]
#[repr(u8)]
enum Width {
    Word = 0x00,
    Half = 0x08,
    Byte = 0x10,
}

use Width::{Byte, Half, Word};

/// The condition of a jump: the operation of a jump instruction. All comparisons are unsigned.
#[derive(Clone, Copy)]
#[repr(u8)]
enum If {
    Always = 0x00,
    Equal = 0x10,
    Greater = 0x20,
    GreaterOrEqual = 0x30,
    NotEqual = 0x50,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    /// Pass the packet to the kernel.
    Pass,
    /// IPv6.
    V6,
    /// R5 holds the destination port in network byte order.
    Port,
    /// The packet does not have the address with this number.
    NotAddress(usize),
}

enum Line {
    Plain(Instruction),
    Jump(Instruction, Label),
    Here(Label),
}

const CLASS_LOAD_IMMEDIATE: u8 = 0x18; // BPF_LD | BPF_DW | BPF_IMM
const CLASS_LOAD: u8 = 0x61; // BPF_LDX | BPF_MEM
const CLASS_ALU32: u8 = 0x04;
const CLASS_ALU64: u8 = 0x07;
const CLASS_JUMP: u8 = 0x05;
const CLASS_JUMP32: u8 = 0x06;
const SOURCE_REGISTER: u8 = 0x08;
const OP_ADD: u8 = 0x00;
const OP_SUB: u8 = 0x10;
const OP_MUL: u8 = 0x20;
const OP_AND: u8 = 0x50;
const OP_MOVE: u8 = 0xb0;
const OP_TO_BIG_ENDIAN: u8 = 0xd8; // BPF_END | BPF_TO_BE
const OP_CALL: u8 = 0x80;
const OP_EXIT: u8 = 0x90;
/// The immediate is the descriptor of a map.
const PSEUDO_MAP: u8 = 1;
/// `bpf_redirect_map`: R1 is the map, R2 the key, R3 the result if the key is missing.
const REDIRECT_MAP: i32 = 51;

const XDP_PASS: i32 = 2;

/// Fields of `struct xdp_md`.
const CONTEXT_DATA: i16 = 0;
const CONTEXT_DATA_END: i16 = 4;
const CONTEXT_QUEUE: i16 = 16;

const fn instruction(code: u8, to: Register, from: u8, offset: i16, immediate: i32) -> Line {
    Line::Plain(Instruction { code, registers: to as u8 | from << 4, offset, immediate })
}

/// `to = *(width *)(base + offset)`
const fn load(width: Width, to: Register, base: Register, offset: i16) -> Line {
    instruction(CLASS_LOAD | width as u8, to, base as u8, offset, 0)
}

/// `to = from`
const fn copy(to: Register, from: Register) -> Line {
    instruction(CLASS_ALU64 | OP_MOVE | SOURCE_REGISTER, to, from as u8, 0, 0)
}

/// `to = value`
const fn set(to: Register, value: i32) -> Line {
    instruction(CLASS_ALU64 | OP_MOVE, to, 0, 0, value)
}

/// `to = to + value`, of a pointer
const fn advance(to: Register, value: i32) -> Line {
    instruction(CLASS_ALU64 | OP_ADD, to, 0, 0, value)
}

/// `to = to <operation> value`, of 32 bits
const fn compute(operation: u8, to: Register, value: i32) -> Line {
    instruction(CLASS_ALU32 | operation, to, 0, 0, value)
}

/// `to = to + from`, of 32 bits
const fn add(to: Register, from: Register) -> Line {
    instruction(CLASS_ALU32 | OP_ADD | SOURCE_REGISTER, to, from as u8, 0, 0)
}

/// Converts 16 bits from network to host byte order.
const fn from_wire(to: Register) -> Line {
    instruction(CLASS_ALU32 | OP_TO_BIG_ENDIAN, to, 0, 0, 16)
}

/// `if left <condition> value goto target`, of 32 bits
const fn jump(condition: If, left: Register, value: i32, target: Label) -> Line {
    let instruction = Instruction {
        code: CLASS_JUMP32 | condition as u8,
        registers: left as u8,
        offset: 0,
        immediate: value,
    };
    Line::Jump(instruction, target)
}

/// `if left > right goto target`, of pointers
const fn jump_if_beyond(left: Register, right: Register, target: Label) -> Line {
    let code = CLASS_JUMP | If::Greater as u8 | SOURCE_REGISTER;
    let registers = left as u8 | (right as u8) << 4;
    Line::Jump(Instruction { code, registers, offset: 0, immediate: 0 }, target)
}

/// `goto target`
const fn go(target: Label) -> Line {
    let code = CLASS_JUMP | If::Always as u8;
    Line::Jump(Instruction { code, registers: 0, offset: 0, immediate: 0 }, target)
}

const fn call(function: i32) -> Line {
    instruction(CLASS_JUMP | OP_CALL, R0, 0, 0, function)
}

const fn exit() -> Line {
    instruction(CLASS_JUMP | OP_EXIT, R0, 0, 0, 0)
}

/// A number in network byte order, as a load returns it.
fn wire16(number: u16) -> i32 {
    i32::from(number.to_be())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    /// Only packets to this card: it may be in promiscuous mode.
    pub(super) mac: Mac,
    /// The addresses; an unspecified one stands for all of its family.
    pub(super) addresses: Vec<IpAddr>,
    /// The first port, …
    pub(super) first_port: u16,
    /// … and the number of ports.
    pub(super) ports: u32,
    /// The number of queues. The map's key is `queue * ports + (port - first_port)`.
    pub(super) queues: u32,
}

const ETHERTYPE: i16 = 12;
const V4: i16 = 14;
const V4_HEADERS: i32 = 14 + 20 + 8;
const V6: i16 = 14;
const V6_HEADERS: i32 = 14 + 40 + 8;
const UDP: i32 = 17;

/// Assembles the program for a filter, with the descriptor of its socket map.
pub(super) fn program(filter: &Filter, map: i32) -> Vec<Instruction> {
    let [m0, m1, m2, m3, m4, m5] = filter.mac;
    let mut lines = vec![
        load(Word, R2, R1, CONTEXT_DATA),
        load(Word, R3, R1, CONTEXT_DATA_END),
        // Shorter than the shortest UDP packet.
        copy(R4, R2),
        advance(R4, V4_HEADERS),
        jump_if_beyond(R4, R3, Label::Pass),
        // Another destination, multicast, or broadcast.
        load(Word, R5, R2, 0),
        jump(If::NotEqual, R5, i32::from_ne_bytes([m0, m1, m2, m3]), Label::Pass),
        load(Half, R5, R2, 4),
        jump(If::NotEqual, R5, i32::from(u16::from_ne_bytes([m4, m5])), Label::Pass),
        load(Half, R5, R2, ETHERTYPE),
        jump(If::Equal, R5, wire16(0x86dd), Label::V6),
        jump(If::NotEqual, R5, wire16(0x0800), Label::Pass),
        // Version 4, and a header of 5 words: no options.
        load(Byte, R5, R2, V4),
        jump(If::NotEqual, R5, 0x45, Label::Pass),
        load(Byte, R5, R2, V4 + 9),
        jump(If::NotEqual, R5, UDP, Label::Pass),
        // A fragment.
        load(Half, R5, R2, V4 + 6),
        compute(OP_AND, R5, wire16(0x3fff)),
        jump(If::NotEqual, R5, 0, Label::Pass),
    ];
    let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = filter.addresses.iter().partition(|address| address.is_ipv4());
    check_address(&mut lines, &v4, 0, V4 + 16, V4 + 20 + 2);
    lines.extend([
        Line::Here(Label::V6),
        copy(R4, R2),
        advance(R4, V6_HEADERS),
        jump_if_beyond(R4, R3, Label::Pass),
        load(Byte, R5, R2, V6 + 6),
        jump(If::NotEqual, R5, UDP, Label::Pass),
    ]);
    check_address(&mut lines, &v6, v4.len(), V6 + 24, V6 + 40 + 2);
    lines.extend([
        Line::Here(Label::Port),
        from_wire(R5),
        // A port below the first has wrapped around to a large number.
        compute(OP_SUB, R5, i32::from(filter.first_port)),
        jump(If::GreaterOrEqual, R5, filter.ports as i32, Label::Pass),
        load(Word, R2, R1, CONTEXT_QUEUE),
        jump(If::GreaterOrEqual, R2, filter.queues as i32, Label::Pass),
        compute(OP_MUL, R2, filter.ports as i32),
        add(R2, R5),
        instruction(CLASS_LOAD_IMMEDIATE, R1, PSEUDO_MAP, 0, map),
        // The second half of the address.
        instruction(0, R0, 0, 0, 0),
        set(R3, XDP_PASS),
        call(REDIRECT_MAP),
        exit(),
        Line::Here(Label::Pass),
        set(R0, XDP_PASS),
        exit(),
    ]);
    assemble(&lines)
}

/// Jumps to [`Label::Port`] with the port in R5 if the address at `at` is one of these, else to [`Label::Pass`].
/// `number` is that of the first address, for labels.
fn check_address(lines: &mut Vec<Line>, addresses: &[IpAddr], number: usize, at: i16, port: i16) {
    if addresses.iter().any(IpAddr::is_unspecified) {
        lines.extend([load(Half, R5, R2, port), go(Label::Port)]);
        return;
    }
    for (address, number) in addresses.iter().zip(number..) {
        let octets = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        for (word, at) in octets.chunks_exact(4).zip((at..).step_by(4)) {
            let word = i32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
            lines.extend([load(Word, R5, R2, at), jump(If::NotEqual, R5, word, Label::NotAddress(number))]);
        }
        lines.extend([load(Half, R5, R2, port), go(Label::Port), Line::Here(Label::NotAddress(number))]);
    }
    lines.push(go(Label::Pass));
}

/// Resolves labels to distances. All jumps go forward.
fn assemble(lines: &[Line]) -> Vec<Instruction> {
    let mut program = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        match line {
            Line::Plain(instruction) => program.push(*instruction),
            Line::Jump(instruction, target) => {
                let after = &lines[index + 1..];
                let between =
                    after.iter().take_while(|line| !matches!(line, Line::Here(label) if label == target));
                let distance = between.filter(|line| !matches!(line, Line::Here(_))).count();
                program.push(Instruction { offset: distance as i16, ..*instruction });
            }
            Line::Here(_) => {}
        }
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(addresses: &[&str]) -> Filter {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Filter { mac: [2, 0, 0, 0, 0, 1], addresses, first_port: 11211, ports: 4, queues: 2 }
    }

    #[test]
    fn instructions_look_as_the_kernel_expects_them() {
        assert_eq!(size_of::<Instruction>(), 8);
        let program = program(&filter(&["0.0.0.0", "::"]), 42);
        let bytes = |at: usize| (program[at].code, program[at].registers, program[at].offset);
        // r2 = *(u32 *)(r1 + 0); r3 = *(u32 *)(r1 + 4); r4 = r2; r4 += 42
        assert_eq!([bytes(0), bytes(1), bytes(2)], [(0x61, 0x12, 0), (0x61, 0x13, 4), (0xbf, 0x24, 0)]);
        assert_eq!((bytes(3), program[3].immediate), ((0x07, 0x04, 0), 42));
        // if r4 > r3 goto the last two
        assert_eq!(bytes(4), (0x2d, 0x34, (program.len() - 2 - 5) as i16));
        assert!(program.iter().any(|line| (line.code, line.registers, line.immediate) == (0x18, 0x11, 42)));
        assert_eq!(program[program.len() - 2].immediate, XDP_PASS);
        assert_eq!(program[program.len() - 1].code, 0x95);
    }

    #[test]
    fn jumps_end_where_their_label_is() {
        let all = [
            Line::Here(Label::V6),
            go(Label::Port),
            exit(),
            Line::Here(Label::NotAddress(1)),
            exit(),
            Line::Here(Label::Port),
            exit(),
        ];
        assert_eq!(assemble(&all)[0].offset, 2);
    }

    #[test]
    fn no_address_of_a_family_means_none_of_its_packets() {
        let none = program(&filter(&["10.0.0.1"]), 1);
        let any = program(&filter(&["10.0.0.1", "::"]), 1);
        let one = program(&filter(&["10.0.0.1", "fd00::1"]), 1);
        assert_eq!((any.len() - none.len(), one.len() - none.len()), (1, 10));
    }
}
