//! Encrypts a password with the server's RSA key, for connections that are not private.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use num_bigint::BigUint;
use sha1::{Digest, Sha1};

const HASH: usize = 20;
/// Keys that are shorter than 1024 bits protect nothing; of longer ones than 16,384 bits a server could make this process compute for long.
const LENGTHS: std::ops::RangeInclusive<usize> = 128..=2048;

const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const SEQUENCE: u8 = 0x30;

/// An RSA public key.
#[derive(Debug)]
pub(super) struct PublicKey {
    modulus: BigUint,
    exponent: BigUint,
    /// The length of the modulus in bytes.
    length: usize,
}

impl PublicKey {
    /// Reads what stands between `-----BEGIN PUBLIC KEY-----` and its end.
    pub(super) fn from_pem(text: &str) -> Option<Self> {
        let (_, behind) = text.split_once("-----BEGIN PUBLIC KEY-----")?;
        let (inside, _) = behind.split_once("-----END PUBLIC KEY-----")?;
        let digits: String = inside.split_ascii_whitespace().collect();
        let der = STANDARD.decode(digits).ok()?;
        let (key, _) = value(&der, SEQUENCE)?;
        let (_algorithm, rest) = value(key, SEQUENCE)?;
        let (bits, _) = value(rest, BITS)?;
        // The first byte says how many bits of the last one do not count.
        let (numbers, _) = value(bits.strip_prefix(&[0])?, SEQUENCE)?;
        let (modulus, rest) = value(numbers, INTEGER)?;
        let (exponent, _) = value(rest, INTEGER)?;
        let modulus = BigUint::from_bytes_be(modulus);
        let length = usize::try_from(modulus.bits().div_ceil(8)).ok()?;
        let exponent = BigUint::from_bytes_be(exponent);
        (LENGTHS.contains(&length) && exponent.bits() <= 64).then_some(PublicKey {
            modulus,
            exponent,
            length,
        })
    }

    /// Encrypts a message by OAEP with SHA-1 (RFC 8017, section 7.1.1); `seed` is random. `None` if the message is too long.
    pub(super) fn encrypt(&self, message: &[u8], seed: [u8; HASH]) -> Option<Vec<u8>> {
        let zeros = self.length.checked_sub(message.len() + 2 * HASH + 2)?;
        let mut block = Sha1::digest(b"").to_vec();
        block.resize(HASH + zeros, 0);
        block.push(1);
        block.extend_from_slice(message);
        mask(&mut block, &seed);
        let mut seed = seed;
        mask(&mut seed, &block);
        let whole = [&seed[..], &block].concat();
        let encrypted = BigUint::from_bytes_be(&whole).modpow(&self.exponent, &self.modulus).to_bytes_be();
        let mut padded = vec![0; self.length - encrypted.len()];
        padded.extend(encrypted);
        Some(padded)
    }
}

/// The contents of a DER value of this kind, and the bytes behind it.
fn value(der: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    const LONG: u8 = 0x80;
    let (head, rest) = der.split_first_chunk::<2>()?;
    let (length, rest) = match head[1] {
        short if short < LONG => (usize::from(short), rest),
        long => {
            let (digits, rest) = rest.split_at_checked(usize::from(long - LONG))?;
            if digits.len() > 4 {
                return None;
            }
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    if head[0] == kind { rest.split_at_checked(length) } else { None }
}

/// Masks `bytes` with the output of MGF1 for `seed`.
fn mask(bytes: &mut [u8], seed: &[u8]) {
    for (index, piece) in bytes.chunks_mut(HASH).enumerate() {
        let hash = Sha1::new().chain_update(seed).chain_update((index as u32).to_be_bytes()).finalize();
        piece.iter_mut().zip(hash).for_each(|(byte, mask)| *byte ^= mask);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::unhex;

    pub(in super::super) const KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA0/DZXYXF7jkDArDnOOpq\n\
        GvRTSrqdvAJ6NX5ndEq1AQAG6GY+JmZfUIMllB2FLbrnnuMQlvnNPcTMlz7r/ay7\n\
        ibtLBPt8LcnYMbdKtu+xVHKkncSxDiSTkdcbnElMVAE94CG+wkfcrro2mzAuZQl0\n\
        mgAbfxIi5PfdwcgAtiQSz+KGfokw/TbhfffBryJ56EyxMcm/F20RIH5liy4cpXPJ\n\
        +zNH8oiCBQEdBvHeaasdteRwvOReQuYOO1FMHXf+WUuQAo8UEYpWYeMNwyik2iQp\n\
        ThtdU3Z94a9dmvdMB61qBaHBvrVC+enAdFGGac+EHRqNwaIWcljgPE32+bEVBv4P\n\
        ZwIDAQAB\n\
        -----END PUBLIC KEY-----\n";

    /// OpenSSL decrypts this with the private key.
    const ENCRYPTED: &str = "0471888fa88b4aa0c371231a1a8aa6f7909fd3cad3052c376f6b042584cee00090552875c6770465960c2a8a2731d6817658b4f32905001f3b06504cf69a9c40abb29ecffe96
        9ceb365c57fbaf0cf1c8f127daf0e2cef21aed22dea71f9811591506463323a9190e42fe35d2b4d5f741a7e234ccbf593a1af20b7ebfb982348c6426e64704ef71a18a229330
        77adcf9b8f50e37f244253b292b426d2c3bca92708037e1789d4058e760874fc17d4e535d0081ab9d17fac9559ceb3581ef1b3a73f5f70493f120fda06d6644b7996d120e19f
        b20692f984a6dc582a61dcbadf8f893082391b76ea5d80310b4bec3f4ba1cf0528589c34fadb7dda13a6aa06489c";

    #[test]
    fn a_message_is_encrypted_as_openssl_decrypts_it() {
        let seed: [u8; HASH] = std::array::from_fn(|index| index as u8 + 1);
        let key = PublicKey::from_pem(KEY).unwrap();
        assert_eq!(key.encrypt(b"it's secret\0", seed).unwrap(), unhex(ENCRYPTED));
        assert_eq!(key.encrypt(&[0; 214], seed).unwrap().len(), 256);
        assert_eq!(key.encrypt(&[0; 215], seed), None, "it is too long");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for wrong in [
            "",
            "-----BEGIN PUBLIC KEY-----",
            &KEY.replace("PUBLIC", "RSA PUBLIC"),
            &KEY.replacen("MII", "M", 1),
        ] {
            assert!(PublicKey::from_pem(wrong).is_none(), "{wrong}");
        }
        let digits: String = KEY.lines().filter(|line| !line.starts_with('-')).collect();
        let der = STANDARD.decode(digits).unwrap();
        let pem = |der: &[u8]| {
            format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----", STANDARD.encode(der))
        };
        assert!(PublicKey::from_pem(&pem(&der)).is_some());
        for length in 0..der.len() {
            assert!(PublicKey::from_pem(&pem(&der[..length])).is_none(), "{length} bytes");
        }
    }
}
