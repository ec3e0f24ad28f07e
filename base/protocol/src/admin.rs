//! Commands about the server rather than about items. The server parses what follows the verb.

/// A command about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminVerb {
    /// `cache_memlimit <MiB>`
    CacheMemlimit,
    /// `slabs reassign|automove …`
    Slabs,
    /// `lru mode|tune|temp_ttl …`
    Lru,
    /// `policy [NAME key=value …]`
    Policy,
    /// `lru_crawler enable|disable|sleep|tocrawl|crawl|metadump|mgdump …`
    LruCrawler,
    /// `watch …`
    Watch,
    /// `refresh_certs`
    RefreshCerts,
    /// `shutdown [graceful]`
    Shutdown,
    /// `debugtime p|r|<seconds>`
    Debugtime,
    /// `debugitem lock|unlock|ref|unref <key>`
    Debugitem,
}

impl AdminVerb {
    /// Whether a trailing `noreply` suppresses the reply. It stays among the arguments: some verbs reject it there.
    pub fn takes_noreply(self) -> bool {
        self != AdminVerb::Watch
    }

    /// Looks a verb up by its name.
    pub(crate) fn of(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"cache_memlimit" => AdminVerb::CacheMemlimit,
            b"slabs" => AdminVerb::Slabs,
            b"lru" => AdminVerb::Lru,
            b"policy" => AdminVerb::Policy,
            b"lru_crawler" => AdminVerb::LruCrawler,
            b"watch" => AdminVerb::Watch,
            b"refresh_certs" => AdminVerb::RefreshCerts,
            b"shutdown" => AdminVerb::Shutdown,
            b"debugtime" => AdminVerb::Debugtime,
            b"debugitem" => AdminVerb::Debugitem,
            _ => return None,
        })
    }
}
