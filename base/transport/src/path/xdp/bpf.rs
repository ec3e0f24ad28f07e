//! bpf(2): a map of sockets, and a program that uses it at an interface.

use super::error::XdpError;
use super::program::Instruction;
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const MAP_DELETE: libc::c_int = 3;
const PROGRAM_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;

const MAP_OF_XDP_SOCKETS: u32 = 17;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const FLAG_GENERIC: u32 = 1 << 1;
const FLAG_NATIVE: u32 = 1 << 2;

/// The program's licence: none of the functions it calls requires a GPL one.
const LICENCE: &std::ffi::CStr = c"Apache-2.0";
const LOG_BYTES: usize = 64 << 10;

// Each of the following is a prefix of `union bpf_attr`; the kernel takes the remaining fields as zero.

#[derive(Default)]
#[repr(C)]
struct MapAttributes {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
}

#[derive(Default)]
#[repr(C)]
struct ElementAttributes {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[derive(Default)]
#[repr(C)]
struct ProgramAttributes {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[derive(Default)]
#[repr(C)]
struct LinkAttributes {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before the kernel allocates its own buffer for a packet.
    Native,
    /// In the kernel, after that, for any driver: slower.
    Generic,
}

/// # Safety
/// The attributes point to memory that is valid for the command: readable, and exclusive where the kernel writes.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> Result<libc::c_int, Errno> {
    // SAFETY: the attributes are readable for their length; the caller guarantees what they point to.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    if result < 0 {
        return Err(super::sys::last_error());
    }
    Ok(result as libc::c_int)
}

/// Like [`bpf`], for commands that return a new descriptor.
///
/// # Safety
/// As for [`bpf`], and the command returns a descriptor.
unsafe fn bpf_open<T>(command: libc::c_int, attributes: &T) -> Result<OwnedFd, Errno> {
    // SAFETY: guaranteed by the caller.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel has just created the descriptor; it closes on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A map from numbers to AF_XDP sockets.
#[derive(Debug)]
pub(super) struct SocketMap(OwnedFd);

impl SocketMap {
    /// An empty map, for keys below `entries`.
    pub(super) fn new(entries: u32) -> Result<Self, XdpError> {
        let attributes = MapAttributes {
            kind: MAP_OF_XDP_SOCKETS,
            key_size: 4,
            value_size: 4,
            entries,
            ..Default::default()
        };
        // SAFETY: there are no pointers, and the command returns a descriptor.
        let map = unsafe { bpf_open(MAP_CREATE, &attributes) };
        map.map(SocketMap).map_err(|errno| match errno {
            Errno::INVAL => XdpError::NoKernelSupport { step: "make a map of sockets", source: errno.into() },
            errno => XdpError::at("make a map of sockets")(errno),
        })
    }

    pub(super) fn raw(&self) -> i32 {
        self.0.as_raw_fd()
    }

    pub(super) fn insert(&self, key: u32, socket: impl AsFd) -> Result<(), XdpError> {
        let value = socket.as_fd().as_raw_fd();
        let attributes = ElementAttributes {
            map: self.raw() as u32,
            key: (&raw const key) as u64,
            value: (&raw const value) as u64,
            ..Default::default()
        };
        // SAFETY: key and value are 4 bytes each, as the map was created, and only read.
        let result = unsafe { bpf(MAP_UPDATE, &attributes) };
        result.map(|_| ()).map_err(XdpError::at("put a socket into the program's map"))
    }

    /// Removes the socket under a key: its packets go to the kernel again.
    pub(super) fn remove(&self, key: u32) {
        let attributes =
            ElementAttributes { map: self.raw() as u32, key: (&raw const key) as u64, ..Default::default() };
        // It fails only if there is no such key.
        // SAFETY: the key is 4 bytes, as the map was created, and only read.
        let _ = unsafe { bpf(MAP_DELETE, &attributes) };
    }
}

/// Loads a program into the kernel.
pub(super) fn load(program: &[Instruction]) -> Result<OwnedFd, XdpError> {
    let errno = match try_load(program, &mut []) {
        Ok(program) => return Ok(program),
        Err(errno) => errno,
    };
    if errno == Errno::PERM {
        return Err(XdpError::at("load the XDP program")(errno));
    }
    // Load it again, with the verifier's log.
    let mut log = vec![0; LOG_BYTES];
    try_load(program, &mut log).map_err(|_| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]).trim().replace('\n', "; ");
        XdpError::ProgramRefused { log, source: errno.into() }
    })
}

fn try_load(program: &[Instruction], log: &mut [u8]) -> Result<OwnedFd, Errno> {
    let mut attributes = ProgramAttributes {
        kind: PROGRAM_XDP,
        instruction_count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        attach_type: ATTACH_XDP,
        ..Default::default()
    };
    attributes.name[..5].copy_from_slice(b"guira");
    if !log.is_empty() {
        attributes.log_level = 1;
        attributes.log_size = log.len() as u32;
        attributes.log = log.as_mut_ptr() as u64;
    }
    // SAFETY: instructions and licence are readable for their lengths, and the log is writable and exclusive; the
    // command returns a descriptor.
    unsafe { bpf_open(PROGRAM_LOAD, &attributes) }
}

/// Attaches a program to an interface while the returned descriptor is open; the kernel detaches it even if this
/// process is killed.
pub(super) fn attach(program: &OwnedFd, interface: u32, mode: XdpMode) -> Result<OwnedFd, Errno> {
    let flags = match mode {
        XdpMode::Native => FLAG_NATIVE,
        XdpMode::Generic => FLAG_GENERIC,
    };
    let attributes =
        LinkAttributes { program: program.as_raw_fd() as u32, interface, attach_type: ATTACH_XDP, flags };
    // SAFETY: there are no pointers, and the command returns a descriptor.
    unsafe { bpf_open(LINK_CREATE, &attributes) }
}
