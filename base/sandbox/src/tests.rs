//! The table and its filters, for both architectures: filters are executed here as the kernel would.

use crate::calls::{Arch, FORBIDDEN, LISTED, NEW_PROCESSES, UNREADABLE};
use crate::filter::{calls, filters};
use crate::{ARCH, SystemCalls};
use seccompiler::{BpfProgram, SeccompAction};
use std::collections::HashSet;

const ARCHES: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];
const PROCESS: u32 = 4711;
const KILL: u32 = 0x8000_0000;

fn refused(errno: u32) -> u32 {
    SeccompAction::Errno(errno).into()
}

fn allowed() -> u32 {
    SeccompAction::Allow.into()
}

fn trapped() -> u32 {
    SeccompAction::Trap.into()
}

/// The words of `struct seccomp_data`.
fn data(audit: u32, number: u32, arguments: [u64; 6]) -> Vec<u32> {
    let halves = arguments.into_iter().flat_map(|argument| [argument as u32, (argument >> 32) as u32]);
    [number, audit, 0, 0].into_iter().chain(halves).collect()
}

/// Executes a program, with the instructions of classic BPF that these filters have.
fn execute(program: &BpfProgram, data: &[u32]) -> u32 {
    let (mut at, mut accumulator) = (0, 0);
    loop {
        let it = &program[at];
        at += 1;
        let mut jump = |is_true: bool| at += usize::from(if is_true { it.jt } else { it.jf });
        match it.code {
            0x20 => accumulator = data[it.k as usize / 4],
            0x54 => accumulator &= it.k,
            0x05 => at += it.k as usize,
            0x15 => jump(accumulator == it.k),
            0x06 => return it.k,
            code => panic!("an instruction that this interpreter lacks: {code:#x}"),
        }
    }
}

/// The kernel's verdict on a call: the most severe action, and of equal ones that of the newest filter.
fn verdict(arch: Arch, number: u32, arguments: [u64; 6]) -> u32 {
    let audit = match arch {
        Arch::X86_64 => 0xc000_003e,
        Arch::Aarch64 => 0xc000_00b7,
    };
    let data = data(audit, number, arguments);
    let programs = filters(arch, PROCESS).unwrap();
    let severity = |action: &u32| (action & 0xffff_0000) as i32;
    programs.iter().rev().map(|program| execute(program, &data)).min_by_key(severity).unwrap()
}

fn verdict_on(arch: Arch, name: &str, arguments: [u64; 6]) -> u32 {
    let tables = [LISTED, FORBIDDEN, NEW_PROCESSES, UNREADABLE];
    let call = tables.into_iter().flat_map(calls).find(|call| call.name == name).unwrap();
    verdict(arch, call.number(arch).unwrap(), arguments)
}

#[test]
fn no_call_is_in_the_table_twice() {
    let mut names = HashSet::new();
    let mut numbers = HashSet::new();
    for call in [LISTED, FORBIDDEN, NEW_PROCESSES, UNREADABLE].into_iter().flat_map(calls) {
        assert!(names.insert(call.name), "{} is there twice", call.name);
        for arch in ARCHES {
            let number = call.number(arch);
            let is_new = number.is_none_or(|number| numbers.insert((number, arch == Arch::X86_64)));
            assert!(is_new, "the number of {} is there twice", call.name);
        }
    }
}

#[test]
fn both_architectures_allow_what_servers_call() {
    for arch in ARCHES {
        for name in
            ["read", "epoll_pwait", "accept4", "sendmsg", "futex", "openat", "clock_gettime", "exit_group"]
        {
            assert_eq!(verdict_on(arch, name, [0; 6]), allowed(), "{name} on {arch:?}");
        }
    }
}

#[test]
fn forbidden_and_unknown_calls_are_trapped() {
    for arch in ARCHES {
        for call in calls(FORBIDDEN) {
            if let Some(number) = call.number(arch) {
                assert_eq!(verdict(arch, number, [0; 6]), trapped(), "{} on {arch:?}", call.name);
            }
        }
        assert_eq!(verdict(arch, 500, [0; 6]), trapped());
    }
    // The second set of numbers of x86-64, for pointers of 32 bits: execve.
    assert_eq!(verdict(Arch::X86_64, 0x4000_0208, [0; 6]), trapped());
}

#[test]
fn threads_are_started_and_processes_are_not() {
    const THREAD: u64 = 0x3d_0f00;
    for arch in ARCHES {
        assert_eq!(verdict_on(arch, "clone", [THREAD, 0, 0, 0, 0, 0]), allowed());
        assert_eq!(verdict_on(arch, "clone", [0x11, 0, 0, 0, 0, 0]), refused(1));
        assert_eq!(verdict_on(arch, "clone3", [0; 6]), refused(38));
    }
    assert_eq!(verdict_on(Arch::X86_64, "vfork", [0; 6]), refused(1));
}

