//! What the papers claim, by number.

#[derive(Debug)]
pub(crate) struct Paper {
    /// With which the numbers of its claims begin.
    pub(crate) letter: char,
    pub(crate) title: &'static str,
}

#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) id: &'static str,
    /// What it is about, where the paper says it, and under which conditions.
    pub(crate) about: &'static str,
    pub(crate) theirs: &'static str,
}

/// The papers whose claims are measured.
pub(crate) const PAPERS: &[Paper] = &[
    Paper { letter: 'M', title: "MemC3 (Fan, Andersen and Kaminsky, NSDI 2013)" },
    Paper {
        letter: 'K',
        title: "KLRU: An Empirical Analysis on Memcached's Replacement Policies (Yang, Wang and Wang)",
    },
    Paper {
        letter: 'F', title: "FLeeC: a Fast Lock-Free Application Cache (Costa, Preguiça and Lourenço)"
    },
    Paper {
        letter: 'I',
        title: "MICA: a holistic approach to fast in-memory key-value storage (Lim, Han, Andersen and Kaminsky, NSDI 2014)",
    },
    Paper { letter: 'S', title: "Scaling Memcache at Facebook (Nishtala and others, NSDI 2013)" },
];

/// All claims, in the order of the document.
pub(crate) const CLAIMS: &[Claim] = &[
    Claim {
        id: "M1",
        about: "lookups of the bare index (§5, Fig 5); lookups only, 16-byte keys; 2 × 6-core Xeon L5640 2.27 GHz",
        theirs: "5 M/s on 1 thread, 35 M/s on 12",
    },
    Claim {
        id: "M2",
        about: "all optimisations over plain chaining (Fig 4a); 1 thread, no locks, 100 % lookup and 90/10 lookup/insert; mean of 10 runs",
        theirs: "about 3 ×",
    },
    Claim {
        id: "M3",
        about: "single steps (Fig 4a); as M2; cumulative order: chaining, hugepage, int keycmp, cuckoo (bucket locks), tag, opt locking, 2path",
        theirs: "huge pages +24 %; integer key comparison +80-90 % over that; cuckoo without tags slower again; tags repair reads, 2 paths repair the 90/10 mix",
    },
    Claim {
        id: "M4",
        about: "six threads over chaining under a global lock (Fig 4b); 6 threads, one socket",
        theirs: "about 15 × lookups, 14 × at 90/10; hugepage + keycmp alone < 1.8 ×; bucket-locked cuckoo 5-6 ×",
    },
    Claim {
        id: "M5",
        about: "scaling with threads (Fig 5); pinned threads",
        theirs: "linear to 6, flatter to 12 (second socket), none beyond; 90/10 peaks at 20 M/s with 10 threads; chaining never scales",
    },
    Claim {
        id: "M6",
        about: "metadata per item (Tab 1); 64-bit pointers",
        theirs: "index 13.3 B → about 9.7 B; eviction 18 B → 1 bit",
    },
    Claim {
        id: "M7",
        about: "chaining, filled to its limit (Tab 2); 16-byte random keys, 1 thread, stop at 1.5 items a bucket (2^26 buckets)",
        theirs: "100.66 M keys, 1280 MB, 13.33 B/key, 14.38 M inserts/s, longest chain 13",
    },
    Claim {
        id: "M8",
        about: "cuckoo, 1 / 2 / 3 / 4 paths (Tab 2); 1152 MB = 2^27 slots of 9 B, 4-way; stop at the first insert that fails after 128 displacements",
        theirs: "keys 121.91 / 124.52 / 126.80 / 127.76 M; B/key 9.91 / 9.70 / 9.53 / 9.45; load 90.84 / 92.78 / 94.48 / 95.19 %; inserts 6.46 / 6.66 / 6.19 / 6.03 M/s",
    },
    Claim {
        id: "M9",
        about: "displacements per insert (Fig 6); same fill",
        theirs: "mean < 0.1 up to 80 % load, < 0.4 when full; 2 paths fewer than 1, more add little",
    },
    Claim {
        id: "M10",
        about: "memory references of a lookup (§3.1); 1-byte tag, 8 candidate slots (count, do not time)",
        theirs: "2 parallel lines, then 0.03 dereferences on a miss, 1.03 on a hit; tag collision 0.39 % a slot",
    },
    Claim {
        id: "M11",
        about: "version counters that suffice (§3.2.1); retries caused by sharing should be negligible: count them",
        theirs: "8192, shared by hash; +2 a displacement; odd = retry",
    },
    Claim {
        id: "M12",
        about: "items stored (millions) at 64 / 128 / 256 / 512 MB / 1 / 2 GB (Tab 3); 16 + 32 B; index not counted (implied chunks 112 / 104 / 80 B)",
        theirs: "LRU+chaining .60 1.20 2.40 4.79 9.59 19.17; LRU+cuckoo .65 1.29 2.58 5.16 10.32 20.65; CLOCK+cuckoo .84 1.68 3.35 6.71 13.42 26.84",
    },
    Claim {
        id: "M13",
        about: "more items in the same memory (§5.3, 7); 56-byte header and 18 B of LRU in memcached 1.4.13",
        theirs: "text: cuckoo +7 %, with CLOCK +30 %; the table itself gives +40 %; > 20 B less an item; 30 % less memory",
    },
    Claim {
        id: "M14",
        about: "hit ratio %, same sizes (Tab 3); 95/5, Zipf (YCSB), 100 M queries, working set 10 GB, a miss is followed by an insert; CLOCK+cuckoo is best from 512 MB on and below LRU+chaining only at 64 MB",
        theirs: "LRU+chaining 63.66 68.09 72.73 77.70 83.20 89.56; LRU+cuckoo 64.13 68.58 73.24 78.26 83.84 90.20; CLOCK+cuckoo 63.54 68.14 73.08 78.62 85.32 92.11",
    },
    Claim {
        id: "M15",
        about: "cache that holds everything (Fig 7a); gets only, 10 GB, 16 + 32 B, Zipf",
        theirs: "CLOCK+cuckoo 30 M/s at 16 threads; LRU variants do not scale, cuckoo alone gains little",
    },
    Claim {
        id: "M16",
        about: "cache of a tenth of the working set (Fig 7b); 95/5, 1 GB, about 85 % hits, so about 20 % of operations insert",
        theirs: "peak 4.5 M/s; falls after 6 threads",
    },
    Claim {
        id: "M17",
        about: "whole cache over memcached's default (§4); M15 and M16",
        theirs: "3-10 × throughput, hit ratio not worse",
    },
    Claim {
        id: "M18",
        about: "server over the network (Fig 8); 50 clients, multiget of 100, 95/5, 1 GB, 10 Gb Ethernet",
        theirs: "4.4 M/s against 1.5 M/s (almost 3 ×); memcached with huge pages, key comparison and affinity lies between",
    },
    Claim {
        id: "K1",
        about: "miss-ratio curves (Fig 1); 9 of the MSR, Twitter and IBM traces; one slab class; K = 16, other defaults",
        theirs: "KLRU, lazy and segmented LRU nearly equal; exception IBM 029, where segmented is much worse; FIFO drawn for reference",
    },
    Claim {
        id: "K2",
        about: "miss ratio, segmented minus KLRU (Fig 2); all traces; Zipf 0.5, 1.0, 1.2",
        theirs: "about 0 at 95 % of the working set, spread grows at 75 and 50 %; no winner",
    },
    Claim {
        id: "K3",
        about: "K (§3.1)",
        theirs: "K = 1 is random, K = 16 nearly exact LRU; useful range 1-32",
    },
    Claim {
        id: "K4",
        about: "a long scan (Fig 3a); Zipf 0.99 broken by a scan; miss costs 100-300 µs at random; mean latency per second",
        theirs: "segmented LRU protected; KLRU recovers more slowly",
    },
    Claim {
        id: "K5",
        about: "a trace that favours KLRU (Fig 3b); IBM 029, miss cost as K4",
        theirs: "clearly lower latency while its hit ratio leads (2000-3000 s)",
    },
    Claim {
        id: "K6",
        about: "reads (Fig 4a); 20 workers × 70 connections, 96-byte pairs, all fits; Twitter 034 (94/6)",
        theirs: "lazy ≈ segmented ≈ KLRU, each +45 % over plain LRU",
    },
    Claim {
        id: "K7",
        about: "writes (Fig 4b); Twitter 032 (2/98)",
        theirs: "plain ≈ segmented ≈ KLRU; lazy −35 %, which vanishes when tail reclaim leaves the write path",
    },
    Claim {
        id: "K8",
        about: "latency p99 / 99.9 / 99.99 (no unit given) (Tab 1); Twitter 034, 041 (50/50), 032",
        theirs: "read: lazy 21/27/33, seg 23/29/35, K 22/27/33; mixed: 34/41/49, 29/35/43, 25/30/37; write: 48/57/67, 36/43/57, 33/39/48",
    },
    Claim {
        id: "K9",
        about: "scaling 1-20 threads (Fig 6); Twitter 034, 026 (71/29), 041, 032",
        theirs: "reads near linear for all three; writes capped at 1 M/s from 12 threads; lazy falls beyond 12",
    },
    Claim {
        id: "K10",
        about: "cost of sampling K items (Tab 2); one slab class; sampling only, not the removal",
        theirs: "K 1 2 4 8 16 32: 0.3 0.5 1.2 1.9 4.2 6.6 µs",
    },
    Claim {
        id: "K11",
        about: "metadata (§5.3.1); two 8-byte pointers gone (offsets save less)",
        theirs: "16 B less an item; 96 → 80 B, 17 % of memory",
    },
    Claim {
        id: "K12",
        about: "small caches (Fig 7); sizes with equal miss ratio, K = 16",
        theirs: "same throughput as segmented LRU at three sizes",
    },
    Claim {
        id: "K13",
        about: "reclaiming expired items (Fig 8); TTL 60 s on every item, 8 h, a point each 300 s, 10 workers, Twitter 034",
        theirs: "throughput equal or slightly better, memory bounded like memcached's; unbounded without reclaim",
    },
    Claim {
        id: "K14",
        about: "network bypassed (Fig 9); requests replayed inside the process",
        theirs: "reads: plain LRU gains nothing, the others much, KLRU most; writes: order unchanged",
    },
    Claim {
        id: "K15",
        about: "slab allocator's lock (Fig 10); first 8 classes share 1, 4 or 8 locks; 20 workers; Twitter 032",
        theirs: "more locks, more writes",
    },
    Claim {
        id: "K16",
        about: "overall (§7)",
        theirs: "KLRU slightly ahead on writes, simplest state; policy must be tunable at run time",
    },
    Claim {
        id: "F1",
        about: "throughput over Zipf's exponent (Fig 1a); 99 % reads, small items; exponents and cores only in the picture",
        theirs: "above memcached at every exponent",
    },
    Claim {
        id: "F2",
        about: "speed-up by contention (Fig 1b); as F1",
        theirs: "up to 6 × memcached when it is very high, about 1.2 × when medium, equal when low",
    },
    Claim { id: "F3", about: "latency; very high contention", theirs: "down to a sixth of memcached's" },
    Claim {
        id: "F4",
        about: "MemCLOCK: blocking buckets, same eviction",
        theirs: "throughput and latency like memcached's",
    },
    Claim {
        id: "F5",
        about: "hit ratio of a CLOCK value for each bucket; at most 1.5 items share one; several bits",
        theirs: "no significant loss against strict LRU",
    },
    Claim {
        id: "F6",
        about: "what drives contention; three sweeps",
        theirs: "item size, access frequency, network bandwidth",
    },
    Claim {
        id: "I1",
        about: "tiny items, 16 cores, M ops/s (Fig 10 top); 8 + 8 B, 192 Mi items; Zipf 0.99; EREW; 8 × 10 Gb ports; loss < 1 %; no client batching; = 4.8 M a core",
        theirs: "cache 76.9 / 76.3 / 70.4 / 65.6 for uniform 50 and 95 % get, skewed 50 and 95 %; store 76.9 / 75.5 / 70.5 / 65.6",
    },
    Claim {
        id: "I2",
        about: "against others on the same network path (Fig 10); as I1",
        theirs: "next best 16.5 (Masstree), rest < 6.1; 4-13.5 ×; skewed write-heavy 10.8 ×",
    },
    Claim { id: "I3", about: "penalty of skew (§5.2); as I1", theirs: "at most 14 %" },
    Claim { id: "I4", about: "nearness to bare packet I/O (§5.2); as I1", theirs: "54.9-66.4 of 66.6 Gbps" },
    Claim {
        id: "I5",
        about: "small items (Fig 10 mid); 16 + 64 B, 128 Mi items",
        theirs: "55.6-64.4 M/s, network-bound",
    },
    Claim {
        id: "I6",
        about: "large items (Fig 10 low); 128 + 1024 B, 8 Mi items",
        theirs: "12.6-14.6 M/s at 50 % get, 8.6-9.4 at 95 %: more puts are faster, since put replies carry no key or value",
    },
    Claim {
        id: "I7",
        about: "cache and store semantics (§5.2); all three sizes",
        theirs: "only minor difference",
    },
    Claim {
        id: "I8",
        about: "hot cores work more efficiently (Fig 11); 50 % get, tiny, EREW",
        theirs: "RX burst of the busiest core 10.2 → 17.3 packets; several cores do more under skew than under uniform load",
    },
    Claim {
        id: "I9",
        about: "CPU cache hits under skew (§5.2); as I8; needs hardware counters or a simulated cache",
        theirs: "67.8 → 77.8 %, mean over cores",
    },
    Claim {
        id: "I10",
        about: "data structures without network (Fig 12); tiny items, 12 Mi a core",
        theirs: "136.5-174.8 M/s on 16 cores (8.5-10.9 M a core); skewed faster than uniform; EREW and CREW alike",
    },
    Claim {
        id: "I11",
        about: "latency against throughput (Fig 13); uniform 50 % get, tiny; timestamp echoed in the reply",
        theirs: "24-52 µs; 69 M/s at 40 µs, over 100 × memcached on the kernel's stack; bars p5, p95",
    },
    Claim {
        id: "I12",
        about: "cores (Fig 14); skewed, tiny",
        theirs: "MICA and Masstree scale; memcached, MemC3, RAMCloud best at 2 cores (50 % get); MemC3 5.7 M/s at 4 cores (own paper: 4.4 at 16)",
    },
    Claim {
        id: "I13",
        about: "network ports (Fig 15); 2-8 ports",
        theirs: "throughput grows with ports; others stop",
    },
    Claim {
        id: "I14",
        about: "EREW, CREW, CRCW (Fig 16); tiny items",
        theirs: "EREW as I1; CREW uniform 76.8 / 76.5, skewed 69.3-72.4; CRCW 21.6-69.4; CREW ahead only for skewed reads, CRCW never",
    },
    Claim {
        id: "I15",
        about: "direction in software (Tab 1); round-robin arrival, queues between cores, 50 % get, tiny",
        theirs: "40.0-44.1 % of direction by the card",
    },
    Claim {
        id: "I16",
        about: "partitioning alone is not enough (Tab 2); skewed; 50 and 95 % get; same direction and network",
        theirs: "Masstree, one a core without locks: 8.2-27.3 % of MICA (5.8 of 70.4 and 17.9 of 65.6 M/s)",
    },
    Claim {
        id: "I17",
        about: "the network path alone (§5.5)",
        theirs: "Masstree 8.9 M/s batched on sockets → 16.5 unbatched",
    },
    Claim {
        id: "I18",
        about: "partitioning tames skew (§4.1); 192 Mi keys, Zipf 0.99 (recomputed: 9.3 × 10^6; +50 to +129 % over random hashes, median +65 %)",
        theirs: "hottest key 9.3 × 10^6 times the mean, hottest of 16 partitions +53 %; skewed throughput 86 % of uniform",
    },
    Claim {
        id: "I19",
        about: "cost of hashing at the client (§4.2.2); 12 cores",
        theirs: "> 40 M requests/s a client machine",
    },
    Claim {
        id: "I20",
        about: "bulk chaining (§4.3.3); 15 entries a bucket, 192 Mi items",
        theirs: "about 95 % of items in main buckets; close to 1 random read a lookup (cuckoo 1.5); spare buckets of 10 % suffice",
    },
    Claim {
        id: "I21",
        about: "stale offsets (§4.3.2); 48-bit offsets, 2^30 B/s of writes (wraps in 2^18 s), 2^24 buckets",
        theirs: "scan of 2^6 buckets/s suffices",
    },
    Claim {
        id: "S1",
        about: "items of a popular page (§3.1); fetched in the order of a graph of what depends on what",
        theirs: "521 items on average, p95 1,740; 24 keys a batch, p95 95",
    },
    Claim {
        id: "S2",
        about: "UDP directly against TCP through the router (§3.1, Fig 3); gets of web servers in production",
        theirs: "latency −20 %: mean, median and p95",
    },
    Claim {
        id: "S3",
        about: "gets by UDP that are discarded at the peak (§3.1); they count as misses that are not filled",
        theirs: "0.25 %: 80 % late or lost, 20 % out of order",
    },
    Claim {
        id: "S4",
        about: "the sliding window (§3.1, Fig 4); time that requests wait for a web server, windows of 100 to 500, Poisson arrivals",
        theirs: "a minimum between small windows, which serialize, and large ones, which cause incast",
    },
    Claim {
        id: "S5",
        about: "leases against herds (§3.2.1); keys that many clients read, replayed with and without; one token a key in 10 s, holders set within a few ms",
        theirs: "peak queries of the database 17 K/s → 1.3 K/s",
    },
    Claim {
        id: "S6",
        about: "working sets of two families of keys, by the day and by the week (§3.2.2, Fig 5); operations on one item in a million",
        theirs: "the weekly set far above the daily one for the family that churns, near it for the other",
    },
    Claim {
        id: "S7",
        about: "replicate instead of split (§3.2.3); 100 keys a request, 1 M requests/s, a second server; a replica is chosen by the client's address",
        theirs: "split: 1 M requests/s for each server; replicas: 500 K/s for each",
    },
    Claim {
        id: "S8",
        about: "gutter (§3.3); about 1 % of the servers, short expiry, no rehashing",
        theirs: "client-visible failures −99 %; after a whole server dies at least 35 % hits in less than 4 minutes, often near 50 %",
    },
    Claim {
        id: "S9",
        about: "why not rehash (§3.3): a popular key moves to another server with the others",
        theirs: "one key can be 20 % of a server's requests",
    },
    Claim {
        id: "S10",
        about: "deletes that delete something (§4.1): the deletes of all changes are broadcast to every cluster of a region",
        theirs: "4 %",
    },
    Claim {
        id: "S11",
        about: "deletes in few packets (§4.1): daemons beside the databases batch them to routers, which unpack them, in the place of web servers that send each",
        theirs: "18 × in the median number of deletes per packet",
    },
    Claim {
        id: "S12",
        about: "cluster or regional copies (§4.2, Tab 1); A: 30 users, 3.26 M gets/s, 10.7 kB; B: 1 user, 458 K gets/s, 4.34 kB; between clusters 40 % less bandwidth",
        theirs: "A in each cluster, B in a regional pool: B would take 25 % of each cluster's wildcard pool, and does not harm the bandwidth between clusters",
    },
    Claim {
        id: "S13",
        about: "cold clusters (§4.3): a new cluster is filled from a warm one; deletes hold their keys off for 2 s, and who is refused asks the database",
        theirs: "full capacity in hours instead of days",
    },
    Claim {
        id: "S14",
        about: "remote markers (§5): a user of a replica's region sees its own writes; three steps, markers in a pool of the region",
        theirs: "evictions of markers and concurrent writers of a key are rare; no figure",
    },
    Claim {
        id: "S15",
        about: "fine-grained locks (§6.1, Fig 7); 10-key gets of 32-byte values, 24 threads on 12 cores, 15 clients, 1 GbE, mean latency below 1 ms for 2 minutes",
        theirs: "hits 600 K → 1.8 M items/s, misses 2.7 M → 4.5 M",
    },
    Claim {
        id: "S16",
        about: "UDP and multigets (§6.1, Fig 8); as S15, hits",
        theirs: "UDP +13 % single gets, +8 % 10 keys; 10 keys about 4 × single gets",
    },
    Claim {
        id: "S17",
        about: "balance of ages between size classes (§6.2); a class is needy if its next victim was used at least 20 % more recently than the mean of the others'",
        theirs: "near one LRU over all memory; no figure",
    },
    Claim {
        id: "S18",
        about: "a buffer of short-lived items, a second in each place (§6.3): what a family of them takes of its pool",
        theirs: "6 % → 0.3 %, at the same hit rate",
    },
    Claim {
        id: "S19",
        about: "upgrades (§6.4): items in System V segments, which a new process goes on with",
        theirs: "without them a few hours to 90 % of the peak hit rate, and more than 12 for all servers; no warm-up with them",
    },
    Claim {
        id: "S20",
        about: "servers that a page contacts (§7.1, Fig 9)",
        theirs: "56 % of loads fewer than 20; most loads of the popular page more than 100",
    },
    Claim { id: "S21", about: "sizes of responses (§7.1, Fig 10)", theirs: "median 135 B, mean 954 B" },
    Claim {
        id: "S22",
        about: "latency of a get as web servers see it (§7.1): routing, network and decompression, 7 days",
        theirs: "p50 / p75 / p95 333 / 475 / 1,135 µs; 178 / 219 / 374 µs on an idle machine",
    },
    Claim {
        id: "S23",
        about: "pools (§7.2, Tab 2): gets, sets and deletes a second of a server, highest mean of four minutes in a month",
        theirs: "wildcard 262 k, 8.26 k, 21.2 k, misses 1.76 %; app 96.5 k, 11.9 k, 6.28 k, 7.85 %; replicated 710 k, 1.75 k, 3.22 k, 0.053 %; regional 9.1 k, 0.79 k, 35.9 k, 6.35 %",
    },
    Claim {
        id: "S24",
        about: "sizes of items in four pools (§7.2, Tab 3)",
        theirs: "wildcard: mean 1.11 K, p50 169, p99 18.3 K; app: 881, 269, 10.4 K; replicated: 66, 68, 68; regional: 31.8 K, 5.31 K, 381 K",
    },
    Claim {
        id: "S25",
        about: "deletes in time where the master is (§7.3, Fig 11): one delete in a million is sampled, and all clusters are asked at intervals",
        theirs: "99.99 % within 1 s, 99.999 % within 1 h",
    },
    Claim {
        id: "S26",
        about: "the same from replica to replica",
        theirs: "99.9 % within 1 s, 99.99 % within 10 min",
    },
];
