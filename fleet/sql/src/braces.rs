//! Texts with names of columns: `user:{id}`.

/// A part of such a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Text(Vec<u8>),
    Name(String),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}': write a column as {{name}}, and literal braces as {{{{ and }}}}")]
pub struct BracesError(String);

/// The parts of a text. Before, between and behind names there is text, which may be empty.
pub fn parts(text: &str) -> Result<Vec<Part>, BracesError> {
    let wrong = || BracesError(text.to_owned());
    let (mut parts, mut plain) = (Vec::new(), Vec::new());
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        plain.extend_from_slice(&rest.as_bytes()[..at]);
        let brace = &rest[at..at + 1];
        let after = &rest[at + 1..];
        if let Some(behind) = after.strip_prefix(brace) {
            plain.extend_from_slice(brace.as_bytes());
            rest = behind;
            continue;
        }
        let (name, behind) = after.split_once('}').filter(|_| brace == "{").ok_or_else(wrong)?;
        if name.is_empty() || name.contains('{') {
            return Err(wrong());
        }
        parts.push(Part::Text(std::mem::take(&mut plain)));
        parts.push(Part::Name(name.to_owned()));
        rest = behind;
    }
    plain.extend_from_slice(rest.as_bytes());
    parts.push(Part::Text(plain));
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_between_braces_and_text_around_them() {
        let text = |text: &str| Part::Text(text.into());
        assert_eq!(parts("user:{id}"), Ok(vec![text("user:"), Part::Name("id".to_owned()), text("")]));
        assert_eq!(parts("{{{a}}}").map(|parts| parts.len()), Ok(3));
        assert_eq!(parts("{{a}}"), Ok(vec![text("{a}")]));
        assert_eq!(parts(""), Ok(vec![text("")]));
    }

    #[test]
    fn braces_that_do_not_match_are_refused() {
        for text in ["{", "}", "a{", "a}", "{}", "{a", "{a{b}}", "a{b}}"] {
            assert_eq!(parts(text), Err(BracesError(text.to_owned())), "{text}");
        }
    }
}
