//! Comments, macros, constants, variables, parameters, escapes, imports.

use crate::{Files, check, check_errors, expanded_with, read, read_with};

#[test]
fn comments_trailing_commas_and_line_ends_in_strings_are_read() {
    let text = "\u{feff}// first\n{ /* a\n b */ \"a\": [1, 2,], // \"b\n\"c\": {\"d\": \"x // no\ncomment /* here */\",},\n} // end";
    assert_eq!(
        read(text).unwrap().json.to_string(),
        r#"{"a":[1,2],"c":{"d":"x // no\ncomment /* here */"}}"#
    );
    let text = r#"{"ret": "\u00e4\ud83d\ude00\"\\\\\/\b\f\n\r\t", "n": [-0, 1e3, 2.5, 9223372036854775807, true, null]}"#;
    let expected = "{\"ret\":\"ä😀\\\"\\\\/\\u0008\\u000c\\n\\r\\t\",\"n\":[0,1000.0,2.5,9223372036854775807,true,null]}";
    assert_eq!(read(text).unwrap().json.to_string(), expected);
}

#[test]
fn lines_are_those_of_the_text() {
    let loaded = read("{\n// one\n/* two\n three */ \"a\": [\n1,\n\"x\ny\", {\"b\":\n null}]}").unwrap();
    let items = loaded.json.get("a").unwrap();
    let lines: Vec<u32> = items.list("a").unwrap().iter().map(|item| item.place.line).collect();
    assert_eq!((items.place.line, lines), (4, vec![5, 6, 7]));
    assert_eq!(items.list("a").unwrap()[2].get("b").unwrap().place.line, 8);
}

