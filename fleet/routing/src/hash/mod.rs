//! Which of several servers holds a key.

/// Stub
#[derive(Clone, Copy, Debug)]
pub struct HashKind;
#[derive(Debug)]
pub struct Selector(usize);
#[derive(Debug)]
pub struct ServerIdentity<'a> { pub name: &'a str, pub weight: Option<f64> }
impl HashKind { pub fn from_name(_: &str) -> Result<Self, String> { Ok(HashKind) } }
impl Selector {
    pub fn new(_: HashKind, servers: &[ServerIdentity<'_>], _: &str) -> Result<Self, String> { Ok(Selector(servers.len())) }
    #[inline]
    pub fn pick(&self, key: &[u8]) -> usize {
        let mut h = 0xcbf29ce484222325u64;
        for b in key { h = (h ^ u64::from(*b)).wrapping_mul(0x100000001b3); }
        (h >> 32) as usize % self.0
    }
}
