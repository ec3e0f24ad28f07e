//! Counters of a look-aside client.

use crate::counters::counters;

counters! {
    hits "Keys found in the cache, including keys known to be missing in the database."
    stale_hits "Keys whose stale value was used because another client was filling them."
    misses "Keys that this client had to fill."
    waits "Keys for which this client waited until another client had filled them."
    unleased "Keys read from the database without storing them, after the wait for another client ended."
    stores "Values stored."
    refusals "Values not stored because their key was deleted, stored or assigned to another client in the meantime."
    older "Values not stored because the stale value in the cache has a newer version."
    failed_stores "Values that the cache did not store because of an error or because they are too large."
    failures "Keys read from the database because the cache did not reply or replied with an error."
    bad_keys "Invalid keys, which are never sent."
    deletes "Keys deleted, whether or not the cache had them."
    marked_reads "Keys read from the master because their write may not have been replicated to this region."
    marker_failures "Keys whose marker could not be read."
    unmarked_writes "Writes whose marker could not be set: their clients may read the previous value."
    failed_deletes "Keys whose delete was not acknowledged. The cache may have an old value until the invalidator deletes it."
}
