//! What the admin listener of a member says.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The body of a page, if it is to be had: the answer says 200.
pub fn page(socket: &Path, path: &str) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

/// The sum of a metric over its labels, if there is one.
pub fn metric(page: &str, name: &str) -> Option<u64> {
    let values = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value =
            rest.strip_prefix(' ').or_else(|| rest.strip_prefix('{')?.rsplit_once("} ").map(|it| it.1))?;
        value.parse::<f64>().ok()
    });
    values.map(|value| value as u64).reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::metric;

    #[test]
    fn a_metric_is_summed_over_its_labels() {
        let page = "# HELP a_b x\na_b{target=\"east\"} 3\na_b{target=\"west\"} 4\na_b_c 9\nd 5\n";
        assert_eq!([metric(page, "a_b"), metric(page, "d"), metric(page, "e")], [Some(7), Some(5), None]);
    }
}
