//! -h: what there is, in memcached's form. Other projects look for words in it.

use guira_server::VERSION_SPOKEN;

use super::extended;

/// What -i prints.
pub(super) const LICENSE: &str = "\
Guira is licensed under the Apache License, Version 2.0: http://www.apache.org/licenses/LICENSE-2.0
It speaks memcached's protocols and contains none of its code.
";

const OPTIONS: &str = "\
-p, --port=<num>          TCP port to listen on (default: 11211, -1 takes a free one)
-U, --udp-port=<num>      UDP port to listen on (default: 0, off)
-s, --unix-socket=<file>  UNIX socket to listen on (disables network support)
-a, --unix-mask=<mask>    access mask for UNIX socket, in octal (default: 700)
-A, --enable-shutdown     enable the \"shutdown\" command
-l, --listen=<addr>       interface to listen on (default: all); a list, with
                          notls: btls: mtls: (with -Z),
                          proto[ascii|binary|negotiating]: and tag[NAME]: before
                          an address
-d, --daemon              run as a daemon
-r, --enable-coredumps    maximize core file limit
-u, --user=<user>         assume identity of <user> (only when run as root)
-m, --memory-limit=<num>  memory of the whole process in megabytes (default: 64)
-M, --disable-evictions   return error on memory exhausted instead of evicting
-k, --lock-memory         lock down all paged memory
-L, --enable-largepages   ask for large memory pages
-f, --slab-growth-factor=<num> chunk size growth factor (default: 1.06)
-n, --slab-min-size=<bytes> min space used for key+value+flags (default: 16)
-e, --memory-file=<file>  mmap a file for item memory: restartable cache (stop
                          with SIGUSR1)
-c, --conn-limit=<num>    max simultaneous connections (default: 1024)
-v, --verbose             verbose (-vv more so)
-h, --help                print this help and exit
-i, --license             print the license and exit
-V, --version             print version and exit
-P, --pidfile=<file>      save PID in <file>
-D <char>                 delimiter between key prefixes and the rest, for
                          \"stats detail\" (default: \":\"), which is then on
-t, --threads=<num>       number of threads to use (default: 4)
-C, --disable-cas         do without cas uniques: 0 is told, and cas stores nothing
-b, --listen-backlog=<num> set the backlog queue limit (default: 1024)
-B, --protocol=<name>     protocol - one of ascii, binary, or auto (default)
-I, --max-item-size=<num> max item size (default: 1m, min: 1k, max: 1024m)
-S, --enable-sasl         SASL authentication (PLAIN, binary protocol), with the
                          users of -Y or MEMCACHED_SASL_PWDB
-Z, --enable-ssl          TLS, with the certificate of -o ssl_chain_cert
-F, --disable-flush-all   disable flush_all command
-X, --disable-dumping     disable stats cachedump, stats detail and lru_crawler
                          metadump and mgdump
-W, --disable-watch       disable watch commands (live logging)
-Y, --auth-file=<file>    text protocol authentication: lines of user:pass
    --test-commands       answer debugtime and debugitem, for tests of clients
-o, --extended            comma separated list of extended options
";

/// What -h prints.
pub(super) fn text() -> String {
    let more = "\
Options of memcached that are not listed here are accepted, warned of and
ignored where they cannot change an answer: docs/drop-in.md names them all.
";
    format!("memcached {VERSION_SPOKEN}\n{OPTIONS}{}\n{more}", extended::help())
}
