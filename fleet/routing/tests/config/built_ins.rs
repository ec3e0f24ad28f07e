//! Every built-in: what it comes to, and what it refuses.

use guira_routing::config::load;

use crate::{Files, check, check_errors, expanded, globals};

#[test]
fn casts() {
    check(
        "{}",
        &[
            (
                r#"["@int(5)", "@int( -1 )", {"type": "int", "value": 4.0}, {"type": "int", "value": true}]"#,
                "[5,-1,4,1]",
            ),
            (r#"["@double(5.1)", "@double(@int(2))", "@double(@bool(1))"]"#, "[5.1,2.0,1.0]"),
            (
                r#"["@str(@int(5))", "@str(x)", {"type": "str", "value": 2.50}, {"type": "str", "value": 1.0}]"#,
                r#"["5","x","2.5","1"]"#,
            ),
            (
                r#"[{"type": "str", "value": 1e21}, {"type": "str", "value": 1e-7}, {"type": "str", "value": true}]"#,
                r#"["1E21","1E-7","1"]"#,
            ),
            (
                r#"["@bool(true)", "@bool(Y)", "@bool(on)", "@bool(001)", "@bool(@int(7))", {"type": "bool", "value": 0.5}]"#,
                "[true,true,true,true,true,true]",
            ),
            (
                r#"["@bool(false)", "@bool(no)", "@bool(OFF)", "@bool(0)", "@bool(@int(0))", {"type": "bool", "value": 0.0}]"#,
                "[false,false,false,false,false,false]",
            ),
        ],
    );
    check_errors(
        "{}",
        &[
            (r#""@int(5x)""#, "@int: \"5x\" has no such value"),
            (r#""@int()""#, "@int: \"\" has no such value"),
            (r#"{"type": "int", "value": 4.5}"#, "@int: 4.5 has no such value"),
            (r#"{"type": "int", "value": 1e30}"#, "@int: 1e30 has no such value"),
            (r#"{"type": "int", "value": null}"#, "@int: null has no such value"),
            (r#"{"type": "double", "value": []}"#, "@double: an array has no such value"),
            (r#""@double(inf)""#, "@double: \"inf\" has no such value"),
            (r#"{"type": "str", "value": {}}"#, "@str: an object has no such value"),
            (r#""@bool(maybe)""#, "@bool: \"maybe\" has no such value"),
            (r#""@bool()""#, "@bool: \"\" has no such value"),
        ],
    );
}

#[test]
fn kinds() {
    for (name, of_which) in
        [("isArray", 0), ("isBool", 1), ("isInt", 2), ("isDouble", 3), ("isObject", 4), ("isString", 5)]
    {
        for (at, value) in ["[]", "true", "1", "1.0", "{}", "\"1\"", "null"].iter().enumerate() {
            let call = format!(r#"{{"type": "{name}", "value": {value}}}"#);
            assert_eq!(expanded(&call).unwrap().to_string(), (at == of_which).to_string(), "{call}");
        }
    }
}

#[test]
fn arithmetic() {
    check(
        "{}",
        &[
            (
                r#"["@add(@int(5),@int(-7))", "@sub(@int(5),@int(7))", "@mul(@int(-5),@int(7))"]"#,
                "[-2,-2,-35]",
            ),
            (
                r#"["@div(@int(7),@int(3))", "@div(@int(-7),@int(3))", "@mod(@int(5),@int(3))", "@mod(@int(-5),@int(3))"]"#,
                "[2,-2,2,-2]",
            ),
            (
                r#"["@bitwiseAnd(@int(6),@int(3))", "@bitwiseOr(@int(6),@int(3))", "@bitwiseXor(@int(6),@int(3))"]"#,
                "[2,7,5]",
            ),
            (
                r#"["@bitwiseNot(@int(0))", "@bitwiseLeftShift(@int(1),@int(63))", "@bitwiseRightShift(@int(-1),@int(60))"]"#,
                "[-1,-9223372036854775808,15]",
            ),
        ],
    );
    let max = "@int(9223372036854775807)";
    let min = "@int(-9223372036854775808)";
    check_errors(
        "{}",
        &[
            (
                &format!("\"@add({max},@int(1))\""),
                "@add: the result for 9223372036854775807 and 1 has more than 64 bits",
            ),
            (&format!("\"@sub({min},@int(1))\""), "has more than 64 bits"),
            (&format!("\"@mul({max},@int(2))\""), "has more than 64 bits"),
            (&format!("\"@div({min},@int(-1))\""), "has more than 64 bits"),
            (&format!("\"@mod({min},@int(-1))\""), "has more than 64 bits"),
            (r#""@div(@int(5),@int(0))""#, "@div: division by 0"),
            (r#""@mod(@int(5),@int(0))""#, "@mod: division by 0"),
            (r#""@add(1,@int(1))""#, "@add: \"A\" is a string, an integer expected"),
            (r#""@bitwiseAnd(@int(1),b)""#, "@bitwiseAnd: \"B\" is a string, an integer expected"),
            (r#""@bitwiseNot(1)""#, "\"A\" is a string"),
            (r#""@bitwiseLeftShift(@int(1),@int(64))""#, "0 to 63"),
            (r#""@bitwiseRightShift(@int(1),@int(-1))""#, "0 to 63"),
        ],
    );
}

#[test]
fn conditions() {
    check(
        "{}",
        &[
            (r#""@and(@not(@or(@bool(false),@bool(1))), @not(@bool(false)))""#, "false"),
            // Unused parts are not expanded.
            (
                r#"["@and(@bool(0),@fail(x))", "@or(@bool(1),@fail(x))", "@if(@bool(1),abc,@fail(x))"]"#,
                r#"[false,true,"abc"]"#,
            ),
            (
                r#"{"type": "if", "condition": false, "is_true": "@fail(x)", "is_false": {"a": "%hostid%"}}"#,
                r#"{"a":17}"#,
            ),
            (
                r#"["@equals(a,a)", "@equals(a,b)", "@equals(1,@int(1))", {"type": "equals", "A": 1, "B": 1.0}]"#,
                "[true,false,false,true]",
            ),
            (
                r#"[{"type": "equals", "A": {"a": [1], "b": null}, "B": {"b": null, "a": [1]}}, {"type": "equals", "A": [1], "B": [1, 2]}]"#,
                "[true,false]",
            ),
            (
                r#"[{"type": "equals", "A": {"a": 1}, "B": {"b": 1}}, {"type": "equals", "A": {"a": 1}, "B": {"a": 2}}]"#,
                "[false,false]",
            ),
            (
                r#"["@less(a,b)", "@less(b,a)", "@less(a,a)", "@less(@int(10),@int(9))", {"type": "less", "A": 1, "B": 1.5}]"#,
                "[true,false,false,false,true]",
            ),
            (
                r#"[{"type": "less", "A": [1, 2], "B": [1, 3]}, {"type": "less", "A": [1], "B": [1, 3]}, {"type": "less", "A": 99, "B": "1"}]"#,
                "[true,true,true]",
            ),
            // As numbers of 64 bits with a point these two are equal.
            (r#"{"type": "less", "A": 9007199254740992.0, "B": 9007199254740993}"#, "true"),
            (
                r#"["@defined(hostid)", "@defined(nothing)", {"vars": {"x": 1}, "a": "@defined(x)"}]"#,
                r#"[true,false,{"a":true}]"#,
            ),
            (
                r#"["@isLocalIp(::1)", "@isLocalIp([::1])", "@isLocalIp(10.1.2.3)", "@isLocalIp(10.1.2.4)", "@isLocalIp(blah)"]"#,
                "[true,true,true,false,false]",
            ),
        ],
    );
    check_errors(
        "{}",
        &[
            (r#""@if(a,b,c)""#, "@if: \"condition\" is a string, true or false expected"),
            (r#""@if(@bool(1),b)""#, "\"if\" is called with 2 arguments, 3 expected"),
            (r#"{"type": "if", "condition": true, "is_true": 1}"#, "the call of \"if\" has no \"is_false\""),
            (r#""@and(@bool(1),b)""#, "@and: \"B\" is a string"),
            (r#""@or(a,@bool(1))""#, "@or: \"A\" is a string"),
            (r#""@not(a)""#, "@not: \"A\" is a string"),
            (r#"{"type": "less", "A": {}, "B": {}}"#, "@less: objects have no order"),
            (r#"{"type": "less", "A": [{}], "B": [1]}"#, "@less: objects have no order"),
            (r#""@fail(Your message, here)""#, "\"fail\" is called with 2 arguments"),
            (r#""@fail(Your message)""#, "@fail: Your message"),
            (r#"{"type": "fail", "msg": {"a": [1]}}"#, "@fail: {\"a\":[1]}"),
            (r#"{"type": "defined", "name": 1}"#, "@defined: \"name\" is an integer, a string expected"),
            (r#"{"type": "import", "path": 1}"#, "@import: \"path\" is an integer, a string expected"),
            (r#"{"type": "isLocalIp", "ip": 1}"#, "@isLocalIp: \"ip\" is an integer"),
            (r#"{"type": "define"}"#, "the call of \"define\" has no \"result\""),
        ],
    );
}

#[test]
fn collections_and_their_parts() {
    check(
        "{}",
        &[
            (
                r#"[{"type": "keys", "dictionary": {"b": 1, "a": 2}}, {"type": "values", "dictionary": {"b": 1, "a": [2]}}]"#,
                r#"[["b","a"],[1,[2]]]"#,
            ),
            (r#"{"type": "merge", "params": [[1, 2], [], [3]]}"#, "[1,2,3]"),
            (
                r#"{"type": "merge", "params": [{"a": 1, "b": 2}, {"b": 3, "c": 4}]}"#,
                r#"{"a":1,"b":3,"c":4}"#,
            ),
            (r#"{"type": "merge", "params": ["a", "@str(@int(5))", "%default-route%"]}"#, r#""a5/here/a/""#),
            (r#"{"type": "select", "dictionary": {"a": 1, "b": 2}, "key": "a", "default": "@fail(x)"}"#, "1"),
            (
                r#"[{"type": "select", "dictionary": ["a", "b"], "key": 1}, {"type": "select", "dictionary": ["a", "b"], "key": -2}]"#,
                r#"["b","a"]"#,
            ),
            (
                r#"[{"type": "select", "dictionary": ["a"], "key": 1, "default": 3}, {"type": "select", "dictionary": {}, "key": "c", "default": 3}]"#,
                "[3,3]",
            ),
            (
                r#"{"vars": {"d": {"a": "b"}}, "x": ["@select(%d%, a)", "@select(%d%, b, c)"]}"#,
                r#"{"x":["b","c"]}"#,
            ),
            (
                r#"{"type": "slice", "from": "@int(1)", "to": 2, "dictionary": ["a", "b", "c", "d"]}"#,
                r#"["b","c"]"#,
            ),
            (
                r#"{"type": "slice", "from": "b", "to": "c", "dictionary": {"a": 1, "c": 3, "b": 2, "d": 4}}"#,
                r#"{"c":3,"b":2}"#,
            ),
            (
                r#"["@slice(abcd,@int(2),@int(3))", "@slice(abcd,@int(0),@int(-1))", "@slice(abcd,@int(-10),@int(10000))", "@slice(abcd,@int(9),@int(9))"]"#,
                r#"["cd","","abcd",""]"#,
            ),
        ],
    );
}

#[test]
fn collections_changed_and_searched() {
    check(
        "{}",
        &[
            (
                r#"["@split(a.b.c.,.)", "@split(,)", "@split(abacaba,)", "@split(abbabbabb, bb)"]"#,
                r#"[["a","b","c",""],[""],["abacaba"],["a","a","a",""]]"#,
            ),
            (
                r#"{"type": "set", "dictionary": {"a": 1, "b": 2}, "key": "b", "value": 5}"#,
                r#"{"a":1,"b":5}"#,
            ),
            (r#"{"type": "set", "dictionary": {"a": 1}, "key": "c", "value": [10]}"#, r#"{"a":1,"c":[10]}"#),
            (r#"{"type": "set", "dictionary": ["a", 1], "key": 1, "value": "c"}"#, r#"["a","c"]"#),
            (r#"["@range( @int(-1), @int(2) )", "@range(@int(1),@int(0))"]"#, "[[-1,0,1,2],[]]"),
            (
                r#"[{"type": "contains", "dictionary": [100, [1]], "key": [1]}, {"type": "contains", "dictionary": [0], "key": 5}]"#,
                "[true,false]",
            ),
            (r#"["@contains(abacaba,aca)", "@contains(abacaba,ada)"]"#, "[true,false]"),
            (
                r#"[{"type": "contains", "dictionary": {"a": 1}, "key": "a"}, {"type": "contains", "dictionary": {"a": 1}, "key": "c"}]"#,
                "[true,false]",
            ),
            (
                r#"["@empty()", "@empty(a)", {"type": "empty", "dictionary": []}, {"type": "empty", "dictionary": {"a": 1}}]"#,
                "[true,false,true,false]",
            ),
            (
                r#"["@size(abc)", "@size(ä)", {"type": "size", "dictionary": [1, 2]}, {"type": "size", "dictionary": {}}]"#,
                "[3,2,2,0]",
            ),
            (
                r#"{"type": "sort", "dictionary": ["2", "99", 10, 99, 9.5, null, true, [1], "@str(@int(100))"]}"#,
                r#"[null,[1],true,9.5,10,99,"100","2","99"]"#,
            ),
        ],
    );
}

#[test]
fn collections_of_the_wrong_kind() {
    check_errors(
        "{}",
        &[
            (r#""@keys(a)""#, "@keys: \"dictionary\" is a string, an object expected"),
            (r#""@values(a)""#, "@values: \"dictionary\" is a string, an object expected"),
            (r#""@merge(a)""#, "@merge: \"params\" is a string, an array expected"),
            (r#"{"type": "merge", "params": []}"#, "@merge: \"params\" is empty"),
            (r#"{"type": "merge", "params": [1]}"#, "@merge: an integer cannot be merged"),
            (r#"{"type": "merge", "params": [[], {}]}"#, "@merge: an object cannot be merged with an array"),
            (r#"{"type": "merge", "params": [{}, []]}"#, "@merge: an array cannot be merged with an object"),
            (r#"{"type": "merge", "params": ["", 1]}"#, "@merge: an integer cannot be merged with a string"),
            (r#"{"type": "select", "dictionary": {"a": 1}, "key": "b"}"#, "@select: no \"b\" and no default"),
            (
                r#"{"type": "select", "dictionary": {"a": 1}, "key": ["a"]}"#,
                "@select: \"key\" is an array, a string expected",
            ),
            (
                r#"{"type": "select", "dictionary": ["a"], "key": "0"}"#,
                "@select: \"key\" is a string, an integer expected",
            ),
            (r#"{"type": "select", "dictionary": ["a"], "key": -2}"#, "@select: no position -2 of 1"),
            (
                r#"{"type": "select", "dictionary": ["a"], "key": 2, "default": "@fail(No key)"}"#,
                "@fail: No key",
            ),
            (r#""@select(a,b)""#, "@select: \"dictionary\" is a string, an array or object expected"),
        ],
    );
}

#[test]
fn parts_of_the_wrong_kind() {
    check_errors(
        "{}",
        &[
            (r#""@slice(ä,@int(0),@int(0))""#, "cut a character"),
            (r#""@slice(a,b,c)""#, "@slice: \"from\" is a string, an integer expected"),
            (
                r#"{"type": "slice", "dictionary": {}, "from": 1, "to": "a"}"#,
                "@slice: \"from\" is an integer, a string expected",
            ),
            (
                r#"{"type": "slice", "dictionary": 1, "from": 1, "to": 1}"#,
                "@slice: \"dictionary\" is an integer",
            ),
            (r#"{"type": "split", "dictionary": 1, "delim": "a"}"#, "@split: \"dictionary\" is an integer"),
            (
                r#"{"type": "set", "dictionary": [1, 2], "key": 2, "value": 3}"#,
                "@set: there is no position 2 of 2",
            ),
            (
                r#"{"type": "set", "dictionary": [1, 2], "key": "a", "value": 3}"#,
                "@set: \"key\" is a string, an integer expected",
            ),
            (
                r#"{"type": "set", "dictionary": {}, "key": 1, "value": 3}"#,
                "@set: \"key\" is an integer, a string expected",
            ),
            (r#""@set(a,b,c)""#, "@set: \"dictionary\" is a string"),
            (r#""@range(a,@int(1))""#, "@range: \"from\" is a string"),
            (
                r#"{"type": "contains", "dictionary": 1, "key": "a"}"#,
                "@contains: \"dictionary\" is an integer",
            ),
            (
                r#"{"type": "contains", "dictionary": {}, "key": 1}"#,
                "@contains: \"key\" is an integer, a string expected",
            ),
            (r#"{"type": "empty", "dictionary": 1}"#, "@empty: \"dictionary\" is an integer"),
            (r#"{"type": "size", "dictionary": null}"#, "@size: \"dictionary\" is null"),
            (r#"{"type": "sort", "dictionary": "a"}"#, "@sort: \"dictionary\" is a string"),
            (r#"{"type": "sort", "dictionary": [1, {}]}"#, "@sort: objects have no order"),
        ],
    );
}

#[test]
fn loops_transform_what_they_go_over() {
    check(
        r#"{"concat": {"type": "macroDef", "params": ["a", "b"], "result": "%a%%b%"}}"#,
        &[
            (
                r#"{"type": "transform", "dictionary": ["a", "b"], "itemTransform": "@concat(%item%,@str(%key%))"}"#,
                r#"["a0","b1"]"#,
            ),
            (
                r#"{"type": "transform", "dictionary": {"a": "1", "b": "2"}, "keyTransform": "%key%1", "itemTransform": "@concat(%item%,%key%)"}"#,
                r#"{"a1":"1a","b1":"2b"}"#,
            ),
            (
                r#"{"type": "transform", "dictionary": {"a": [1, 2], "b": [3]}, "itemName": "list", "keyName": "name", "itemTransform":
                {"type": "transform", "dictionary": "%list%", "itemTransform": "@concat(%name%,@str(%item%))"}}"#,
                r#"{"a":["a1","a2"],"b":["b3"]}"#,
            ),
            (
                r#"{"type": "transform", "keyTransform": "%item%", "itemTransform": "%key%", "dictionary": {"a": ["1", "2"], "b": [], "c": ["2"]}}"#,
                r#"{"1":"a","2":"c"}"#,
            ),
            (r#"{"type": "transform", "dictionary": {"a": 1}, "keyTransform": "x"}"#, r#"{"x":1}"#),
            (
                r#"[{"type": "transform", "dictionary": []}, {"type": "transform", "dictionary": {}}]"#,
                "[[],{}]",
            ),
        ],
    );
    check_errors(
        r#"{"a": {"type": "macroDef", "result": "%item%"}}"#,
        &[
            (r#"{"type": "transform", "dictionary": [1]}"#, "transform: has no 'itemTransform'"),
            (r#"{"type": "transform", "itemTransform": 1}"#, "transform: has no 'dictionary'"),
            (
                r#"{"type": "transform", "dictionary": "a"}"#,
                "transform: 'dictionary' is a string, an array or object expected",
            ),
            (
                r#"{"type": "transform", "dictionary": {"a": 1}, "itemName": "not_item", "itemTransform": "%item%"}"#,
                "unknown parameter \"item\"",
            ),
            (
                r#"{"type": "transform", "dictionary": {"a": 1}, "itemName": 1}"#,
                "'itemName' is an integer, a string expected",
            ),
            (
                r#"{"type": "transform", "dictionary": {"a": 1}, "itemName": "key"}"#,
                "two parameters here have the name \"key\"",
            ),
            (
                r#"{"type": "transform", "dictionary": {"a": 1}, "keyTransform": 1}"#,
                "'keyTransform' becomes an integer",
            ),
            (
                r#"{"type": "transform", "dictionary": {"a": 1}, "keyTransform": [1]}"#,
                "'keyTransform' becomes an array of other things",
            ),
            (
                r#"{"type": "transform", "dictionary": [1], "itemTransform": "@a"}"#,
                "unknown parameter \"item\"",
            ),
        ],
    );
}

#[test]
fn loops_carry_a_value() {
    let macros = r#"{
        "indexof": {"type": "macroDef", "params": ["list", "x"], "result": {"type": "process", "initialValue": -1, "dictionary": "%list%",
            "transform": {"type": "if", "condition": "@and(@equals(%value%,@int(-1)),@equals(%item%,%x%))", "is_true": "%key%", "is_false": "%value%"}}},
        "factorial": {"type": "macroDef", "params": ["x"], "result":
            {"type": "if", "condition": "@less(@int(1),%x%)", "is_true": "@mul(%x%,@factorial(@sub(%x%,@int(1))))", "is_false": 1}}
    }"#;
    check(
        macros,
        &[
            (r#"{"type": "indexof", "list": ["a", "b", "c"], "x": "c"}"#, "2"),
            (r#"["@factorial(@int(5))", "@factorial(@int(0))"]"#, "[120,1]"),
            (
                r#"{"type": "process", "dictionary": {"a": "1", "b": "2"}, "initialValue": "", "transform": "%v%%k%%i%", "valueName": "v", "keyName": "k", "itemName": "i"}"#,
                r#""a1b2""#,
            ),
            (r#"{"type": "process", "dictionary": [], "initialValue": [1], "transform": "@fail(x)"}"#, "[1]"),
        ],
    );
    check_errors(
        "{}",
        &[
            (r#"{"type": "process", "dictionary": [], "transform": 1}"#, "process: has no 'initialValue'"),
            (r#"{"type": "process", "dictionary": [], "initialValue": 1}"#, "process: has no 'transform'"),
            (
                r#"{"type": "process", "dictionary": 1, "initialValue": 1, "transform": 1}"#,
                "process: 'dictionary' is an integer",
            ),
            (
                r#"{"type": "process", "dictionary": [], "initialValue": 1, "transform": 1, "valueName": "item"}"#,
                "two parameters here have the name \"item\"",
            ),
        ],
    );
}

#[test]
fn loops_select_and_put_together() {
    check(
        "{}",
        &[
            (r#"{"type": "foreach", "from": ["a", "b"], "use": ["%item%1", "%key%"]}"#, r#"["a1",0,"b1",1]"#),
            (
                r#"{"type": "foreach", "from": {"a": "1", "b": "2"}, "use": {"x%key%": "%item%", "last": "%key%"}}"#,
                r#"{"xa":"1","last":"b","xb":"2"}"#,
            ),
            (
                r#"{"type": "foreach", "from": ["a", "b", "c"], "where": "@not(@equals(%i%,b))", "item": "i", "key": "k"}"#,
                r#"["a","c"]"#,
            ),
            (
                r#"{"type": "foreach", "from": {"a": 1, "b": 2, "c": 3}, "where": "@less(@int(1),%item%)", "top": 1}"#,
                r#"{"b":2}"#,
            ),
            (
                r#"[{"type": "foreach", "from": ["a", "b"], "top": 0}, {"type": "foreach", "from": {}}, {"type": "foreach", "from": []}]"#,
                "[[],{},[]]",
            ),
            (
                r#"{"type": "foreach", "from": {"a": 1}, "where": false, "noMatchResult": "@str(none)"}"#,
                r#""none""#,
            ),
        ],
    );
    check_errors(
        "{}",
        &[
            (r#"{"type": "foreach"}"#, "foreach: has no 'from'"),
            (r#"{"type": "foreach", "from": 1}"#, "foreach: 'from' is an integer"),
            (r#"{"type": "foreach", "from": [1], "top": -1}"#, "'top' is -1"),
            (r#"{"type": "foreach", "from": [1], "top": "1"}"#, "'top' is a string, an integer expected"),
            (
                r#"{"type": "foreach", "from": [1], "where": 1}"#,
                "'where' is an integer, true or false expected",
            ),
            (r#"{"type": "foreach", "from": [1], "use": 1}"#, "foreach: 'use' becomes an integer"),
            (
                r#"{"type": "foreach", "from": [[], {}], "use": "%item%"}"#,
                "foreach: 'use' becomes an array for one entry and an object for another",
            ),
        ],
    );
}

#[test]
fn hashes_choose_and_shuffle() {
    // The first two are those of mcrouter's config_preprocessor_test_file.json at 0265955761.
    check(
        "{}",
        &[
            (r#"["@hash(abcd)", "@hash(@int(2313))"]"#, "[6660178300034425268,-4996987850411076878]"),
            (r#"{"type": "weightedHash", "dictionary": {"a": 0.0, "b": 1}, "key": 5}"#, r#""b""#),
            (r#"{"type": "weightedHash", "dictionary": {"a": 3, "b": -0.005}, "key": "x"}"#, r#""a""#),
            (
                r#"[{"type": "shuffle", "dictionary": [1]}, {"type": "shuffle", "dictionary": [0, 1, 2, 3, 4, 5], "seed": 7}]"#,
                "[[1],[5,4,0,3,2,1]]",
            ),
            (r#"{"type": "shuffle", "dictionary": [0, 1, 2, 3, 4, 5]}"#, "[5,3,1,4,0,2]"),
        ],
    );
    check_errors(
        "{}",
        &[
            (
                r#"{"type": "hash", "value": 1.5}"#,
                "@hash: \"value\" is a number, an integer or string expected",
            ),
            (
                r#"{"type": "weightedHash", "dictionary": {}, "key": 1}"#,
                "@weightedHash: the sum of the weights is 0",
            ),
            (
                r#"{"type": "weightedHash", "dictionary": {"a": 0}, "key": 1}"#,
                "@weightedHash: the sum of the weights is 0",
            ),
            (r#"{"type": "weightedHash", "dictionary": {"a": -1}, "key": 1}"#, "'a' is -1.0"),
            (
                r#"{"type": "weightedHash", "dictionary": {"a": "1"}, "key": 1}"#,
                "'a' is a string, a number expected",
            ),
            (
                r#"{"type": "weightedHash", "dictionary": {"a": 1e308, "b": 1e308}, "key": 1}"#,
                "@weightedHash: the sum of the weights is inf",
            ),
            (
                r#"{"type": "weightedHash", "dictionary": [], "key": 1}"#,
                "@weightedHash: \"dictionary\" is an array",
            ),
            (
                r#"{"type": "weightedHash", "dictionary": {"a": 1}, "key": null}"#,
                "@weightedHash: \"key\" is null",
            ),
            (
                r#"{"type": "shuffle", "dictionary": {}}"#,
                "@shuffle: \"dictionary\" is an object, an array expected",
            ),
            (r#"{"type": "shuffle", "dictionary": [], "seed": -1}"#, "'seed' is -1"),
        ],
    );
}

/// Weights are shares of the keys, and a key moves only to a name whose share grew.
#[test]
fn a_weighted_hash_gives_each_name_its_share() {
    let choose = |weights: &str| -> Vec<String> {
        let text = format!(
            r#"{{"type": "transform", "dictionary": "@range(@int(0),@int(9999))", "itemTransform":
                {{"type": "weightedHash", "dictionary": {weights}, "key": "%item%"}}}}"#
        );
        expanded(&text).unwrap().list("").unwrap().iter().map(|name| name.text("").unwrap().into()).collect()
    };
    let before = choose(r#"{"a": 0.5, "b": 0.5}"#);
    let after = choose(r#"{"a": 0.5, "b": 0.5, "c": 1}"#);
    let share = |names: &[String], name: &str| names.iter().filter(|found| *found == name).count();
    assert!((4700..5300).contains(&share(&before, "a")), "{}", share(&before, "a"));
    assert!((4700..5300).contains(&share(&after, "c")), "{}", share(&after, "c"));
    let moved_back =
        before.iter().zip(&after).filter(|(before, after)| before != after && *after != "c").count();
    assert_eq!(moved_back, 0);
}

#[test]
fn shuffles_without_a_seed_follow_the_router() {
    let text = r#"{"ret": {"type": "shuffle", "dictionary": [0, 1, 2, 3, 4]}}"#;
    let loaded = load("main", text, &Files::default(), &globals().with_shuffle_seed(7)).unwrap();
    assert_eq!(loaded.json.to_string(), r#"{"ret":[2,4,3,1,0]}"#);
}
