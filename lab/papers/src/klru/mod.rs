//! *Memcached with KLRU*.
