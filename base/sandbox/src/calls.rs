//! The table of system calls: what a serving process may call, and why. The numbers are those of Linux on x86-64 and on
//! arm64, which has only the newer of calls that mean the same.

/// A system call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    /// The number in this architecture; `None` if it has no such call.
    x86_64: Option<u32>,
    aarch64: Option<u32>,
    pub(crate) when: When,
}

/// The arguments with which a row applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    Naming,
    WriteOrExecute,
    NoCode,
    Families,
    NonBlocking,
    LimitRead,
    OwnProcess,
    Abort,
    EntryRemoval,
    NewProcess,
}

impl When {
    /// What the arguments are, in words.
    pub(crate) fn description(self) -> Option<&'static str> {
        let words = match self {
            When::Always => return None,
            When::Naming => "names a thread or memory",
            When::WriteOrExecute => "not both writable and executable",
            When::NoCode => "not executable",
            // The C library lists the addresses of this host when it resolves a name.
            When::Families => "IPv4, IPv6, UNIX; addresses of this host by netlink",
            When::NonBlocking => "FIONBIO",
            When::LimitRead => "reads a limit",
            When::OwnProcess => "to the process itself",
            // As musl's `abort` sends it.
            When::Abort => "SIGABRT",
            When::EntryRemoval => "removes an entry of a map",
            When::NewProcess => "without CLONE_THREAD",
        };
        Some(words)
    }
}

/// An architecture whose calls have numbers in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arch {
    X86_64,
    Aarch64,
}

/// Calls with the same reason.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) reason: &'static str,
    pub(crate) calls: &'static [Call],
}

impl Call {
    const fn when(self, when: When) -> Self {
        Call { when, ..self }
    }

    pub(crate) fn number(&self, arch: Arch) -> Option<u32> {
        match arch {
            Arch::X86_64 => self.x86_64,
            Arch::Aarch64 => self.aarch64,
        }
    }
}

const fn both(name: &'static str, x86_64: u32, aarch64: u32) -> Call {
    Call { name, x86_64: Some(x86_64), aarch64: Some(aarch64), when: When::Always }
}

const fn on_x86(name: &'static str, number: u32) -> Call {
    Call { name, x86_64: Some(number), aarch64: None, when: When::Always }
}

use When::{
    Abort, EntryRemoval, Families, LimitRead, Naming, NewProcess, NoCode, NonBlocking, OwnProcess,
    WriteOrExecute,
};

