//! The words of the text protocols. The parser of requests, the writers of replies and the client's codec all take
//! them from here.

macro_rules! words {
    ($($name:ident = $text:literal;)*) => {
        $(
            #[doc = concat!("`", $text, "`")]
            pub const $name: &[u8] = $text.as_bytes();
        )*

        /// The same words with a blank behind each.
        pub mod spaced {
            $(
                #[doc = concat!("`", $text, "`, and a blank")]
                pub const $name: &[u8] = concat!($text, " ").as_bytes();
            )*
        }
    };
}

/// The first words of requests.
pub mod verb {
    words! {
        GET = "get";
        GETS = "gets";
        GAT = "gat";
        GATS = "gats";
        LEASE_GET = "lease-get";
        SET = "set";
        ADD = "add";
        REPLACE = "replace";
        APPEND = "append";
        PREPEND = "prepend";
        CAS = "cas";
        LEASE_SET = "lease-set";
        DELETE = "delete";
        INCR = "incr";
        DECR = "decr";
        TOUCH = "touch";
        META_GET = "mg";
        META_SET = "ms";
        META_DELETE = "md";
        META_ARITHMETIC = "ma";
        META_NOOP = "mn";
        META_DEBUG = "me";
        FLUSH_ALL = "flush_all";
        FLUSH_PREFIX = "flush_prefix";
        VERSION = "version";
        VERBOSITY = "verbosity";
        STATS = "stats";
        QUIT = "quit";
    }
}

/// The first words of replies.
pub mod reply {
    words! {
        VALUE = "VALUE";
        LVALUE = "LVALUE";
        END = "END";
        STORED = "STORED";
        STALE_STORED = "STALE_STORED";
        NOT_STORED = "NOT_STORED";
        EXISTS = "EXISTS";
        NOT_FOUND = "NOT_FOUND";
        DELETED = "DELETED";
        TOUCHED = "TOUCHED";
        OK = "OK";
        STAT = "STAT";
        VERSION = "VERSION";
        META_VALUE = "VA";
        META_DONE = "HD";
        META_MISS = "EN";
        META_NOT_FOUND = "NF";
        META_NOT_STORED = "NS";
        META_EXISTS = "EX";
        META_DEBUG = "ME";
        META_NOOP = "MN";
        ERROR = "ERROR";
        CLIENT_ERROR = "CLIENT_ERROR";
        SERVER_ERROR = "SERVER_ERROR";
    }
}
