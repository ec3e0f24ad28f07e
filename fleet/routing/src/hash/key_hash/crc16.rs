//! twemproxy's CRC-16: polynomial 0x1021, starting at 0. It keeps the bits that are shifted out, so
//! the result has 32 bits, of which the lower 16 are the CRC.

const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 0x8000 == 0 { rest << 1 } else { rest << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
}

pub(super) fn crc16(key: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| crc << 8 ^ u32::from(TABLE[usize::from((crc >> 8) as u8 ^ byte)]);
    key.iter().fold(0, step)
}

#[cfg(test)]
mod tests {
    use super::crc16;

    /// The check value of CRC-16/XMODEM.
    #[test]
    fn check_value() {
        assert_eq!(crc16(b"123456789") as u16, 0x31c3);
    }
}