/// The calls that a process may make once it serves.
pub(crate) const LISTED: &[Group] = &[
    Group {
        reason: "threads: workers, background tasks, the log, the resolver",
        calls: &[
            both("futex", 202, 98),
            both("set_robust_list", 273, 99),
            both("rseq", 334, 293),
            both("set_tid_address", 218, 96),
            both("gettid", 186, 178),
            both("sched_yield", 24, 124),
            both("sched_getaffinity", 204, 123),
            both("sched_setaffinity", 203, 122),
            both("getpriority", 140, 141),
            both("setpriority", 141, 140),
            both("sigaltstack", 131, 132),
            both("prctl", 157, 167).when(Naming),
            both("exit", 60, 93),
            both("exit_group", 231, 94),
        ],
    },
    Group {
        reason: "memory that grows, shrinks and is locked while the server runs",
        calls: &[
            both("mmap", 9, 222).when(WriteOrExecute),
            both("mprotect", 10, 226).when(NoCode),
            both("munmap", 11, 215),
            both("mremap", 25, 216),
            both("madvise", 28, 233),
            both("brk", 12, 214),
            both("mlock2", 325, 284),
            both("munlock", 150, 229),
            both("msync", 26, 227),
            both("memfd_create", 319, 279),
        ],
    },
    Group {
        reason: "clocks, where the kernel does not offer them without a call, and timeouts",
        calls: &[
            both("clock_gettime", 228, 113),
            both("clock_nanosleep", 230, 115),
            both("nanosleep", 35, 101),
            both("gettimeofday", 96, 169),
            on_x86("time", 201),
        ],
    },
    Group {
        reason: "event loops of workers, of the resolver and of signals",
        calls: &[
            both("epoll_create1", 291, 20),
            both("epoll_ctl", 233, 21),
            on_x86("epoll_wait", 232),
            both("epoll_pwait", 281, 22),
            both("epoll_pwait2", 441, 441),
            both("eventfd2", 290, 19),
            on_x86("poll", 7),
            both("ppoll", 271, 73),
            both("restart_syscall", 219, 128),
        ],
    },
    Group {
        reason: "reads and writes of sockets and files",
        calls: &[
            both("read", 0, 63),
            both("write", 1, 64),
            both("readv", 19, 65),
            both("writev", 20, 66),
            both("pread64", 17, 67),
            both("pwrite64", 18, 68),
            both("recvfrom", 45, 207),
            both("sendto", 44, 206),
            both("recvmsg", 47, 212),
            both("sendmsg", 46, 211),
            both("recvmmsg", 299, 243),
            both("sendmmsg", 307, 269),
            both("close", 3, 57),
            both("shutdown", 48, 210),
        ],
    },
    Group {
        reason: "sockets of clients, servers behind a router, name servers, the service manager and a successor",
        calls: &[
            both("socket", 41, 198).when(Families),
            both("socketpair", 53, 199),
            both("bind", 49, 200),
            both("listen", 50, 201),
            both("accept4", 288, 242),
            both("connect", 42, 203),
            both("getsockname", 51, 204),
            both("getpeername", 52, 205),
            both("getsockopt", 55, 209),
            both("setsockopt", 54, 208),
            both("ioctl", 16, 29).when(NonBlocking),
        ],
    },
    Group {
        reason: "files: configurations, certificates, regions, spools, positions, /proc",
        calls: &[
            on_x86("open", 2),
            both("openat", 257, 56),
            both("fstat", 5, 80),
            on_x86("stat", 4),
            on_x86("lstat", 6),
            both("newfstatat", 262, 79),
            both("statx", 332, 291),
            on_x86("access", 21),
            both("faccessat", 269, 48),
            both("faccessat2", 439, 439),
            on_x86("readlink", 89),
            both("readlinkat", 267, 78),
            both("getdents64", 217, 61),
            both("getcwd", 79, 17),
            both("lseek", 8, 62),
            both("fcntl", 72, 25),
            both("flock", 73, 32),
            both("fsync", 74, 82),
            both("fdatasync", 75, 83),
            both("ftruncate", 77, 46),
            both("fallocate", 285, 47),
            both("statfs", 137, 43),
            both("fstatfs", 138, 44),
            on_x86("mkdir", 83),
            both("mkdirat", 258, 34),
            on_x86("rename", 82),
            both("renameat", 264, 38),
            both("renameat2", 316, 276),
            on_x86("unlink", 87),
            both("unlinkat", 263, 35),
            on_x86("rmdir", 84),
            both("umask", 95, 166),
            both("fchmod", 91, 52),
            both("utimensat", 280, 88),
            both("inotify_init1", 294, 26),
            both("inotify_add_watch", 254, 27),
            both("inotify_rm_watch", 255, 28),
        ],
    },
    Group {
        reason: "the process itself: statistics, seeds of hashes, signals, a crash with a core file",
        calls: &[
            both("getpid", 39, 172),
            both("getppid", 110, 173),
            both("getuid", 102, 174),
            both("geteuid", 107, 175),
            both("getgid", 104, 176),
            both("getegid", 108, 177),
            both("getrlimit", 97, 163),
            both("prlimit64", 302, 261).when(LimitRead),
            both("sysinfo", 99, 179),
            both("uname", 63, 160),
            both("getrandom", 318, 278),
            both("getcpu", 309, 168),
            both("rt_sigaction", 13, 134),
            both("rt_sigprocmask", 14, 135),
            both("rt_sigreturn", 15, 139),
            both("kill", 62, 129).when(OwnProcess),
            both("tgkill", 234, 131).when(OwnProcess),
            both("tkill", 200, 130).when(Abort),
            on_x86("uretprobe", 335),
        ],
    },
    Group {
        reason: "takeover: waiting for the other process, and ending one that fails",
        calls: &[both("pidfd_open", 434, 434), both("pidfd_send_signal", 424, 424)],
    },
    Group {
        reason: "the option xdp: at the stop, packets go to the kernel again",
        calls: &[both("bpf", 321, 280).when(EntryRemoval)],
    },
];

