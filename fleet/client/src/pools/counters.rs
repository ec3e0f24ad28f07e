//! Counters of a client that routes by itself.

use crate::counters::counters;

counters! {
    keys "Keys requested with get, gets, gat and get_many."
    hits "Requested keys that were found."
    failed_keys "Requested keys without a reply of a server."
    changes "Stores, deletes, touches and counts."
    failed_changes "Changes that no server acknowledged; a server may have executed them."
    timeouts "Requests that a server did not answer before the timeout."
    unreachable "Requests to a server whose connection failed or could not be opened."
    down "Requests not sent because their server is marked as failed."
    nonsense "Connections closed because of an invalid reply."
    late_answers "Replies after the timeout of their request; they were dropped."
    opened "Connections opened."
    probes "Probes of failed servers."
    window_waits "Calls that waited for their window."
    window_shrinks "Times the window was halved because a reply was lost."
    udp_keys "Keys requested over UDP."
    udp_lost "Keys without a UDP reply before the timeout."
    udp_disordered "Keys whose UDP reply was incomplete or out of order."
    configurations "Changes of the configuration that were applied."
    refused_configurations "Invalid configurations; the previous one stays in use."
    compressed "Values compressed before they were stored."
}
