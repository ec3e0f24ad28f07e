//! Where errors are, and what the text itself can have wrong.

use crate::{Files, read, read_with};

/// What the error of a text is, in whole.
fn check(text: &str, error: &str) {
    let found = read(text).map(|loaded| loaded.json.to_string()).expect_err(text);
    assert_eq!(found.to_string(), error, "{text}");
}

#[test]
fn what_is_no_json_is_refused_with_its_line() {
    for (text, error) in [
        ("", "main:1: the file ends, a value expected"),
        ("\n\n", "main:3: the file ends, a value expected"),
        ("[]", "main:1: a configuration is an object, this is an array"),
        ("\n{} x", "main:2: 'x' found, the end of the file expected"),
        ("{\n/* \n", "main:2: a comment does not end"),
        ("{\n\"a\n", "main:2: a string does not end"),
        ("{\n\"a\\", "main:2: a string does not end"),
        ("{\n\"a\" 1}", "main:2: '1' found, ':' expected"),
        ("{\n\"a\": 1 \"b\": 2}", "main:2: '\"' found, ',' or '}' expected"),
        ("{\"a\": [1\n2]}", "main:2: '2' found, ',' or ']' expected"),
        ("{\"a\": [,]}", "main:1: ',' found, a value expected"),
        ("{,}", "main:1: ',' found, a name in double quotes or '}' expected"),
        ("{a: 1}", "main:1: 'a' found, a name in double quotes or '}' expected"),
        ("{\"a\": 'b'}", "main:1: '\\'' found, a value expected"),
        ("{\"a\": }", "main:1: '}' found, a value expected"),
        ("{\"a\": True}", "main:1: 'T' found, a value expected"),
        ("{\"a\": trueish}", "main:1: 't' found, a value expected"),
        ("{\"a\": NaN}", "main:1: 'N' found, a value expected"),
        ("{\"a\": / 1}", "main:1: '/' found, a value expected"),
        ("{\"a\": ä}", "main:1: 'ä' found, a value expected"),
        ("{\"a\": \0}", "main:1: '\\0' found, a value expected"),
        ("{\n\"a\": 1,\n\n\"a\": 2}", "main:4: \"a\" is in this object already, on line 2"),
        (
            "{\"a\": 9223372036854775808}",
            "main:1: 9223372036854775808 is no number, or does not fit into 64 bits",
        ),
        ("{\"a\": 1e999}", "main:1: 1e999 is no number, or does not fit into 64 bits"),
        ("{\"a\": -}", "main:1: - is no number, or does not fit into 64 bits"),
        ("{\"a\": 1.2.3}", "main:1: 1.2.3 is no number, or does not fit into 64 bits"),
        ("{\"a\": 1-2}", "main:1: 1-2 is no number, or does not fit into 64 bits"),
        ("{\n\"a\": \"\n\\x\"}", "main:3: \\x is no escape of JSON"),
        ("{\"a\": \"\\u12g4\"}", "main:1: \\u is followed by four hexadecimal digits"),
        ("{\"a\": \"\\u+123\"}", "main:1: \\u is followed by four hexadecimal digits"),
        ("{\"a\": \"\\u12", "main:1: \\u is followed by four hexadecimal digits"),
        ("{\"a\": \"\\u123ä\"}", "main:1: \\u is followed by four hexadecimal digits"),
        ("{\"a\": \"\\ud83d\"}", "main:1: \\ud83d is half a character"),
        ("{\"a\": \"\\ude00\\ud83d\"}", "main:1: \\ude00 is half a character"),
        ("{\"a\": \"\\ud83d\\u0041\"}", "main:1: \\ud83d is half a character"),
    ] {
        check(text, error);
    }
    let digits = "9".repeat(1000);
    let error = read(&format!("{{\"a\": {digits}}}")).unwrap_err();
    assert!(error.reason.len() < 100, "{error}");
}

#[test]
fn errors_name_the_innermost_line_and_how_it_was_reached() {
    let files = Files::default()
        .with("file:m", "{\n\"half\": {\"type\": \"macroDef\", \"params\": [\"x\"],\n \"result\": {\"weight\":\n \"@div(%x%,@int(0))\"}}}")
        .with("file:route", "{\"a\": 1,\n\"b\": [\n\"@half(@int(4))\"]}")
        .with("file:wrong", "{\n\n\"a\": [1,\n}");
    for (text, error) in [
        (
            "{\"macros\": \"@import(file:m)\",\n\"route\":\n\"@import(file:route)\"}",
            "file:m:4: \"weight\": @div: division by 0 (in macro \"half\", called at file:route:3, in import at main:3)",
        ),
        (
            "{\"a\":\n{\"b\": \"@import(file:wrong)\"}}",
            "file:wrong:4: \"b\": '}' found, a value expected (in import at main:2)",
        ),
        ("{\"a\":\n\"@import(file:none)\"}", "main:2: \"a\": cannot import \"file:none\": no such file"),
        (
            "{\"macros\": {\"c\": {\"type\": \"constDef\", \"result\":\n [\"%d%\"]}},\n\"a\": \"%c%\"}",
            "main:2: \"a\": unknown parameter \"d\" (in constant \"c\")",
        ),
        (
            "{\"a\": {\n\"type\": \"merge\",\n\"params\": [[],\n{}]}}",
            "main:1: \"a\": @merge: an object cannot be merged with an array",
        ),
    ] {
        let found = read_with(&files, text).map(|loaded| loaded.json.to_string()).expect_err(text);
        assert_eq!(found.to_string(), error, "{text}");
    }
}

#[test]
fn long_ways_to_an_error_are_cut_short() {
    let macros: String = (0..20)
        .map(|level| format!("\"m{level}\": {{\"type\": \"macroDef\", \"result\": \"@m{}\"}},\n", level + 1))
        .collect();
    let error = read(&format!("{{\"macros\": {{{macros}}},\n\"a\": \"@m0\"}}")).unwrap_err();
    assert!(error.reason.contains("unknown macro \"m20\""), "{error}");
    assert!(error.reason.contains("in macro \"m19\"") && error.reason.ends_with("in 15 more)"), "{error}");
}