#[test]
fn macros_are_called_in_both_forms() {
    let macros = r#"{
        "s": {"type": "macroDef", "result": "string"},
        "concat": {"type": "macroDef", "params": ["a", {"name": "b", "default": "321"}], "result": "%a%%b%"},
        "middle": {"type": "macroDef", "params": ["a", "b"], "result": "%a%2%b%"},
        "subst": {"type": "macroDef", "params": ["inner"], "result": "@%inner%"},
        "pair": {"type": "macroDef", "params": ["k", "v"], "result": {"%k%": ["%v%"], "x": "%v%"}},
        "def": {"type": "macroDef", "params": [{"name": "a", "default": 15}], "result": "%a%"},
        "opt": {"type": "macroDef", "params": ["a", {"name": "b", "optional": true}], "result": "@if(%a%,hello,%b%)"},
        "null": {"type": "macroDef", "params": [{"name": "a", "default": null}], "result": "@defined(a)"},
        "raw": {"type": "macroDef", "params": [{"name": "a", "default": "@s"}], "result": "%a%"}
    }"#;
    check(
        macros,
        &[
            (r#""@s""#, r#""string""#),
            (r#""@concat(@s,123)""#, r#""string123""#),
            (r#""@concat(@s)""#, r#""string321""#),
            ("\"@concat(hello,\n   world)\"", r#""helloworld""#),
            (r#""@middle(1,3)""#, r#""123""#),
            (r#""@subst(s)""#, r#""string""#),
            (r#"{"type": "concat", "a": "@s", "b": "!", "other": 1}"#, r#""string!""#),
            (
                r#"{"type": "@concat(pa,ir)", "k": "a", "v": [1, {"b": 2.5}]}"#,
                r#"{"a":[[1,{"b":2.5}]],"x":[1,{"b":2.5}]}"#,
            ),
            (r#"{"type": "NoMacro", "k": "@s"}"#, r#"{"type":"NoMacro","k":"string"}"#),
            (r#"{"type": 5, "@s": 1}"#, r#"{"type":5,"string":1}"#),
            (r#""@def""#, "15"),
            (r#""@def(abc)""#, r#""abc""#),
            (r#""@opt(@bool(true))""#, r#""hello""#),
            (r#""@opt(@bool(false), world)""#, r#""world""#),
            (r#""@null""#, "false"),
            (r#""@null(1)""#, "true"),
            (r#""@raw""#, r#""@s""#),
            (r#"{"a": 1, "@concat(a,)": 2}"#, r#"{"a":2}"#),
        ],
    );
    check_errors(
        macros,
        &[
            (r#""@concat""#, "\"concat\" is called with 0 arguments, 1 to 2 expected"),
            (r#""@s()""#, "\"s\" is called with 1 arguments, 0 expected"),
            (r#""@middle(1,2,3)""#, "\"middle\" is called with 3 arguments, 2 expected"),
            (r#"{"type": "middle", "a": 1}"#, "the call of macro \"middle\" has no \"b\""),
            (r#""@opt(@bool(false))""#, "unknown parameter \"b\""),
            (r#""@nothing(1)""#, "unknown macro \"nothing\""),
            (r#""@%hostid%""#, "the name of a macro in \"@%hostid%\" is an integer"),
            (r#""@s()a""#, "does not end with ')'"),
            (r#"{"%hostid%": 1}"#, "the name \"%hostid%\" becomes an integer, not a string"),
            (r#""a%hostid%""#, "\"hostid\" is an integer: within a string only a string can take its place"),
            (r#""a%b""#, "has an odd number of percent signs"),
            (r#""@foreach(a)""#, "@foreach has no short form"),
        ],
    );
}

#[test]
fn a_macro_sees_its_parameters_and_not_its_caller() {
    let macros = r#"{"m": {"type": "macroDef", "params": ["a"], "result": "%b%"}}"#;
    check_errors(macros, &[(r#"{"vars": {"b": "x"}, "c": "@m(1)"}"#, "unknown parameter \"b\"")]);
    // Parameters hide constants.
    let macros = r#"{"a": {"type": "constDef", "result": "const"}, "m": {"type": "macroDef", "params": ["a"], "result": "%a%"}}"#;
    check(macros, &[(r#"["%a%", "@m(x)"]"#, r#"["const","x"]"#)]);
}

#[test]
fn constants_refer_to_each_other_in_any_order() {
    let macros = r#"[
        {"d": {"type": "constDef", "result": "@A(d)"}, "a": {"type": "constDef", "result": "A"}},
        [{"type": "merge", "params": [
            {"A": {"type": "macroDef", "params": ["p"], "result": "%c%%p%"}, "b": {"type": "constDef", "result": "%a%b"}},
            {"c": {"type": "constDef", "result": "%b%c"}}
        ]}]
    ]"#;
    check(macros, &[(r#"["%a%", "%b%", "%c%", "%d%", "@%a%(%c%)"]"#, r#"["A","Ab","Abc","Abcd","AbcAbc"]"#)]);
    let macros =
        r#"{"a": {"type": "constDef", "result": "%b%"}, "b": {"type": "constDef", "result": ["%a%"]}}"#;
    check_errors(macros, &[(r#""%a%""#, "the constant \"a\" depends on itself")]);
}

#[test]
fn later_definitions_replace_earlier_ones_and_built_ins() {
    let text = r#"{"macros": [
        {"x": {"type": "constDef", "result": 1}, "size": {"type": "macroDef", "params": ["a"], "result": "mine"}},
        {"x": {"type": "constDef", "result": 2}, "hostid": {"type": "constDef", "result": 3}}
    ], "ret": ["%x%", "%hostid%", "@size(a)"]}"#;
    let loaded = read(text).unwrap();
    assert_eq!(loaded.json.to_string(), r#"{"ret":[2,3,"mine"]}"#);
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["main:2: the macro \"size\" replaces the built-in of this name"]);
}

#[test]
fn parameters_of_the_router_are_not_expanded() {
    check(
        "{}",
        &[(
            r#"["%hostid%", "%default-route%x", "%odd%", "@str(%odd%)"]"#,
            r#"[17,"/here/a/x","@%\\","@%\\"]"#,
        )],
    );
}

#[test]
fn parameters_of_the_router_stand_where_they_are_used() {
    let loaded = read("{\n\"a\": \"%hostid%\"}").unwrap();
    assert_eq!(
        loaded.json.get("a").unwrap().text("a").unwrap_err().to_string(),
        "main:2: 'a' is an integer, a string expected"
    );
}

#[test]
fn variables_belong_to_an_object_and_see_each_other() {
    check(
        "{}",
        &[
            (
                r#"{"vars": {"a": "%b%!", "b": "x"}, "c": "%a%", "d": {"vars": {"a": "1"}, "e": "%a%%b%"}, "f": "%a%"}"#,
                r#"{"c":"x!","d":{"e":"1x"},"f":"x!"}"#,
            ),
            (r#"{"type": "define", "vars": {"A": "B"}, "result": ["%A%"]}"#, r#"["B"]"#),
        ],
    );
    check_errors(
        "{}",
        &[
            (r#"{"vars": {"a": "%b%", "b": "%a%"}, "c": 1}"#, "the variable \"a\" depends on itself"),
            (r#"{"vars": [1], "c": 1}"#, "'vars' is an array, an object expected"),
            (r#"[{"vars": {"a": 1}}, "%a%"]"#, "unknown parameter \"a\""),
            (r#"{"vars": {"a": "@fail(unused)"}}"#, "@fail: unused (in variable \"a\")"),
        ],
    );
}

/// The cases are those of mcrouter's `escape` in config_preprocessor_test_file.json at 0265955761.
#[test]
fn a_backslash_takes_the_meaning_away() {
    let macros = r#"{
        "amp": {"type": "constDef", "result": "\\@"},
        "\\@": {"type": "macroDef", "result": "\\@\\(\\\\\\)"},
        "a": {"type": "macroDef", "result": "@\\@"},
        "b": {"type": "macroDef", "params": ["a", "b"], "result": {"\\@a": "@%a%", "\\@b": "@%a%%b%", "@a": "\\%a\\%%amp%"}},
        "c": {"type": "macroDef", "params": ["a"], "result": "%a%"}
    }"#;
    check(
        macros,
        &[
            (r#""\\%\\\\""#, r#""%\\""#),
            (r#""@a""#, r#""@(\\)""#),
            (r#""@\\a""#, r#""@(\\)""#),
            (r#""@b(\\a,)""#, r#"{"@a":"@(\\)","@b":"@(\\)","@(\\)":"%a%@"}"#),
            (r#""@c(  \\   \\\\ \\   )""#, r#""   \\  ""#),
            (r#""@c(  \\)  )""#, r#"")""#),
            (r#""@c(a\\,b)""#, r#""a,b""#),
            (r#""@c(\\@c(x))""#, r#""@c(x)""#),
            // A backslash at the end is lost.
            (r#""a\\""#, r#""a""#),
        ],
    );
}

#[test]
fn imports_are_expanded_once_and_outside_the_place_of_the_call() {
    let files = Files::default()
        .with(
            "file:a",
            r#"// a comment
            {"inner": "@import(file:b)", "id": "%hostid%"}"#,
        )
        .with("file:b", r#"["b", "@import(file:b%default-route%, none)"]"#)
        .with("file:macros", r#"{"m": {"type": "macroDef", "params": ["x"], "result": ["%x%", "%c%"]}}"#);
    let text = r#"{"macros": {"type": "merge", "params": ["@import(file:macros)", {"c": {"type": "constDef", "result": "k"}}]},
        "one": "@import(file:a)", "two": {"type": "import", "path": "file:a"}, "three": "@m(y)"}"#;
    let loaded = read_with(&files, text).unwrap();
    let a = r#"{"inner":["b","none"],"id":17}"#;
    assert_eq!(loaded.json.to_string(), format!(r#"{{"one":{a},"two":{a},"three":["y","k"]}}"#));
    let imports: Vec<&str> = loaded.imports.iter().map(|name| &**name).collect();
    assert_eq!(imports, ["file:macros", "file:a", "file:b", "file:b/here/a/"]);
    let inner = loaded.json.get("two").unwrap().get("inner").unwrap();
    assert_eq!((&*inner.place.source, inner.place.line), ("file:b", 1));
}

#[test]
fn a_default_takes_the_place_of_an_import_that_fails() {
    let files = Files::default().with("file:broken", "{").with("file:fails", r#""@fail(no)""#);
    let text = r#"{"a": "@import(file:broken,x)", "b": "@import(file:broken)", "c": "@import(file:fails,@import(file:none,d))"}"#;
    let loaded = read_with(&files, text).unwrap();
    assert_eq!(loaded.json.to_string(), r#"{"a":"x","b":"x","c":"d"}"#);
    assert_eq!(loaded.imports.len(), 3);
}

#[test]
fn only_macros_at_the_top_are_definitions() {
    let inner = r#"{"macros":{"a":{"type":"constDef","result":"%b%"}}}"#;
    assert_eq!(expanded_with("{}", inner).unwrap().to_string(), inner);
    for (macros, reason) in [
        ("3", "'macros' is an integer, an object or array expected"),
        (r#"{"a": "str"}"#, "the definition of \"a\" is a string, an object expected"),
        (r#"{"a": {"result": "a"}}"#, "the definition of \"a\" has no 'type'"),
        (r#"{"a": {"type": "macro", "result": "a"}}"#, "the 'type' of \"a\" is \"macro\""),
        (r#"{"a": {"type": "macroDef"}}"#, "the definition of \"a\" has no 'result'"),
        (r#"{"a": {"type": "constDef"}}"#, "the definition of \"a\" has no 'result'"),
        (
            r#"{"a": {"type": "macroDef", "params": "b", "result": 1}}"#,
            "'params' is a string, an array expected",
        ),
        (
            r#"{"a": {"type": "macroDef", "params": [1], "result": 1}}"#,
            "'params' is an integer, an object expected",
        ),
        (r#"{"a": {"type": "macroDef", "params": [{}], "result": 1}}"#, "'params' has no 'name'"),
        (
            r#"{"a": {"type": "macroDef", "params": ["b", "b"], "result": 1}}"#,
            "macro \"a\" has two parameters \"b\"",
        ),
        (
            r#"{"a": {"type": "macroDef", "params": [{"name": "b", "default": 1}, "c"], "result": 1}}"#,
            "come last",
        ),
        (
            r#"{"a": {"type": "macroDef", "params": [{"name": "b", "optional": 1}], "result": 1}}"#,
            "'optional' is an integer",
        ),
        (
            r#"{"a": {"type": "macroDef", "params": [{"name": "b", "default": 1, "optional": false}], "result": 1}}"#,
            "has a default and is not optional",
        ),
    ] {
        let error = expanded_with(macros, "1").expect_err(macros);
        assert!(error.reason.contains(reason), "{macros}: {error}");
    }
}