/// Refused with EPERM, and not counted: the C library blocks signals around these calls, and a blocked SIGSYS ends the
/// process. A `clone` that starts a thread is allowed.
pub(crate) const NEW_PROCESSES: &[Group] = &[Group {
    reason: "new processes; a clone that starts a thread is allowed",
    calls: &[both("clone", 56, 220).when(NewProcess), on_x86("fork", 57), on_x86("vfork", 58)],
}];

/// Refused with ENOSYS, and not counted: the arguments are in memory, where a filter cannot read them. The C library then
/// calls `clone`.
pub(crate) const UNREADABLE: &[Group] = &[Group {
    reason: "new threads and processes, by arguments in memory",
    calls: &[both("clone3", 435, 435)],
}];

/// Calls that must never be in the list: refused with EPERM. All other calls are refused with ENOSYS.
pub(crate) const FORBIDDEN: &[Group] = &[
    Group {
        reason: "other programs: a serving process starts none",
        calls: &[both("execve", 59, 221), both("execveat", 322, 281)],
    },
    Group {
        reason: "memory and descriptors of other processes",
        calls: &[
            both("ptrace", 101, 117),
            both("process_vm_readv", 310, 270),
            both("process_vm_writev", 311, 271),
            both("process_madvise", 440, 440),
            both("pidfd_getfd", 438, 438),
            both("kcmp", 312, 272),
        ],
    },
    Group {
        reason: "mounts and namespaces: ways out of a container",
        calls: &[
            both("mount", 165, 40),
            both("umount2", 166, 39),
            both("pivot_root", 155, 41),
            both("chroot", 161, 51),
            both("move_mount", 429, 429),
            both("open_tree", 428, 428),
            both("mount_setattr", 442, 442),
            both("fsopen", 430, 430),
            both("fsconfig", 431, 431),
            both("fsmount", 432, 432),
            both("fspick", 433, 433),
            both("unshare", 272, 97),
            both("setns", 308, 268),
            both("open_by_handle_at", 304, 265),
            both("name_to_handle_at", 303, 264),
            both("quotactl", 179, 60),
            both("quotactl_fd", 443, 443),
        ],
    },
    Group {
        reason: "code and ports of the kernel",
        calls: &[
            both("init_module", 175, 105),
            both("finit_module", 313, 273),
            both("delete_module", 176, 106),
            both("kexec_load", 246, 104),
            both("kexec_file_load", 320, 294),
            both("reboot", 169, 142),
            on_x86("iopl", 172),
            on_x86("ioperm", 173),
            on_x86("modify_ldt", 154),
        ],
    },
    Group {
        reason: "large interfaces whose defects have often given privileges",
        calls: &[
            both("io_uring_setup", 425, 425),
            both("io_uring_enter", 426, 426),
            both("io_uring_register", 427, 427),
            both("userfaultfd", 323, 282),
            both("perf_event_open", 298, 241),
            both("add_key", 248, 217),
            both("request_key", 249, 218),
            both("keyctl", 250, 219),
            both("personality", 135, 92),
            both("seccomp", 317, 277),
        ],
    },
    Group {
        reason: "identity: privileges are dropped before",
        calls: &[
            both("setuid", 105, 146),
            both("setgid", 106, 144),
            both("setreuid", 113, 145),
            both("setregid", 114, 143),
            both("setresuid", 117, 147),
            both("setresgid", 119, 149),
            both("setfsuid", 122, 151),
            both("setfsgid", 123, 152),
            both("setgroups", 116, 159),
            both("capset", 126, 91),
        ],
    },
    Group {
        reason: "settings of the machine",
        calls: &[
            both("settimeofday", 164, 170),
            both("clock_settime", 227, 112),
            both("adjtimex", 159, 171),
            both("clock_adjtime", 305, 266),
            both("sethostname", 170, 161),
            both("setdomainname", 171, 162),
            both("swapon", 167, 224),
            both("swapoff", 168, 225),
            both("acct", 163, 89),
            both("syslog", 103, 116),
        ],
    },
];
