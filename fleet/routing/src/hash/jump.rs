//! Jump consistent hash (Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm", 2014). As with Ch3, a server appended takes
//! its share and no other key moves.

use super::ch3::MOST_SERVERS;
use super::error::HashError;
use super::server::index_limit;

#[derive(Clone, Copy, Debug)]
pub(super) struct Jump {
    servers: u32,
}

impl Jump {
    pub(super) fn new(servers: usize) -> Result<Self, HashError> {
        Ok(Self { servers: index_limit(servers, MOST_SERVERS)? })
    }

    pub(super) fn pick(self, mut hash: u64) -> u32 {
        let servers = i64::from(self.servers);
        let (mut server, mut next) = (0, 0);
        while next < servers {
            server = next;
            hash = hash.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
            let divisor = ((hash >> 33) + 1) as f64;
            next = ((server + 1) as f64 * (f64::from(1u32 << 31) / divisor)) as i64;
        }
        server as u32
    }
}

#[cfg(test)]
mod tests {
    use super::Jump;

    /// dgryski/go-jump, jump_test.go at 4bb1613e21e95d67a9344229d275b1635135425c, made by the C++ code of the paper: for 1 server and more.
    #[test]
    fn vectors_of_the_papers_code() {
        for (hash, expected) in [
            (0, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            (1, [0, 0, 0, 0, 0, 0, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 17, 17]),
            (0xdead_beef, [0, 1, 2, 3, 3, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 16, 16, 16]),
            (0x0ddc_0ffe_ebad_f00d, [0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 15, 15, 15, 15]),
        ] {
            for (servers, expected) in (1..).zip(expected) {
                assert_eq!(Jump::new(servers).unwrap().pick(hash), expected, "{hash}, {servers} servers");
            }
        }
    }
}
