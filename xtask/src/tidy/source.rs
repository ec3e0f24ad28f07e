//! A Rust file with its comments and literals separated from its code: enough to count and to search, not a
//! parser.

/// A Rust file, read for the checks.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    /// The text with comments and the insides of literals blanked, byte for byte as long as the original.
    pub(crate) code: String,
    lines: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The line of `fn`, from 1.
    pub(crate) line: usize,
    /// Lines from `fn` to the closing brace.
    pub(crate) length: usize,
}

/// A struct with named fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Struct {
    pub(crate) name: String,
    /// The line of `struct`, from 1.
    pub(crate) line: usize,
    pub(crate) fields: usize,
}

impl Source {
    pub(crate) fn new(path: &str, content: &str) -> Self {
        let ends = content.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(ends).collect();
        Self { path: path.to_owned(), code: blank(content), lines }
    }

    pub(crate) fn line_count(&self) -> usize {
        self.line_at(self.code.trim_end_matches('\n').len())
    }

    /// The line of a byte, from 1.
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start <= offset)
    }

    /// Offsets at which `word` stands for itself.
    pub(crate) fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let code = self.code.as_bytes();
        self.code.match_indices(word).map(|(at, _)| at).filter(move |at| {
            let before = at.checked_sub(1).map(|index| code[index]);
            let after = code.get(at + word.len()).copied();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    }

    /// Where code of tests begins and ends: the whole of a test's file, and the modules under `#[cfg(test)]`.
    pub(crate) fn tests(&self) -> Vec<(usize, usize)> {
        let is_test = self.path.split('/').any(|part| part == "tests" || part == "benches");
        if is_test || self.path.ends_with("tests.rs") {
            return vec![(0, self.code.len())];
        }
        let marks = self.code.match_indices("#[cfg(test)]").chain(self.code.match_indices("#[cfg(all(test"));
        let modules = marks.filter_map(|(at, _)| {
            let open = at + self.code[at..].find('{')?;
            let is_module = self.code[at..open].contains("mod ");
            is_module.then_some((at, self.closing(open)?))
        });
        modules.collect()
    }

    /// Every function with a body, in order.
    pub(crate) fn functions(&self) -> Vec<Function> {
        self.words("fn").filter_map(|at| self.function_at(at)).collect()
    }

    /// Every struct with named fields, in order.
    pub(crate) fn structs(&self) -> Vec<Struct> {
        self.words("struct").filter_map(|at| self.struct_at(at)).collect()
    }

    fn struct_at(&self, at: usize) -> Option<Struct> {
        let rest = &self.code[at + 6..];
        let name: String =
            rest.trim_start().bytes().take_while(|byte| is_word(*byte)).map(char::from).collect();
        let open =
            rest.find(['{', ';', '(']).filter(|end| rest[*end..].starts_with('{') && !name.is_empty())?;
        let (open, close) = (at + 6 + open, self.closing(at + 6 + open)?);
        let (mut depth, mut fields, mut has_text) = (0_usize, 0, false);
        let body = self.code[open + 1..close].replace("->", "  ");
        for letter in body.chars().chain([',']) {
            match letter {
                '(' | '[' | '{' | '<' => depth += 1,
                ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => fields += usize::from(std::mem::take(&mut has_text)),
                _ => {}
            }
            has_text |= !letter.is_whitespace() && letter != ',';
        }
        Some(Struct { name, line: self.line_at(at), fields })
    }

    fn function_at(&self, at: usize) -> Option<Function> {
        let signature = &self.code[at + 2..];
        let name = signature
            .trim_start()
            .bytes()
            .take_while(|byte| is_word(*byte))
            .map(char::from)
            .collect::<String>();
        if name.is_empty() {
            return None; // a type such as `fn(u32)`
        }
        let open = at + 2 + body(signature)?;
        let close = self.closing(open)?;
        let line = self.line_at(at);
        Some(Function { name, line, length: self.line_at(close) - line + 1 })
    }

    /// The offset of the brace that closes the one at `open`.
    pub(crate) fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (index, byte) in self.code.bytes().enumerate().skip(open) {
            match byte {
                b'{' => depth += 1,
                b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(index);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// Where the body of a function begins, unless it has none.
fn body(signature: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, byte) in signature.bytes().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.checked_sub(1)?,
            b'{' if depth == 0 => return Some(index),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Whether a byte belongs to a name; bytes of letters beyond ASCII do.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The content with comments and the insides of literals replaced by blanks; line ends stay.
fn blank(content: &str) -> String {
    let bytes = content.as_bytes();
    let mut kept = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = skipped(bytes, at);
        if end > at {
            kept.extend(bytes[at..end].iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
            at = end;
        } else {
            kept.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(kept).unwrap_or_default()
}

/// Where the comment or literal that begins at `at` ends; `at` if none begins.
fn skipped(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return at + block_comment(rest);
    }
    let in_a_word = at > 0 && is_word(bytes[at - 1]);
    match rest[0] {
        b'"' => at + string(rest),
        b'\'' => at + character(rest),
        b'r' | b'b' | b'c' if !in_a_word => at + prefixed(rest),
        _ => at,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length of a string with escapes.
fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a character literal; 0 for a lifetime.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        let end = rest.iter().skip(3).position(|byte| *byte == b'\'');
        return end.map_or(rest.len(), |end| end + 4);
    }
    // One character of up to four bytes, then the closing quote.
    let width = rest.get(1).map_or(1, |first| match first {
        0xF0.. => 4,
        0xE0.. => 3,
        0xC0.. => 2,
        _ => 1,
    });
    if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
}

/// Length of a literal that begins with `b`, `c`, `r`, `br` or `cr`; 0 if it is something else.
fn prefixed(rest: &[u8]) -> usize {
    let letters = rest.iter().take_while(|byte| b"bcr".contains(byte)).count();
    if letters > 2 {
        return 0;
    }
    let after = &rest[letters..];
    if rest[letters - 1] == b'r' {
        let fences = after.iter().take_while(|byte| **byte == b'#').count();
        if after.get(fences) == Some(&b'"') {
            return letters + raw_string(after, fences);
        }
        return 0;
    }
    match after.first() {
        Some(b'"') => letters + string(after),
        Some(b'\'') if rest[0] == b'b' => letters + character(after),
        _ => 0,
    }
}

fn raw_string(rest: &[u8], fences: usize) -> usize {
    let mut end = vec![b'"'];
    end.resize(fences + 1, b'#');
    let inside = &rest[fences + 1..];
    let found = inside.windows(end.len()).position(|window| window == end);
    found.map_or(rest.len(), |found| fences + 1 + found + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(content: &str) -> String {
        Source::new("x.rs", content).code
    }

    #[test]
    fn comments_and_literals_are_blanked_and_lines_stay() {
        for (content, hidden) in [
            ("a // { unsafe\nb", "unsafe"),
            ("a /* x /* { */ unsafe */ b", "unsafe"),
            ("let a = \"{ unsafe \\\" }\";", "unsafe"),
            ("let a = r#\"{ \" unsafe\"#;", "unsafe"),
            ("let a = br\"unsafe\\\"; b", "unsafe"),
            ("let a = b\"unsafe\";", "unsafe"),
            ("let a = '{';", "{"),
            ("let a = b'{';", "{"),
            ("let a = '\\'';let b = '{';", "{"),
            ("let a = '\\u{7b}';", "{"),
            ("let a = '\u{fffd}'; let b = \"{\";", "{"),
        ] {
            let blanked = code(content);
            assert!(!blanked.contains(hidden), "{content} gives {blanked}");
            assert_eq!(blanked.len(), content.len());
            assert_eq!(blanked.matches('\n').count(), content.matches('\n').count());
        }
    }

    #[test]
    fn lifetimes_and_words_are_no_literals() {
        for content in
            ["fn a<'a>(x: &'a str) {}", "let r = b; let br = c;", "for_number(\n)", "'outer: loop {}"]
        {
            assert_eq!(code(content), content);
        }
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let content = "trait T { fn no_body(&self); }\n\npub(crate) fn two(\n    x: [u8; 2],\n) -> fn(u8) -> u8 {\n    if x { \"}\" }\n}\nfn one() {}\n";
        let functions = Source::new("x.rs", content).functions();
        let expected = [
            Function { name: "two".into(), line: 3, length: 5 },
            Function { name: "one".into(), line: 8, length: 1 },
        ];
        assert_eq!(functions, expected);
    }

    #[test]
    fn lines_are_counted_without_the_last_line_end() {
        assert_eq!(Source::new("x.rs", "a\nb\n").line_count(), 2);
        assert_eq!(Source::new("x.rs", "a\nb").line_count(), 2);
    }

    #[test]
    fn words_are_whole_words() {
        let source = Source::new("x.rs", "unsafe_code unsafe xunsafe unsafe{");
        assert_eq!(source.words("unsafe").collect::<Vec<_>>(), [12, 27]);
    }
}
