//! What a client that routes by itself has done.

use crate::counters::counters;

counters! {
    keys "Keys that were asked for by get, gets, gat and get_many."
    hits "Those of them that were found."
    failed_keys "Those of them about which no server has said anything."
    changes "Stores, deletes, touches and counts."
    failed_changes "Those of them that no server has acknowledged: it may have carried them out all the same."
    timeouts "Requests that a server has not answered in time."
    unreachable "Requests for a server that could not be connected to, or whose connection broke."
    down "Requests that were not sent, since their server is down."
    nonsense "Connections that were closed since the server had said what makes no sense."
    late_answers "Answers that came after their request was given up. They are dropped."
    opened "Connections that were opened."
    probes "Times that a server which is down was asked whether it is back."
    window_waits "Times that a call had to wait for its window."
    window_shrinks "Times that the window was halved, since an answer did not come."
    udp_keys "Keys that were asked for by UDP."
    udp_lost "Keys whose answer by UDP did not come in time."
    udp_disordered "Keys whose answer by UDP came with a part missing, or in another order."
    configurations "Times that another configuration was put to use."
    refused_configurations "Configurations that could not be used: the one before has stayed."
    compressed "Values that were compressed before they were stored."
}
