//! `/topkeys`, and what keys that clients choose can do to the page.

use super::with_admin;
use guira_tests::http::HttpClient;
use guira_tests::scratch::Scratch;
use serde_json::Value;

#[test]
fn lists_are_shown_to_whoever_has_the_token_and_keys_are_no_markup() {
    let scratch = Scratch::new();
    let file = scratch.path().join("token");
    std::fs::write(&file, "s3cret").unwrap();
    let (server, address) = with_admin(&[&format!("--admin-token-file={}", file.display())]);
    let mut client = server.connect();
    for _ in 0..2000 {
        client.exchange("get <img/src=x/onerror=alert(1)>:\"'&\r\n", "END\r\n");
    }
    let mut visitor = HttpClient::connect(address);
    assert_eq!(visitor.get("/topkeys", "").status, 401);
    let reply = visitor.get("/topkeys", "Authorization: Bearer s3cret\r\n");
    assert!(reply.status == 200 && reply.has("Content-Type: application/json"), "{reply:?}");
    assert!(!reply.body.contains(['<', '>', '&', '\'']), "{}", reply.body);
    let told: Value = serde_json::from_str(&reply.body).unwrap();
    for window in ["minute", "total"] {
        let window = &told["windows"][window];
        let first = &window["lists"]["requests"][0];
        assert_eq!(first["key"], "%3Cimg%2Fsrc%3Dx%2Fonerror%3Dalert%281%29%3E%3A%22%27%26");
        assert!(first["count"].as_u64() == window["all"]["requests"].as_u64() && first["error"] == 0);
        assert_eq!(
            window["lists"]["prefix_misses"][0]["key"],
            "%3Cimg%2Fsrc%3Dx%2Fonerror%3Dalert%281%29%3E"
        );
        assert!(window["seconds"].as_u64().unwrap() <= 60);
    }
    // Metrics do not tell keys: their number has no bound.
    let metrics = visitor.get("/metrics", "Authorization: Bearer s3cret\r\n").body;
    assert!(!metrics.contains("onerror") && !metrics.contains("img"));
}

#[test]
fn keys_are_not_told_where_they_are_not_to_be_shown() {
    for argument in ["--disable-top-keys", "--disable-dumping"] {
        let (_server, address) = with_admin(&[argument]);
        let reply = HttpClient::connect(address).get("/topkeys", "");
        assert_eq!((reply.status, reply.body.as_str()), (200, "null"));
    }
}

/// Nothing that the page is told becomes markup: what it shows is put in as text.
#[test]
fn the_page_makes_no_markup_of_text() {
    let (_server, address) = with_admin(&[]);
    let page = HttpClient::connect(address).get("/", "").body;
    assert!(page.contains("topkeys"));
    for way in
        ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "srcdoc", "eval("]
    {
        assert!(!page.contains(way), "{way}");
    }
}
