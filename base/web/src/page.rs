//! The page for people: one file, put together of what all pages have and of one server's panels.

use std::hash::{BuildHasher, RandomState};

const SHELL: &str = include_str!("page.html");
const NONCE: &str = "{{nonce}}";

/// What a server's page has that others have not.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub title: &'static str,
    /// The panels.
    pub grid: &'static str,
    /// Fills them: `UNKNOWN`, `fill`, `draw` and `fetchMore`, which page.html calls.
    pub script: &'static str,
}

impl Page {
    /// The headers and the body of a reply. Where its script and its style are allowed, each reply has another word.
    pub(crate) fn reply(&self, seed: u64) -> (String, String) {
        let nonce = format!("{:016x}", RandomState::new().hash_one(seed));
        let headers = format!(
            "Content-Security-Policy: default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
             connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
             Referrer-Policy: no-referrer\r\n"
        );
        let body = SHELL
            .replace("{{title}}", self.title)
            .replace("{{grid}}", self.grid)
            .replace("{{script}}", self.script)
            .replace(NONCE, &nonce);
        (headers, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_put_together_and_each_reply_has_another_word() {
        let page = Page { title: "A title", grid: "<section>", script: "const SCRIPT = 1;" };
        let (headers, body) = page.reply(1);
        assert!(
            ["<h1>A title</h1>", "<section>", "const SCRIPT = 1;"].iter().all(|part| body.contains(part))
        );
        assert!(!body.contains("{{"), "everything is filled in");
        assert_ne!(page.reply(1).0, headers);
    }
}
