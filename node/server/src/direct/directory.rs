//! The directory that clients read to send their datagrams to the right worker.

use guira_contract::{Access, Partitioning};
use guira_protocol::mica::{Directory, HashFunction, PartitionAccess};
use guira_transport::PAYLOAD_MAX;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Describes a server whose first worker takes datagrams at `port`.
pub(crate) fn describe(partitioning: Option<Partitioning>, workers: usize, port: u16) -> Directory {
    let access = match partitioning.map(|partitioning| partitioning.access) {
        None => PartitionAccess::Shared,
        Some(Access::Erew) => PartitionAccess::Erew,
        Some(Access::Crew) => PartitionAccess::Crew,
        Some(Access::Crcw) => PartitionAccess::Crcw,
    };
    let hash = if partitioning.is_some() { HashFunction::RapidMicro } else { HashFunction::Servers };
    let (bits, seed) =
        partitioning.map_or((0, 0), |partitioning| (partitioning.bits as u16, partitioning.seed));
    // A client with another division or another hash has another generation, and is refused.
    let mut hasher = DefaultHasher::new();
    (access as u8, hash as u8, bits, seed, workers).hash(&mut hasher);
    Directory {
        generation: hasher.finish() as u32,
        access,
        hash,
        cores: workers as u16,
        partition_bits: bits,
        port,
        seed,
        datagram_max: PAYLOAD_MAX as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_contract::KeyHash;

    #[test]
    fn whatever_changes_where_keys_are_changes_the_generation() {
        let usual = Partitioning { bits: 4, access: Access::Erew, seed: 1 };
        let all = [
            describe(None, 2, 1),
            describe(Some(usual), 2, 1),
            describe(Some(usual), 3, 1),
            describe(Some(Partitioning { bits: 5, ..usual }), 2, 1),
            describe(Some(Partitioning { seed: 2, ..usual }), 2, 1),
            describe(Some(Partitioning { access: Access::Crew, ..usual }), 2, 1),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|other| other.generation != one.generation), "{index}");
        }
        assert_eq!(describe(Some(usual), 2, 1).generation, describe(Some(usual), 2, 9).generation);
    }

    #[test]
    fn server_and_client_agree_about_homes() {
        for (bits, workers) in [(0, 1), (0, 3), (4, 1), (4, 2), (4, 3), (8, 7)] {
            let partitioning = Partitioning { bits, access: Access::Erew, seed: 0 };
            let directory = describe(Some(partitioning), workers, 1);
            for hash in (0..1000u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
                let home = partitioning.home(KeyHash(hash), workers);
                assert!(home == directory.home(hash) && home < workers);
            }
        }
    }
}