#[test]
fn memory_is_never_writable_and_executable() {
    for arch in ARCHES {
        let verdict = |name, protection| verdict_on(arch, name, [0, 4096, protection, 0, 0, 0]);
        assert_eq!(verdict("mmap", 3), allowed());
        assert_eq!(verdict("mmap", 5), allowed(), "code of a library");
        assert_eq!(verdict("mmap", 7), trapped());
        assert_eq!(verdict("mprotect", 3), allowed());
        assert_eq!(verdict("mprotect", 5), trapped());
    }
}

#[test]
fn arguments_decide_about_signals_limits_and_sockets() {
    let (own, other, high) = (u64::from(PROCESS), 1, 1 << 40);
    for arch in ARCHES {
        let verdict = |name, first, second, third| verdict_on(arch, name, [first, second, third, 0, 0, 0]);
        assert_eq!(verdict("kill", own, 12, 0), allowed());
        assert_eq!(verdict("kill", other, 9, 0), trapped());
        assert_eq!(verdict("tgkill", own, 5, 6), allowed());
        assert_eq!(verdict("tkill", 5, 6, 0), allowed());
        assert_eq!(verdict("tkill", 5, 9, 0), trapped());
        assert_eq!(verdict("prlimit64", 0, 7, 0), allowed());
        assert_eq!(verdict("prlimit64", 0, 7, high), trapped());
        assert_eq!(verdict("socket", 2, 1, 0), allowed());
        assert_eq!(verdict("socket", 16, 3, 0), allowed());
        assert_eq!(verdict("socket", 16, 3, 12), trapped(), "the firewall");
        assert_eq!(verdict("socket", 38, 5, 0), trapped(), "AF_ALG");
        assert_eq!(verdict("prctl", 15, 0, 0), allowed());
        assert_eq!(verdict("prctl", 4, 1, 0), trapped(), "PR_SET_DUMPABLE");
        assert_eq!(verdict("bpf", 3, 0, 0), allowed());
        assert_eq!(verdict("bpf", 5, 0, 0), trapped());
    }
}

#[test]
fn a_call_of_another_architecture_ends_the_process() {
    let data = data(0x4000_0003, 11, [0; 6]);
    let programs = filters(Arch::X86_64, PROCESS).unwrap();
    assert!(programs.iter().all(|program| execute(program, &data) == KILL));
}

#[test]
fn the_numbers_are_those_of_this_system() {
    let Some(arch) = ARCH else { return };
    let known = [
        ("execve", libc::SYS_execve),
        ("clone", libc::SYS_clone),
        ("mmap", libc::SYS_mmap),
        ("mprotect", libc::SYS_mprotect),
        ("futex", libc::SYS_futex),
        ("read", libc::SYS_read),
        ("recvfrom", libc::SYS_recvfrom),
        ("sendmsg", libc::SYS_sendmsg),
        ("epoll_pwait", libc::SYS_epoll_pwait),
        ("accept4", libc::SYS_accept4),
        ("openat", libc::SYS_openat),
        ("newfstatat", libc::SYS_newfstatat),
        ("fstat", libc::SYS_fstat),
        ("statx", libc::SYS_statx),
        ("renameat2", libc::SYS_renameat2),
        ("unlinkat", libc::SYS_unlinkat),
        ("getrandom", libc::SYS_getrandom),
        ("rt_sigreturn", libc::SYS_rt_sigreturn),
        ("tgkill", libc::SYS_tgkill),
        ("madvise", libc::SYS_madvise),
        ("mlock2", libc::SYS_mlock2),
        ("prlimit64", libc::SYS_prlimit64),
        ("pidfd_open", libc::SYS_pidfd_open),
        ("bpf", libc::SYS_bpf),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("exit_group", libc::SYS_exit_group),
    ];
    for (name, number) in known {
        let call =
            [LISTED, FORBIDDEN, NEW_PROCESSES].into_iter().flat_map(calls).find(|call| call.name == name);
        assert_eq!(call.unwrap().number(arch).map(i64::from), Some(number), "{name}");
    }
}

#[test]
fn the_option_is_one_of_two_words() {
    for one in [SystemCalls::All, SystemCalls::Listed] {
        assert_eq!(one.to_string().parse(), Ok(one));
    }
    assert!("some".parse::<SystemCalls>().is_err());
    assert_eq!(SystemCalls::default(), SystemCalls::All);
}
