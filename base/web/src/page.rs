//! The page for people: one file, put together of what all pages have and of one server's panels.

use guira_sync::random;

const SHELL: &str = include_str!("page.html");
const NONCE: &str = "{{nonce}}";

/// What a server's page has that others have not.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub title: &'static str,
    pub grid: &'static str,
    /// Fills them: it assigns fields of `page`, which page.html calls.
    pub script: &'static str,
}

impl Page {
    /// The headers and the body of a reply. Where its script and its style are allowed, each reply has another word.
    pub(crate) fn reply(&self) -> (String, String) {
        let nonce = format!("{:016x}", random::seed());
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
    use std::collections::HashMap;

    /// Colours of text, and those of lines and areas.
    const TEXT: [&str; 6] = ["ink", "soft", "accent", "good", "bad", "warn"];
    const LINES: [&str; 5] = ["accent", "second", "third", "fourth", "faint"];

    #[test]
    fn a_page_is_put_together_and_each_reply_has_another_word() {
        let page = Page { title: "A title", grid: "<section>", script: "const SCRIPT = 1;" };
        let (headers, body) = page.reply();
        assert!(
            ["<h1>A title</h1>", "<section>", "const SCRIPT = 1;"].iter().all(|part| body.contains(part))
        );
        assert!(!body.contains("{{"), "everything is filled in");
        assert_ne!(page.reply().0, headers);
    }

    /// The colours of a theme by their names: the first theme is light, the second dark.
    fn theme(number: usize) -> HashMap<&'static str, [f64; 3]> {
        let block = SHELL.split(":root {").nth(number + 1).and_then(|rest| rest.split('}').next()).unwrap();
        let colour = |text: &str| {
            let digits = text.trim().trim_start_matches('#');
            let long: String = if digits.len() == 3 {
                digits.chars().flat_map(|digit| [digit, digit]).collect()
            } else {
                digits.to_owned()
            };
            [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&long[at..at + 2], 16).unwrap()) / 255.0)
        };
        let pairs = block.split(';').filter_map(|line| line.trim().strip_prefix("--")?.split_once(':'));
        pairs.map(|(name, value)| (name, colour(value))).collect()
    }

    /// The contrast of two colours (WCAG 2.2).
    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let luminance = |colour: [f64; 3]| {
            let linear = colour
                .map(|part| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) });
            0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        };
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        one.max(other) / one.min(other)
    }

    #[test]
    fn text_and_lines_stand_out_in_both_themes() {
        assert!((contrast([0.0; 3], [1.0; 3]) - 21.0).abs() < 1e-9);
        for number in 0..2 {
            let theme = theme(number);
            let of = |name: &str, ground: &str| contrast(theme[name], theme[ground]);
            for (name, ground) in TEXT.iter().flat_map(|name| [(name, "page"), (name, "panel")]) {
                assert!(
                    of(name, ground) >= 4.5,
                    "{name} on {ground} in theme {number}: {}",
                    of(name, ground)
                );
            }
            for name in LINES {
                assert!(of(name, "panel") >= 3.0, "{name} in theme {number}: {}", of(name, "panel"));
            }
        }
    }

    #[test]
    fn text_has_only_colours_that_stand_out() {
        let style = SHELL.split("</style>").next().unwrap();
        let uses = style.match_indices(" color: var(--").map(|(at, found)| &style[at + found.len()..]);
        let names: Vec<&str> = uses.map(|rest| rest.split(')').next().unwrap()).collect();
        assert!(names.len() > 5, "{names:?}");
        assert!(names.iter().all(|name| TEXT.contains(name)), "{names:?}");
    }
}
