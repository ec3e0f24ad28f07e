//! What a client has done.

use crate::counters::counters;

counters! {
    hits "Keys that the cache had, those among them of which it knew that the database has nothing."
    stale_hits "Keys whose stale value was used, since another client was filling them."
    misses "Keys that this client was to fill."
    waits "Keys that another client was filling, and that were waited for."
    unleased "Keys that the database was asked for without storing, since the wait was over."
    stores "Values that were stored."
    refusals "Values that were not stored, since their key was deleted, stored or given to another client meanwhile."
    older "Values that were not stored, since their version was older than that of the stale value in the cache."
    failed_stores "Values that the cache could not be given, or did not take, such as one that is too long."
    failures "Keys that the database was asked for since the cache did not answer, or not as it should."
    bad_keys "Keys that no cache can have, or that would end a comment. They are never sent."
    deletes "Keys that were deleted, whether or not there was something."
    marked_reads "Keys that the master was asked for, since their write had not come back to this region, or that could not be known."
    marker_failures "Keys of which it could not be known whether they are marked."
    unmarked_writes "Writes for which a marker could not be set: their clients may read what was before."
    failed_deletes "Keys whose delete was not acknowledged. The cache may have an old value until the invalidator deletes it."
}
