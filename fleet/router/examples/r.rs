//! Temporary.
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let get = |n: &str| args.iter().position(|a| a == n).map(|i| args[i + 1].clone()).unwrap();
    let text = std::fs::read_to_string(get("--config")).unwrap();
    let settings = guira_routing::Settings {
        default_route: "/././".into(),
        unknown_prefix: guira_routing::Unknown::Refused,
        timeouts: guira_routing::Timeouts { server: std::time::Duration::from_secs(1), within_cluster: None, cross_cluster: None, cross_region: None },
    };
    let options = guira_router::RouterOptions { listen: vec![get("--listen").parse().unwrap()], workers: 1, settings, health: Default::default() };
    let running = guira_router::start(&options, &guira_router::json(&text)).unwrap();
    println!("router: listening on {}", running.addresses()[0]);
    loop { std::thread::park(); }
}
