mod keyboard;
mod readings;
mod screens;
mod watching;

use std::time::Duration;

use guira_client::text::{Endpoint, Target};

use crate::app::{App, Sort};
use crate::reading::{Group, Reading};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// What a node with some load tells after `seconds`. `stats topkeys` has a key that would clear a terminal.
pub(crate) fn received(seconds: u64) -> Reading {
    let general = format!(
        "STAT pid 7\nSTAT uptime {seconds}\nSTAT version 1.6.45-guira-0.2.0\nSTAT threads 2\nSTAT cmd_get {}\n\
         STAT get_hits {}\nSTAT get_misses {}\nSTAT cmd_set {}\nSTAT delete_hits {seconds}\nSTAT delete_misses 0\n\
         STAT evictions {}\nSTAT bytes_read 1000\nSTAT bytes_written 2000\nSTAT limit_maxbytes 67108864\n\
         STAT memory_limit 60000000\nSTAT memory_used 30000000\nSTAT curr_items 1234\nSTAT bytes 5000000\n\
         STAT hash_bytes 919296\nSTAT conn_memory_used 10\nSTAT conn_memory_limit 1048576\nSTAT curr_connections 3\n\
         STAT max_connections 1024\nSTAT total_connections 10\nSTAT rusage_user {seconds}.5\nSTAT rusage_system 0.25\n",
        1000 * seconds,
        900 * seconds,
        100 * seconds,
        50 * seconds,
        7 * seconds,
    );
    let classes = format!(
        "STAT 5:chunk_size 56\nSTAT 5:total_pages 2\nSTAT 5:total_chunks 1000\nSTAT 5:used_chunks 250\n\
         STAT 5:get_hits {}\nSTAT 5:cmd_set 0\nSTAT active_slabs 1\nSTAT x:y z\n",
        900 * seconds
    );
    let mut reading = Reading::new(Duration::from_secs(seconds));
    for (group, text) in [
        (Group::General, general.as_str()),
        (Group::Settings, "STAT engine memc3\nSTAT policy clock:bits=2\nSTAT policy_next NULL\n"),
        (Group::Slabs, &classes),
        (
            Group::Items,
            "STAT items:5:number 200\nSTAT items:5:mem_requested 9000\nSTAT items:5:evicted 1\nSTAT items:5:age 3700\n",
        ),
        (
            Group::Latency,
            "STAT get:samples 29\nSTAT get:mean_us 3.482\nSTAT get:p50_us 3.5\nSTAT get:p99_us 12.3\nSTAT get:p999_us 13.1\nSTAT get:x 1\nSTAT bad 1\n",
        ),
        (Group::Connections, CONNECTIONS),
        (Group::Keys, KEYS),
        (Group::Servers, &servers(seconds)),
    ] {
        receive(&mut reading, group, text);
    }
    reading
}

/// What a router tells of three servers.
fn servers(seconds: u64) -> String {
    format!(
        "STAT 10.0.0.1:11211:ascii:plain:notcompressed-1000 avg_latency_us:302.991 pending_reqs:1 inflight_reqs:2 up:3 new:1; found:{} notfound:7 timeout:4\n\
         STAT 10.0.0.2:11211:ascii:plain:notcompressed-1000 avg_latency_us:0.000 pending_reqs:0 inflight_reqs:0 hard_tko;  down:4; connect_error:4 tko:{}\n\
         STAT 10.0.0.3:11211:ascii:plain:notcompressed-1000 avg_latency_us:5.000 pending_reqs:0 inflight_reqs:0 avg_retrans_ratio:0.5 up:4\n",
        100 * seconds,
        10 * seconds
    )
}

const CONNECTIONS: &str = "STAT 5:addr tcp:127.0.0.1:1\nSTAT 5:state conn_listening\nSTAT 5:secs_since_last_cmd 900\n\
    STAT 12:addr tcp:127.0.0.1:48386\nSTAT 12:state conn_read\nSTAT 12:secs_since_last_cmd 5\n\
    STAT 13:state conn_read\nSTAT 13:secs_since_last_cmd 4000\nSTAT 14:state conn_parse_cmd\nSTAT 14:secs_since_last_cmd 0\n";

const KEYS: &str = "STAT topkeys:sampling 16\nSTAT topkeys:minute:seconds 60\nSTAT topkeys:total:seconds 3600\n\
    STAT topkeys:minute:requests:1:key user%3A1\nSTAT topkeys:minute:requests:1:count 6000\nSTAT topkeys:minute:requests:1:error 16\n\
    STAT topkeys:minute:requests:2:key %1B%5B2Jbad\nSTAT topkeys:minute:requests:2:count 120\n\
    STAT topkeys:minute:prefix_bytes:1:key user%3A\nSTAT topkeys:minute:prefix_bytes:1:count 61440\n\
    STAT topkeys:total:misses:1:key gone\nSTAT topkeys:total:misses:1:count 3\n\
    STAT topkeys:minute:requests:0:key x\nSTAT topkeys:minute:requests:99999999:key x\nSTAT topkeys:hour:requests:1:key x\n\
    STAT topkeys:minute:newer:1:key x\nSTAT topkeys:minute:requests:1:newer x\nSTAT other 1\n";

/// Passes lines `STAT NAME VALUE` on as the connection does.
pub(crate) fn receive(reading: &mut Reading, group: Group, text: &str) {
    for line in text.lines() {
        let line = line.trim_start().strip_prefix("STAT ").expect("a line of stats");
        let (name, value) = line.split_once(' ').expect("a value");
        reading.line(group, name.as_bytes(), value.as_bytes());
    }
    reading.received(group);
}

pub(crate) fn stock(seconds: u64) -> Reading {
    let mut reading = Reading::new(Duration::from_secs(seconds));
    let text = format!(
        "STAT pid 1\nSTAT uptime {seconds}\nSTAT version 1.6.18\nSTAT cmd_get 5\nSTAT get_hits 5\nSTAT get_misses 0"
    );
    receive(&mut reading, Group::General, &text);
    receive(&mut reading, Group::Settings, "STAT maxbytes 1");
    for group in [Group::Latency, Group::Keys, Group::Servers] {
        reading.refused(group, b"ERROR");
    }
    reading.received(Group::Slabs);
    reading
}

/// A screen of nodes `a:1`, `b:1` and so on, which were looked at twice.
pub(crate) fn app(count: usize) -> App {
    let names: Vec<String> = ('a'..).take(count).map(|name| format!("{name}:1")).collect();
    let mut app = App::new(&names, SECOND, Sort::Requests);
    for node in 0..count {
        app.update(node, Ok(received(10)), 10 * SECOND);
        app.update(node, Ok(received(12)), 12 * SECOND);
    }
    app
}

pub(crate) fn target(text: &str, timeout: Duration) -> Target {
    Target::new(text.parse::<Endpoint>().expect("an address"), timeout)
}
