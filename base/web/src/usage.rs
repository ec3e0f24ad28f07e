//! What the process takes of the machine.

/// What the process takes, as the system tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time outside of the kernel and in it, in seconds.
    pub user: String,
    pub system: String,
    /// Bytes of memory that are in use.
    pub resident: u64,
    /// Bytes of addresses.
    pub address_space: u64,
}

impl Usage {
    /// What it has taken until now.
    pub fn now() -> Self {
        let read = |path: &str| guira_disk::read_to_string(path).unwrap_or_default();
        Self::of(&read("/proc/self/stat"), &read("/proc/self/status"))
    }

    fn of(stat: &str, status: &str) -> Self {
        // Fields 14 and 15, counted after the name, which may contain blanks: in hundredths of a second.
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
        let seconds = |index: usize| {
            let ticks: u64 = fields.get(index).and_then(|field| field.parse().ok()).unwrap_or(0);
            format!("{}.{:06}", ticks / 100, ticks % 100 * 10_000)
        };
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
            kib.unwrap_or(0) * 1024
        };
        let (user, system) = (seconds(11), seconds(12));
        Usage { user, system, resident: bytes("VmRSS"), address_space: bytes("VmSize") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_lines_are_read() {
        let stat = "1 (a) b) S 1 1 1 0 -1 0 0 0 0 0 205 1234567 0 0 20 0 5";
        let usage = Usage::of(stat, "Name:\tx\nVmSize:\t  20 kB\nVmRSS:\t   3 kB\n");
        assert_eq!((usage.user.as_str(), usage.system.as_str()), ("2.050000", "12345.670000"));
        assert_eq!((usage.resident, usage.address_space), (3 << 10, 20 << 10));
        assert_eq!(
            Usage::of("", ""),
            Usage { user: "0.000000".into(), system: "0.000000".into(), ..Usage::default() }
        );
        assert!(Usage::now().resident > 0);
    }
}
