//! `/history.json`: the past of the page's charts.

use super::with_admin;
use guira_tests::http::HttpClient;
use guira_tests::server::wait_for;
use serde_json::Value;

#[test]
fn the_past_is_kept_although_no_page_is_open() {
    let (server, address) = with_admin(&["--test-commands"]);
    let mut client = server.connect();
    let (points, values) = wait_for("a point with gets", || {
        client.exchange("get missing\r\n", "END\r\n");
        client.exchange("debugtime 10\r\n", "OK\r\n");
        let reply = HttpClient::connect(address).get("/history.json", "");
        assert_eq!(reply.status, 200);
        let history: Value = serde_json::from_str(&reply.body).expect("JSON");
        assert_eq!((&history["every_s"], history["unix_ms"].is_u64()), (&10.into(), true));
        assert_eq!(history["series"], serde_json::json!(["gets", "sets", "others", "hits"]));
        let points = history["points"].as_array().expect("points").clone();
        let busy = points.iter().find(|point| point[1].as_f64() > Some(0.0))?.clone();
        Some((points, busy))
    });
    // Its age, and a value of each series.
    assert!(points.iter().all(|point| point.as_array().is_some_and(|point| point.len() == 5)));
    assert_eq!((values[2].as_f64(), values[4].as_f64()), (Some(0.0), Some(0.0)), "no sets, no hits");
}
